package sarif_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/sarif"
)

func document() *report.Document {
	line, stored := 14, 21
	file, code, fix := "/work/job/src/train.py", "self.preds.append(y)", "store a copy on the host"
	leak := &report.Leak{StoredFile: &file, StoredLine: &stored, StoredCode: &code}
	return &report.Document{Tool: "vramscope 1.2", Verdict: report.Verdict{Severity: report.Warning, Text: "Every step leaves 50 % behind:\nat train.py"},
		Devices: []report.Device{{Findings: []report.Finding{
			{ID: "growing_list", Severity: report.Warning, Title: "Tensors pile up", Fix: &fix, Leak: leak,
				At: &report.Place{Function: "encode", File: file, Line: &line}},
			{ID: "oom_true_shortage", Severity: report.Critical, Title: "a\x1b[31m, b: c", At: &report.Place{File: `C:\x,y\t.py`, Line: &line}},
			{ID: "growing_list", Severity: report.Info, Title: "no line"}}}}}
}

// TestSARIF has a result for each finding, at the statement that stores where one is known.
func TestSARIF(t *testing.T) {
	var b bytes.Buffer
	if err := sarif.Write(&b, document(), "/work/job"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Level string
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
				RelatedLocations    []struct{ Message struct{ Text string } }
				PartialFingerprints map[string]string
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Version != "2.1.0" || len(got.Runs) != 1 {
		t.Fatalf("%v: %s", err, b.String())
	}
	r := got.Runs[0]
	if len(r.Tool.Driver.Rules) != 2 || len(r.Results) != 3 {
		t.Fatalf("%+v", r)
	}
	first := r.Results[0]
	if p := first.Locations[0].PhysicalLocation; first.Level != "warning" || p.ArtifactLocation.URI != "src/train.py" || p.Region.StartLine != 21 {
		t.Errorf("%+v", first)
	}
	if len(first.RelatedLocations) != 1 || first.RelatedLocations[0].Message.Text != "made here" {
		t.Errorf("%+v", first.RelatedLocations)
	}
	if uri := r.Results[1].Locations[0].PhysicalLocation.ArtifactLocation.URI; r.Results[1].Level != "error" || uri != "./C:/x,y/t.py" {
		t.Errorf("%s %s", r.Results[1].Level, uri)
	}
	if len(r.Results[2].Locations) != 0 || r.Results[2].PartialFingerprints["vramscope/1"] == first.PartialFingerprints["vramscope/1"] {
		t.Errorf("%+v", r.Results[2])
	}
}

// TestAnnotations writes one command a line, whatever names hold.
func TestAnnotations(t *testing.T) {
	var b bytes.Buffer
	if err := sarif.Annotate(&b, document(), "/work/job"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`::warning title=vramscope::Every step leaves 50 %25 behind:\nat train.py`,
		`::warning file=src/train.py,line=21,title=growing_list::Tensors pile up. store a copy on the host`,
		`::error file=C%3A/x%2Cy/t.py,line=14,title=oom_true_shortage::a\x1b[31m, b: c`,
		`::notice title=growing_list::no line`,
	}
	if got := strings.TrimRight(b.String(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%s", got)
	}
}
