package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answer is what the program says, as JSON where into isn't nil.
func answer(t *testing.T, into any, args ...string) string {
	t.Helper()
	if into != nil {
		args = append(args, "--format", "json")
	}
	var stdout, stderr bytes.Buffer
	if code := run(args, strings.NewReader(""), &stdout, &stderr); code != exitFine {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if into != nil {
		if err := json.Unmarshal(stdout.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	return stdout.String()
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOtherProcessKeepsItsNumber: what the log alone names, recording and log together name, too.
func TestOtherProcessKeepsItsNumber(t *testing.T) {
	log := written(t, "train.log", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 27.82 GiB. GPU 0 has a total "+
		"capacity of 139.80 GiB of which 4.96 GiB is free. Process 4242 has 60.50 GiB memory in use. Including non-PyTorch memory, this "+
		"process has 74.13 GiB memory in use. Of the allocated memory 72.87 GiB is allocated by PyTorch, and 774.75 MiB is reserved by "+
		"PyTorch but unallocated. If\n")
	const recording = "../../testdata/recordings/qwen_vocab_oom__05b/snapshot_named.pickle.gz"
	for _, args := range [][]string{{"analyze", "-q", log}, {"analyze", "-q", recording, log}} {
		if said := answer(t, nil, args...); !strings.Contains(said, "4242") {
			t.Errorf("%q names no process:\n%s", args[1:], said)
		}
	}
}

// TestDecimalGigabytes: a log whose GB are 10^9 bytes is of the recorded steps.
func TestDecimalGigabytes(t *testing.T) {
	const run = "../../testdata/recordings/growing_list__step_cache/"
	printed, err := os.ReadFile(run + "log.txt")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(string(printed)), "\n") {
		var step, bytes int64
		var loss float64
		if _, err := fmt.Sscan(line, &step, &loss, &bytes); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&log, "step %d loss %.3f memory allocated %.2f GB\n", step, loss, float64(bytes)/1e9)
	}
	var doc struct {
		Clocks []struct {
			Reason     string
			Confidence float64
		}
	}
	answer(t, &doc, "analyze", run+"snapshot_all.pickle.gz", written(t, "train.log", log.String()))
	if len(doc.Clocks) != 1 || doc.Clocks[0].Confidence < 0.9 || !strings.Contains(doc.Clocks[0].Reason, "8 steps is what was recorded") {
		t.Errorf("%+v", doc.Clocks)
	}
}

// TestMasterWeightsStay: an 8-bit optimizer shrinks moments, not the fp32 copy of the weights.
func TestMasterWeightsStay(t *testing.T) {
	var doc struct {
		Scenarios []struct {
			Peak int64 `json:"peak_allocated_bytes"`
		}
	}
	answer(t, &doc, "whatif", "../../testdata/scenarios/master_copies__python.pickle.gz", "--change", "optimizer=8bit")
	const master = 29_000_000 // bytes; each of two moments is as much
	saved := doc.Scenarios[0].Peak - doc.Scenarios[len(doc.Scenarios)-1].Peak
	// Three quarters of the moments: those of the masters would come on top.
	if saved < master || saved > master*7/4 {
		t.Errorf("saves %d bytes", saved)
	}
}

// told is what an answer says that more evidence must not take back.
type told struct {
	Verdict struct {
		Severity string
		Device   *int
		Finding  *int
	}
	Devices []struct {
		Findings []struct{ ID string }
		Leaks    []struct {
			Kind   string
			Defect bool
		}
	}
}

// about is the finding that the verdict is about, "" for none.
func (a *told) about() string {
	if a.Verdict.Device == nil || a.Verdict.Finding == nil {
		return ""
	}
	return a.Devices[*a.Verdict.Device].Findings[*a.Verdict.Finding].ID
}

// leaks are the kinds of defects that leak.
func (a *told) leaks() (kinds []string) {
	for _, d := range a.Devices {
		for _, l := range d.Leaks {
			if l.Defect {
				kinds = append(kinds, l.Kind)
			}
		}
	}
	return kinds
}

// TestMoreEvidenceIsNoWorse: a recording's log, labels and holders beside it neither turn its verdict nor take a leak back.
func TestMoreEvidenceIsNoWorse(t *testing.T) {
	runs := map[string][]string{}
	logs, _ := filepath.Glob("../../testdata/recordings/*/log.txt")
	for _, log := range logs {
		dumps, _ := filepath.Glob(filepath.Join(filepath.Dir(log), "snapshot_*.pickle.gz"))
		runs[dumps[0]] = []string{log}
	}
	const run = "../../testdata/runs/kept_losses/"
	dump := run + "pid4242-0-oom"
	runs[dump+".pickle.gz"] = []string{run + "output.log", dump + ".labels.json", dump + ".holders.json"}
	if len(runs) < 10 {
		t.Fatalf("%d runs", len(runs))
	}
	for dump, more := range runs {
		t.Run(strings.TrimPrefix(filepath.Dir(dump), "../../testdata/"), func(t *testing.T) {
			dir := t.TempDir() // where nothing else lies beside it
			given := []string{"analyze", copied(t, dump, dir)}
			var before told
			answer(t, &before, given...)
			for _, evidence := range more {
				given = append(given, copied(t, evidence, dir))
				var after told
				answer(t, &after, given...)
				if after.about() != before.about() || after.Verdict.Severity != before.Verdict.Severity {
					t.Errorf("%s makes the verdict %s about %q, which was %s about %q", filepath.Base(evidence),
						after.Verdict.Severity, after.about(), before.Verdict.Severity, before.about())
				}
				if len(after.leaks()) < len(before.leaks()) {
					t.Errorf("%s leaves %q of the leaks %q", filepath.Base(evidence), after.leaks(), before.leaks())
				}
				before = after
			}
		})
	}
}

// copied is a file's copy in another folder.
func copied(t *testing.T, path, dir string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
