package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestGroup: which files make one run, in layouts that people have.
func TestGroup(t *testing.T) {
	many := func(format string, from, to int) (names []string) {
		for i := from; i < to; i++ {
			names = append(names, fmt.Sprintf(format, i))
		}
		return names
	}
	for _, c := range []struct {
		name  string
		files []string // "T " before text, "A " before an accessory, "K " before a record, "S " before what says nothing
		want  []string // place: number of files; or what says nothing
	}{
		{"one folder, one run", []string{"d/a/snapshot.pickle", "T d/a/train.log", "T d/a/nvidia-smi.csv", "A d/a/config.json"}, []string{"d/a: 4"}},
		{"ranks", []string{"d/a/rank0.pickle", "d/a/rank1.pickle", "d/a/rank_2_memory.pickle"}, []string{"d/a: 3"}},
		{"ranks in folders", []string{"d/a/rank0/snapshot.pickle", "d/a/rank1/snapshot.pickle", "T d/a/log.txt"}, []string{"d/a: 3"}},
		{"torchtitan", []string{"d/memory_snapshot/iteration_10/rank0_memory_snapshot.pickle", "d/memory_snapshot/iteration_10_exit/rank0_memory_snapshot.pickle"}, []string{"d: 2"}},
		{"dumps and the failure", []string{"d/a/snapshot_step100.pickle", "d/a/snapshot_step200.pickle", "d/a/oom.pickle"}, []string{"d/a: 3"}},
		{"a folder of logs", []string{"d/a/snapshots/x.pickle", "T d/a/logs/train.log"}, []string{"d/a: 2"}},
		{"unrelated side by side", []string{"d/bert.pickle", "d/gpt.pickle", "T d/bert.log", "A d/gpt.labels.json"}, []string{"d/bert.pickle: 2", "d/gpt.pickle: 2"}},
		{"unrelated by number", many("d/run_%04d.pickle", 0, 5), []string{"d/run_0000.pickle: 1", "d/run_0001.pickle: 1", "d/run_0002.pickle: 1", "d/run_0003.pickle: 1", "d/run_0004.pickle: 1"}},
		{"bare numbers from 0 are ranks", many("d/snapshot_%d.pickle", 0, 4), []string{"d: 4"}},
		{"bare numbers from 1 are runs", many("d/snapshot_%d.pickle", 1, 3), []string{"d/snapshot_1.pickle: 1", "d/snapshot_2.pickle: 1"}},
		{"too many numbers for ranks", many("d/snapshot_%d.pickle", 0, 100), nil},
		{"a broken one beside", []string{"d/a/snapshot.pickle", "d/a/broken.pickle"}, []string{"d/a/broken.pickle: 1", "d/a/snapshot.pickle: 1"}},
		{"a log of nobody's", []string{"d/bert.pickle", "d/gpt.pickle", "T d/log.txt"}, []string{"d/bert.pickle: 1", "d/gpt.pickle: 1", "d/log.txt: 1"}},
		{"logs alone", []string{"T d/a/train.log", "T d/a/smi.csv"}, []string{"d/a: 2"}},
		{"logs of several", []string{"T d/slurm-1.out", "T d/slurm-2.out"}, []string{"d/slurm-1.out: 1", "d/slurm-2.out: 1"}},
		{"a job's files", []string{"T d/error_16012458.txt", "T d/results_16012458.txt", "T d/slurm-16012458.out"}, []string{"d: 3"}},
		{"two jobs' files", []string{"T d/train-1.err", "T d/train-1.out", "T d/train-2.err", "T d/train-2.out"}, []string{"d/train-1.err: 2", "d/train-2.err: 2"}},
		{"a configuration alone", []string{"A d/a/config.json"}, []string{}},
		{"two jobs in one folder", []string{"d/bert_rank0.pickle", "d/bert_rank1.pickle", "d/gpt_rank0.pickle", "d/gpt_rank1.pickle"}, []string{"d/bert_rank0.pickle: 2", "d/gpt_rank0.pickle: 2"}},
		{"checkpoints", []string{"T d/a/train.log", "A d/a/config.json", "A d/a/checkpoint-30/config.json", "T d/a/checkpoint-30/trainer_state.json", "A d/a/checkpoint-60/config.json"}, []string{"d/a: 5"}},
		{"downloaded weights", []string{"A d/llama/config.json", "A d/llama/draft/config.json"}, []string{}},
		{"torchrun", []string{"T d/none_x7/attempt_0/0/stderr.log", "T d/none_x7/attempt_0/0/stdout.log", "T d/none_x7/attempt_0/1/stderr.log", "T d/none_x7/attempt_1/0/stderr.log"},
			[]string{"d/none_x7/attempt_0: 3", "d/none_x7/attempt_1: 1"}},
		{"attempts of someone else's", []string{"T d/attempt_0/train.log", "T d/attempt_1/train.log"}, []string{"d/attempt_0: 1", "d/attempt_1: 1"}},
		{"wandb's copy", []string{"T d/a/train.log", "T d/a/wandb/run-20250312_100211-ab/files/output.log", "T d/b/wandb/offline-run-20250312_100211-cd/files/output.log"}, []string{"d/a: 2", "d/b: 1"}},
		{"a run of wandb's that was copied", []string{"K d/x/run-20250312_100211-ab/run-ab.wandb", "T d/x/run-20250312_100211-ab/files/output.log"}, []string{"d/x/run-20250312_100211-ab: 2"}},
		{"wandb's runs from one place", []string{"T d/a.log", "T d/wandb/run-20250312_100211-ab/files/output.log", "T d/wandb/run-20250312_100211-ab/logs/debug.log", "T d/wandb/run-20250313_090000-cd/files/output.log"},
			[]string{"d: 1", "d/wandb/run-20250312_100211-ab: 2", "d/wandb/run-20250313_090000-cd: 1"}},
		{"logs that say nothing", []string{"S d/a/err.log", "S d/a/out.log", "S d/b/out.log", "T d/b/smi.csv", "A d/c/config.json", "S d/c/out.log"}, []string{"d/b: 1", "d/a/err.log"}},
		{"what run records", []string{"K d/a/run.json", "T d/a/output.log", "d/a/pid7-0-step2.pickle", "d/a/pid7-1-step5.pickle", "d/a/pid9-0-oom.pickle"}, []string{"d/a: 5"}},
		{"unrelated ones beside it", []string{"K d/a/run.json", "T d/a/output.log", "d/a/pid7-0-step2.pickle", "d/a/bert.pickle", "d/a/gpt.pickle", "T d/a/bert.log"},
			[]string{"d/a: 3", "d/a/bert.pickle: 2", "d/a/gpt.pickle: 1"}},
		{"one beside it", []string{"K d/a/run.json", "d/a/pid7-0-step2.pickle", "d/a/rank1-pid9-0-oom.pickle", "d/a/bert.pickle"},
			[]string{"d/a: 3", "d/a/bert.pickle: 1"}},
		{"unrelated ones beside a run without recordings", []string{"K d/a/run.json", "T d/a/output.log", "d/a/bert.pickle", "d/a/gpt.pickle"},
			[]string{"d/a: 2", "d/a/bert.pickle: 1", "d/a/gpt.pickle: 1"}},
		{"too many to be one program's", append(many("d/snapshot_lr%d.pickle", 1, 18), "T d/log.txt"),
			append([]string{"d/log.txt: 1"}, slices.Sorted(slices.Values(many("d/snapshot_lr%d.pickle: 1", 1, 18)))...)},
		{"one program's recordings and its output", []string{"d/a/snapshot_all.pickle", "d/a/snapshot_none.pickle", "T d/a/log.txt", "T d/a/run.json", "T d/a/bert.log"},
			[]string{"d/a/bert.log: 1", "d/a/snapshot_all.pickle: 3", "d/a/snapshot_none.pickle: 3"}},
		{"two programs' recordings and a log", []string{"d/a/bert.pickle", "d/a/gpt.pickle", "T d/a/log.txt"},
			[]string{"d/a/bert.pickle: 1", "d/a/gpt.pickle: 1", "d/a/log.txt: 1"}},
		{"its recording under another name", []string{"K d/a/run.json", "T d/a/output.log", "d/a/oom.pickle"}, []string{"d/a: 3"}},
		{"a run.json of another's", []string{"A d/a/run.json", "d/a/pid7-0-step2.pickle", "d/a/pid7-1-step5.pickle"}, []string{"d/a/pid7-0-step2.pickle: 1", "d/a/pid7-1-step5.pickle: 1"}},
		{"not above the root", []string{"d/snapshot.pickle"}, []string{"d: 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var files []candidate
			for _, name := range c.files {
				f := candidate{Path: name, Root: "d", Kind: kindRecording, Bytes: 1}
				if kind, rest, ok := strings.Cut(name, " "); ok {
					f.Path, f.Kind = rest, map[string]fileKind{"T": kindText, "A": kindAccessory, "S": kindSilent, "K": kindTracked}[kind]
				}
				files = append(files, f)
			}
			got := []string{}
			total := 0
			runs, silent := group(files)
			for _, r := range runs {
				got = append(got, fmt.Sprintf("%s: %d", r.Place, len(r.Files)))
				total += len(r.Files)
			}
			got = append(got, silent...)
			if c.want == nil {
				if len(runs) != len(files) {
					t.Errorf("%d runs of %d files", len(runs), len(files))
				}
			} else if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			slices.Reverse(files)
			again, _ := group(files)
			for i, r := range again {
				if r.Place != runs[i].Place || !slices.Equal(r.Files, runs[i].Files) {
					t.Errorf("in another order of files, run %d is %s %q", i, r.Place, r.Files)
				}
			}
		})
	}
}
