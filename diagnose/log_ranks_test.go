package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestLogsOfRanks: a failure that ranks tell each in a log of its own is one
// failure, and so is one that a tracker keeps a copy of.
func TestLogsOfRanks(t *testing.T) {
	oom := func(gpu int) string {
		return fmt.Sprintf("step 7 loss 2.1\nTraceback (most recent call last):\n  File \"/a/train.py\", line 50, in f\n    "+
			"x()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.27 GiB. "+
			"GPU %d has a total capacity of 79.15 GiB of which 1.18 GiB is free. Including non-PyTorch memory, this process "+
			"has 77.96 GiB memory in use. "+
			"Of the allocated memory 76.20 GiB is allocated by PyTorch, and 1.21 GiB is reserved by PyTorch but unallocated.\n",
			gpu)
	}
	const fine = "step 7 loss 2.1\nstep 8 loss 2.0\n"
	log := func(name, text string) input { return input{name: name, text: text} }
	tests := []struct {
		name     string
		files    []input
		says     string
		evidence []string // of the ranks, in the end
		rank     int      // of the first message
	}{
		{"names", []input{log("logs/rank_0.log", oom(0)), log("logs/rank_1.log", fine), log("logs/rank_3.log", oom(0))},
			" on 2 ranks, after step 7: ",
			[]string{"told twice in 2 logs", "ranks 0, 3", "no failure in the logs of rank 1", "no log of rank 2 was given"},
			0},
		{"torchrun", []input{log("l/none_x7/attempt_0/0/stderr.log", oom(0)), log("l/none_x7/attempt_0/1/stderr.log", oom(1)),
			log("l/none_x7/attempt_0/2/stdout.log", fine)}, " on 2 ranks, after",
			[]string{"told twice in 2 logs", "ranks 0, 1", "no failure in the logs of rank 2"}, 0},
		{"torchrun's second attempt", []input{log("l/none_x7/attempt_0/0/stderr.log", oom(0)),
			log("l/none_x7/attempt_0/1/stderr.log", fine), log("l/none_x7/attempt_1/1/stderr.log", oom(1))}, " on 2 ranks, after",
			[]string{"told twice in 2 logs", "ranks 0, 1"}, 0},
		{"one of torchrun's", []input{log("l/none_x7/attempt_0/3/stderr.log", oom(3))}, " on GPU 3, after", nil, -1},
		{"two machines", []input{log("none_x7/attempt_0/0/stderr.log", oom(0)), log("none_x7/attempt_0/1/stderr.log", oom(1)),
			log("none_y8/attempt_0/0/stderr.log", oom(0)), log("none_y8/attempt_0/1/stderr.log", oom(1))},
			" on 2 GPUs, after", []string{"told 4 times in 4 logs", "GPUs 0, 1"}, -1},
		{"machines that count for themselves", []input{log("node0/rank0.log", oom(0)), log("node1/rank0.log", oom(0))},
			" on GPU 0, after", []string{"told twice in 2 logs"}, -1},
		{"marked lines", []input{log("rank0.log", "[rank2]: "+strings.Split(oom(2), "\n")[4]+"\n")}, " on rank 2, GPU 2: ", nil,
			2},
		{"a copy", []input{log("train.log", oom(0)), log("wandb/run-20250312_100211-ab/files/output.log", "$ python train.py\n"+
			oom(0))}, " on GPU 0, after", []string{"told twice in 2 logs"}, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, test.files...)
			if len(doc.Findings) != 1 || !strings.Contains(doc.Findings[0].Title, test.says) {
				t.Fatalf("found %+v, want one that says %q", doc.Findings, test.says)
			}
			if e := doc.Findings[0].Evidence; !strings.HasSuffix(test.files[0].name, strings.Split(e[0], ":")[0]) ||
				!slices.Equal(e[len(e)-len(test.evidence):], test.evidence) {
				t.Errorf("evidence %q, want %q in the end", e, test.evidence)
			}
			rank := -1
			if r := doc.Evidence.OOMMessages[0].Rank; r != nil {
				rank = *r
			}
			if rank != test.rank {
				t.Errorf("the first message is rank %d's, want %d", rank, test.rank)
			}
		})
	}
}
