package main

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/report"
)

// TestJSONIsDescribed looks every field of the JSON up in doc/json.md, under the
// heading of its schema, and asks whether that names any that isn't there.
func TestJSONIsDescribed(t *testing.T) {
	text, err := os.ReadFile("../../doc/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	sections["A report"] += sections["A device"]
	type budgets struct { // in a report, and the command's
		Within compare.Result
		Alone  budgetDocument
	}
	for title, v := range map[string]any{"A report": report.Document{}, "A comparison": report.Diff{}, "A budget": budgets{}, "What was replayed": whatifDocument{},
		"An explanation": explain.Document{}} {
		fields := map[string]bool{}
		fieldsOf(reflect.TypeOf(v), fields, map[reflect.Type]bool{})
		if title == "A comparison" { // where the two inputs are as in a report
			inputs := map[string]bool{}
			fieldsOf(reflect.TypeOf(report.Input{}), inputs, map[reflect.Type]bool{})
			for name := range inputs {
				delete(fields, name)
			}
		}
		if title == "An explanation" { // which has parts of a report
			parts := map[string]bool{}
			fieldsOf(reflect.TypeOf(report.Document{}), parts, map[reflect.Type]bool{})
			own := map[string]bool{}
			fieldsOf(reflect.TypeOf(explain.Group{}), own, map[reflect.Type]bool{reflect.TypeOf(report.Site{}): true})
			for name := range parts {
				if !own[name] {
					delete(fields, name)
				}
			}
		}
		said := map[string]bool{}
		for _, name := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(sections[title], -1) {
			said[name] = true
		}
		for name := range fields {
			if !said[name] {
				t.Errorf("%s: no word of %s", title, name)
			}
		}
		for name := range said {
			if strings.HasSuffix(name, "_bytes") && !fields[name] && title != "An explanation" {
				t.Errorf("%s: there is no %s", title, name)
			}
		}
	}
}

// fieldsOf collects the names that values of a type have in JSON.
func fieldsOf(t reflect.Type, into map[string]bool, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fieldsOf(t.Elem(), into, seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("json")
			if name == "-" {
				continue
			}
			if name != "" {
				into[name] = true
			}
			fieldsOf(f.Type, into, seen)
		}
	}
}

// TestReadmeSample: what the README shows is what the recording that ships gives.
func TestReadmeSample(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?s)go run ./cmd/vramscope analyze (testdata/\\S+\\.pickle\\.gz)[^\n]*\n```\n\n```\n(.*?)```").
		FindStringSubmatch(string(readme))
	if command == nil {
		t.Fatal("the README shows no sample")
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"analyze", "../../" + command[1]}, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	if !strings.HasPrefix(stdout.String(), command[2]) {
		t.Errorf("the README shows\n%s\nwhere it says\n%s", command[2], stdout.String())
	}
}
