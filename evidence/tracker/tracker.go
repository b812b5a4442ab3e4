// Package tracker reads what experiment trackers leave in a run's folder: steps with
// loss, time and memory, parameters, and readings of GPUs.
//
//	if form := tracker.Recognise(path, head); form != nil {
//		found, err := form.Read(file, path)
//	}
//
// Nothing in such a file is executed; every length, depth and count is bounded.
package tracker

import (
	"bytes"
	"io"
	"path"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/sniff"
)

// Form is one kind of file that trackers write.
type Form struct {
	Kind    string // as reports name it
	Tracker string // who writes it, as people call it
	Doc     string // one line for doc/evidence.md

	is   func(name string, head []byte) bool
	read func(r *run, in io.Reader) error
}

// Forms are all of them, in the order in which a file is offered.
var Forms = []*Form{
	{"run_record", "vramscope run", "`run.json` of `vramscope run`: where the program ran",
		func(_ string, head []byte) bool { return sniff.IsRunRecord(head) }, readLaunched},
	{"trainer_state", "Trainer", "`trainer_state.json` of Transformers' Trainer", isTrainerState, readTrainerState},
	{"trainer_results", "Trainer", "`all_results.json` and its kin", isResults, readSummary},
	{"tensorboard_events", "TensorBoard", "TensorBoard's event files", isEvents, readEvents},
	{"wandb_run", "W&B", "W&B's `run-ID.wandb`, offline runs too, with its readings of GPUs", isWandb, readWandb},
	{"wandb_summary", "W&B", "W&B's `wandb-summary.json`", named("wandb-summary.json", '{'), readSummary},
	{"wandb_metadata", "W&B", "W&B's `wandb-metadata.json`: the command and the GPUs",
		named("wandb-metadata.json", '{'), readMetadata},
	{"parameters", "W&B", "W&B's `config.yaml`", isWandbConfig, readYAML},
	{"parameters", "Lightning", "Lightning's `hparams.yaml`", named("hparams.yaml", 0), readYAML},
	{"mlflow_metric", "MLflow", "MLflow's metrics below `mlruns`, its readings of GPUs among them",
		isMLflow("metrics"), readMLflowMetric},
	{"mlflow_parameter", "MLflow", "MLflow's parameters", isMLflow("params"), readMLflowParameter},
	{"mlflow_run", "MLflow", "MLflow's `meta.yaml`: how the run ended", isMLflowRun, readMLflowRun},
	{"metrics_csv", "CSV", "Lightning's and other tables with a column of steps (`metrics.csv`)", isTable, readTable},
}

// Found is what one file holds.
type Found struct {
	Steps      *evidence.Steps // nil: none
	Parameters *evidence.Parameters
	GPUs       []evidence.GPU
	Ending     evidence.Ending
	GPUBytes   int64 // that each has, as the figures say; 0: they don't
}

// Recognise tells such a file by its name and its beginning; nil for any other.
func Recognise(name string, head []byte) *Form {
	for _, f := range Forms {
		if f.is(name, head) {
			return f
		}
	}
	return nil
}

// Read reads a file. When it breaks off, what came before is found. What the program
// printed, of which some trackers keep a copy, goes to the console; nil: nobody wants it.
func (f *Form) Read(in io.Reader, name string, console io.Writer) (*Found, error) {
	r := newRun(f, name)
	r.console = console
	err := f.read(r, in)
	return r.found(), err
}

func named(base string, first byte) func(string, []byte) bool {
	return func(name string, head []byte) bool {
		return path.Base(slashed(name)) == base && (first == 0 || firstByte(head) == first)
	}
}

func firstByte(head []byte) byte {
	head = bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n")
	if len(head) == 0 {
		return 0
	}
	return head[0]
}

func slashed(name string) string { return strings.ReplaceAll(name, `\`, "/") }
