package diagnose_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/report"
)

// TestCauses: of every run that failed, the causes and the first change that an expert names.
func TestCauses(t *testing.T) {
	data, err := os.ReadFile("testdata/causes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		row := strings.Split(line, "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if row[1] == "folder" {
			t.Run(row[0], func(t *testing.T) {
				files, _ := filepath.Glob("../testdata/" + row[0] + "/*")
				checkCauses(t, analyzed(t, files...), strings.Fields(row[2]), row[3])
			})
			continue
		}
		for _, file := range recordingsOf(t, row[0], row[1]) {
			t.Run(strings.TrimSuffix(row[0]+"/"+filepath.Base(file), ".pickle.gz"), func(t *testing.T) {
				checkCauses(t, analyzed(t, file), strings.Fields(row[2]), row[3])
			})
		}
	}
}

func checkCauses(t *testing.T, doc *report.Document, want []string, change string) {
	var got []string
	for _, c := range doc.Verdict.Causes {
		got = append(got, c.Cause)
	}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("the causes are %v, should begin with %v: %s", got, want, doc.Verdict.Text)
	}
	for i := range doc.Devices {
		if d := &doc.Devices[i]; change != "-" && len(d.OOMs) > 0 && (len(d.Changes) == 0 || *d.Changes[0].FixID != change) {
			t.Errorf("the first change is %+v, should be %s", d.Changes, change)
		}
	}
}

// recordingsOf are the files of a row: shipped ones, or with a corpus those of its runs.
func recordingsOf(t *testing.T, folder, variants string) (files []string) {
	switch {
	case strings.HasPrefix(folder, "labelled/"):
		for _, variant := range strings.Fields(variants) {
			files = append(files, corpus.Glob(t, folder+"/snapshot_"+variant+".pickle.gz")...)
		}
		return files
	case strings.HasPrefix(folder, "scenarios/"):
		files, _ = filepath.Glob("../testdata/" + folder + "__*.pickle.gz")
	case variants == "dir":
		files, _ = filepath.Glob("../testdata/" + folder + "/*.pickle.gz")
	default:
		for _, variant := range strings.Fields(variants) {
			more, _ := filepath.Glob("../testdata/" + folder + "/snapshot_" + variant + ".pickle.gz")
			files = append(files, more...)
		}
	}
	if len(files) == 0 {
		t.Errorf("no recording of %s", folder)
	}
	return files
}

// TestAsleep: where PyTorch counts more than the GPU has, the figure of what the process holds tells what sleeps.
func TestAsleep(t *testing.T) {
	const message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 MiB. GPU 0 has a total capacity of 2.50 GiB " +
		"of which 10.00 MiB is free. Including non-PyTorch memory, this process has %s memory in use. Of the allocated memory 2.74 GiB " +
		"is allocated by PyTorch, and 54.80 MiB is reserved by PyTorch but unallocated.\n"
	for process, want := range map[string][]string{"1.20 GiB": {report.Sleeping, report.HeldCause}, "2.79 GiB": {report.HeldCause}} {
		log := filepath.Join(t.TempDir(), "train.log")
		if err := os.WriteFile(log, fmt.Appendf(nil, message, process), 0o600); err != nil {
			t.Fatal(err)
		}
		change := map[string]string{report.Sleeping: "asleep", report.HeldCause: "held"}[want[0]]
		checkCauses(t, analyzed(t, "testdata/table_held/pid4242-0-oom.pickle.gz", log), want, change)
	}
}

// TestAttempts: passes that failed requests broke off are no passes without a backward one.
func TestAttempts(t *testing.T) {
	doc := analyzed(t, recordingsOf(t, "runs/oom/retried_batches", "dir")...)
	d := &doc.Devices[0]
	if len(d.Steps) < 10 || len(d.Leaks) > 0 {
		t.Errorf("%d steps, %+v", len(d.Steps), d.Leaks)
	}
	for _, f := range d.Findings {
		if f.ID == "missing_no_grad" {
			t.Errorf("%s: %s", f.ID, f.Title)
		}
	}
}

// TestLarger: how much larger the batch of a failure is than all before it, by its inputs or by what its pass makes; and bounding
// its inputs is advised with an if where nothing shows that they grew.
func TestLarger(t *testing.T) {
	for folder, want := range map[string]struct {
		times    float64
		unproven bool
	}{"runs/oom/rendered_picture": {16, true}, "runs/oom/checkpointed_whole": {0, false},
		"runs/oom/summed_micro_batches": {0, false}, "recordings/true_shortage_oom__fsdp_gather": {4, true},
		"unseen/oom_backward__long_attention": {1.6, false}} {
		files := recordingsOf(t, folder, "dir")
		d := &analyzed(t, files[0]).Devices[0]
		times, fix := 0.0, ""
		if o := d.OOMs[0]; o.LargerTimes != nil {
			times = *o.LargerTimes
		}
		for _, f := range d.Findings {
			if f.Fix != nil {
				fix += *f.Fix + "\n"
			}
		}
		if math.Abs(times-want.times) > 0.1 || strings.Contains(fix, "if they are larger: ") != want.unproven ||
			strings.Contains(fix, "Bound the inputs") != (want.times > 0) {
			t.Errorf("%s: %v times, want %v:\n%s", folder, times, want, fix)
		}
	}
}

// TestKeeper: the names of earlier models' weights tell which variable leads to them.
func TestKeeper(t *testing.T) {
	doc := analyzed(t, recordingsOf(t, "runs/oom/kept_models", "dir")...)
	if c := doc.Verdict.Causes[0]; c.Holder == nil || *c.Holder != "main.results" || c.Count != 7 {
		t.Errorf("%+v, want 7 models in main.results", c)
	}
}
