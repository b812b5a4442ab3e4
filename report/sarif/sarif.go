// Package sarif writes findings where code is reviewed: as SARIF 2.1.0, which code scanning shows, and as
// the lines by which a GitHub workflow annotates a pull request.
package sarif

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

type log struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []run  `json:"runs"`
}

type run struct {
	Tool struct {
		Driver driver `json:"driver"`
	} `json:"tool"`
	Results    []result `json:"results"`
	Properties any      `json:"properties"`
}

type driver struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Rules   []rule `json:"rules"`
}

type rule struct {
	ID string `json:"id"`
}

type result struct {
	RuleID       string            `json:"ruleId"`
	Level        string            `json:"level"`
	Message      text              `json:"message"`
	Locations    []location        `json:"locations,omitempty"`
	Related      []location        `json:"relatedLocations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Properties   any               `json:"properties,omitempty"`
}

type text struct {
	Text string `json:"text"`
}

type location struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *region `json:"region,omitempty"`
	} `json:"physicalLocation"`
	Message *text `json:"message,omitempty"`
}

type region struct {
	StartLine int `json:"startLine"`
}

// Write writes a document's findings as SARIF; files below a folder are named from there.
func Write(w io.Writer, doc *report.Document, below string) error {
	name, version, _ := strings.Cut(doc.Tool, " ")
	r := run{Results: []result{}, Properties: map[string]any{"verdict": doc.Verdict.Text}}
	r.Tool.Driver = driver{cmp.Or(name, "vramscope"), version, []rule{}}
	for _, f := range findings(doc) {
		if rules := &r.Tool.Driver.Rules; !slices.Contains(*rules, rule{f.ID}) {
			*rules = append(*rules, rule{f.ID})
		}
		r.Results = append(r.Results, resultOf(f, below))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(log{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []run{r}})
}

// findings are those of all devices and of the whole.
func findings(doc *report.Document) (all []*report.Finding) {
	for i := range doc.Devices {
		for k := range doc.Devices[i].Findings {
			all = append(all, &doc.Devices[i].Findings[k])
		}
	}
	for i := range doc.Findings {
		all = append(all, &doc.Findings[i])
	}
	return all
}

var levels = map[report.Severity]string{report.Info: "note", report.Warning: "warning", report.Critical: "error"}

func resultOf(f *report.Finding, below string) result {
	r := result{RuleID: f.ID, Level: cmp.Or(levels[f.Severity], "note"), Message: text{message(f)},
		Properties: map[string]any{"confidence": f.Confidence, "savesBytes": f.SavesBytes}}
	at, others := places(f)
	key := f.ID
	if at != nil {
		r.Locations = []location{locate(at, below, "")}
		key += "\x00" + path.Base(slashed(at.File)) + "\x00" + at.Function
	}
	for _, o := range others {
		r.Related = append(r.Related, locate(o.place, below, o.did))
	}
	sum := sha256.Sum256([]byte(key))
	r.Fingerprints = map[string]string{"vramscope/1": hex.EncodeToString(sum[:16])}
	return r
}

// message is a finding and what helps.
func message(f *report.Finding) string {
	if fix := evidence.Or(f.Fix, ""); fix != "" {
		return f.Title + ". " + fix
	}
	return f.Title
}

// other is a further line of a finding.
type other struct {
	place *report.Place
	did   string
}

// places are the line that a finding is about, and others: of a leak the statement that stores it
// comes first, where it is known.
func places(f *report.Finding) (at *report.Place, others []other) {
	at = f.At
	if f.Leak == nil {
		return at, nil
	}
	if stored := f.Leak.Stored(); stored != nil {
		if at != nil {
			others = append(others, other{at, "made here"})
		}
		at = stored
	}
	if p := f.Leak.CalledFrom; p != nil {
		others = append(others, other{p, "called from here"})
	}
	return at, others
}

func locate(p *report.Place, below, did string) location {
	var l location
	l.Physical.Artifact.URI = (&url.URL{Path: Named(p.File, below)}).String()
	if line := evidence.Or(p.Line, 0); line > 0 {
		l.Physical.Region = &region{line}
	}
	if did != "" {
		l.Message = &text{did}
	}
	return l
}

func slashed(file string) string { return strings.ReplaceAll(file, `\`, "/") }

// Named is a file's name as a repository has it: from a folder on where it lies below that.
func Named(file, below string) string {
	file = path.Clean(slashed(file))
	if inside, ok := strings.CutPrefix(file, strings.TrimSuffix(slashed(below), "/")+"/"); ok && below != "" {
		return inside
	}
	return file
}

// Annotate writes a document's verdict and findings as commands of a GitHub workflow.
func Annotate(w io.Writer, doc *report.Document, below string) error {
	commands := map[report.Severity]string{report.Info: "notice", report.Warning: "warning", report.Critical: "error"}
	var b strings.Builder
	fmt.Fprintf(&b, "::%s title=vramscope::%s\n", cmp.Or(commands[doc.Verdict.Severity], "notice"), data(doc.Verdict.Text))
	for _, f := range findings(doc) {
		at, _ := places(f)
		where := ""
		if at != nil {
			where = "file=" + property(Named(at.File, below)) + ","
			if line := evidence.Or(at.Line, 0); line > 0 {
				where += fmt.Sprintf("line=%d,", line)
			}
		}
		fmt.Fprintf(&b, "::%s %stitle=%s::%s\n", cmp.Or(commands[f.Severity], "notice"), where, property(f.ID), data(message(f)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// data is text that ends a command; GitHub reads these escapes (actions/toolkit, packages/core/src/command.ts).
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(view.Printable(s))
}

// property is text within one.
func property(s string) string { return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s)) }
