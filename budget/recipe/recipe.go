// Package recipe reads the file that a framework trains or serves by, and says which flags
// of the budget mean the same, which fields say so, and which say nothing of memory.
//
//	r, err := recipe.Read("train.yaml", file)
//	fmt.Println(r.Format, r.Model, r.Fields, r.Ignored)
//
// Nothing in a file is executed, and no other file is opened. Files are read in two steps:
// a reader for each syntax makes a list of fields with their values (syntax_), formats.txt
// tells whose file it is, rows.txt what its fields mean, words.txt what their words do, and
// what they say together is settled by a function (format_). To add a format, write it into
// formats.txt and rows.txt, and a file of it into testdata.
package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// Recipe is what a file says of a budget.
type Recipe struct {
	Format  string         // whose file it is: "torchtune recipe"
	Fields  []Field        // those used, in the order of the file; behind them what the framework does unasked
	Unasked []string       // flags of what the framework does unless a field says otherwise
	Ignored []string       // those not used
	Open    []string       // of those, with their values, the ones that a peak may depend on
	Model   string         // a model's name or folder, "" where the file tells none
	Shape   map[string]any // fields of a config.json, where the file describes the model; else nil
	Head    string         // what the program puts on the model, as SequenceClassification, "" where that isn't told
	Labels  int64          // of that head, 0 where the file tells none
	OneRow  bool           // a batch's sequences are packed into one row

	trainer  func(method string) // settles what TRL's settings mean under a trainer that they don't tell; nil where they do
	method   string              // of TRL's, by a command
	settings string              // whose settings are in this other file

	Untyped bool // no field says what type weights are loaded in, and the program takes the checkpoint's

	openFields int  // of those in Open, how many are fields
	computes   bool // its type is what is computed in, whatever weights are kept in
	autocasts  bool // it is computed in 16 bits whatever type weights are loaded in
}

// Field is a field of a file, with the flags that mean the same.
type Field struct {
	Name  string // "" for what no field says, but the framework does
	Value string
	Flags []Flag
}

// Flag is a flag of the budget, without its dashes.
type Flag struct{ Name, Value string }

// Bounds of what is read; real files have some kilobytes and a hundred fields.
const (
	maxBytes  = 1 << 20
	maxFields = 20_000
	maxDepth  = 64
	maxText   = 4096 // of a value
)

// ErrUnknown is for a file of no format that is known.
var ErrUnknown = errors.New("no recipe of a known framework: known are " + strings.Join(Formats(), ", "))

var (
	errMany = fmt.Errorf("more than %d fields", maxFields)
	errDeep = fmt.Errorf("deeper than %d levels", maxDepth)
)

// Candidate says whether a file may be a recipe by its name.
func Candidate(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".toml", ".json", ".sh"}, strings.ToLower(path.Ext(name)))
}

// Read reads a file; its name's end tells the syntax, where there is one.
func Read(name string, r io.Reader) (*Recipe, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("a recipe of more than %d MiB is none", maxBytes>>20)
	}
	var first error
	for _, read := range syntaxes(name, text) {
		fs := &fields{file: path.Base(name), values: map[string]string{}}
		if read(fs, text); fs.err != nil {
			first = cmp.Or(first, fs.err)
		} else if f := formatOf(fs); f != nil {
			return f.read(fs), nil
		}
	}
	if first == nil {
		first = ErrUnknown
		if named := namesRecipe().FindString(string(text)); named != "" && strings.EqualFold(path.Ext(name), ".sh") {
			first = fmt.Errorf("%w; the script names %s, which may be one", ErrUnknown, Clipped(named))
		}
	}
	return nil, first
}

var namesRecipe = pattern.Of(`[\w./-]{1,200}\.(ya?ml|toml|json)\b`)

// Formats are the names of those that are read.
func Formats() []string {
	var names []string
	for i := range formats() {
		if !slices.Contains(names, formats()[i].name) {
			names = append(names, formats()[i].name)
		}
	}
	return names
}

// fields are what a file has, in its order.
type fields struct {
	names     []string
	values    map[string]string
	file      string   // its name
	dicts     int      // of keywords that hold others
	workedOut []string // names of those whose values only the running program knows
	plain     bool     // a program with Transformers' arguments and none of TRL's
	perhaps   []string // names of those that a program may mean in another way, each with why in doubts
	doubts    map[string]string
	program   string // a script that a command runs
	head      string // what a class's name puts on the model: SequenceClassification
	labels    int64  // of that head, 0 where nothing tells
	err       error  // why the file can't be read
}

// fail notes why a file can't be read; what comes first counts.
func (f *fields) fail(err error) { f.err = cmp.Or(f.err, err) }

// add notes a field. Where a name comes twice the last one counts, as programs have it.
func (f *fields) add(name, value string) {
	if len(f.names) >= maxFields {
		f.fail(errMany)
		return
	}
	if _, ok := f.values[name]; !ok {
		f.names = append(f.names, name)
	}
	f.values[name] = value[:min(len(value), maxText)]
}

// has says whether there is a field, or one below it.
func (f *fields) has(name string) bool {
	if _, ok := f.values[name]; ok {
		return true
	}
	return slices.ContainsFunc(f.names, func(n string) bool { return strings.HasPrefix(n, name+".") })
}

// doubt notes why a field may be another one.
func (f *fields) doubt(name, why string) {
	if f.doubts[name] != "" || len(f.perhaps) >= maxFields {
		return
	}
	if f.doubts == nil {
		f.doubts = map[string]string{}
	}
	f.perhaps, f.doubts[name] = append(f.perhaps, name), why
}

func (f *fields) yes(name string) bool { return isYes(f.values[name]) }

// isYes tells what the syntaxes' words for true are.
func isYes(v string) bool {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

// isSet tells a value from an empty one, and from those that leave the choice to others.
func isSet(v string) bool {
	switch strings.ToLower(v) {
	case "", "null", "none", "~", "auto", "no", "false", "off":
		return false
	}
	return true
}

// isNo tells what says no, or leaves something at its default.
func isNo(v string) bool { return v == "0" || !isSet(v) && !strings.EqualFold(v, "auto") }
