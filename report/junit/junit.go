// Package junit writes the conditions of a gate as the JUnit XML that CI systems show:
// each is a test case that passed, failed or couldn't be judged.
package junit

import (
	"encoding/xml"
	"io"

	"github.com/vramscope/vramscope/report/view"
)

// Suite is a gate.
type Suite struct {
	Name  string // the command
	About string // what was judged
	Cases []Case
	Text  string // the verdict, for people
}

// Case is a condition.
type Case struct {
	Name   string
	Failed bool   // it holds
	Untold string // why it can't be judged; "": it can
}

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []suite  `xml:"testsuite"`
}

type suite struct {
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Cases    []testcase `xml:"testcase"`
}

type testcase struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	Failure *message `xml:"failure"`
	Error   *message `xml:"error"`
}

type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Write writes a gate. What holds although not all is told is a failure.
func Write(w io.Writer, s *Suite) error {
	out := suite{Name: "vramscope " + s.Name, Tests: len(s.Cases)}
	for _, c := range s.Cases {
		t := testcase{Name: view.Printable(c.Name), Class: "vramscope." + s.Name + "." + view.Printable(s.About)}
		switch {
		case c.Failed:
			out.Failures++
			t.Failure = &message{Message: t.Name + " holds", Text: view.Printable(s.Text)}
		case c.Untold != "":
			out.Errors++
			t.Error = &message{Message: "can't be judged: " + view.Printable(c.Untold)}
		}
		out.Cases = append(out.Cases, t)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(suites{Suites: []suite{out}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
