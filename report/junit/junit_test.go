package junit_test

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report/junit"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	err := junit.Write(&b, &junit.Suite{Name: "analyze", About: "a\x1b[31m<b>", Text: "Out of memory ]]> \"x\" & <y>\x00",
		Cases: []junit.Case{
			{Name: "oom", Failed: true}, {Name: "leak"}, {Name: "reserved>95%", Untold: "the GPU's size isn't known"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Suite struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Class   string `xml:"classname,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
				Error *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	s := got.Suite
	if s.Tests != 3 || s.Failures != 1 || s.Errors != 1 || len(s.Cases) != 3 || s.Cases[0].Failure == nil ||
		s.Cases[1].Failure != nil || s.Cases[2].Error == nil {
		t.Errorf("%+v", s)
	}
	if f := s.Cases[0].Failure; f.Message != "oom holds" || !strings.Contains(f.Text, `Out of memory ]]> "x" & <y>`) {
		t.Errorf("%+v", f)
	}
	if strings.ContainsAny(b.String(), "\x1b\x00") {
		t.Errorf("control characters in %q", b.String())
	}
}
