// Package guess holds what readers of evidence take for likely where no word of a text makes it sure, each with the cases that
// need it: a guess that none needs goes.
//
//	if guess.Rows.Made(score >= enough) {
//		steps = rows
//	}
package guess

// Guess is one of them.
type Guess struct {
	Name  string
	Cases []Case
	off   bool
}

// Case is a text, and what is told of it by the guess.
type Case struct{ Text, Told string }

// Made reports whether what is likely is taken for so.
func (g *Guess) Made(likely bool) bool { return likely && !g.off }

// Without does something as if nobody guessed, for the test that prices a guess by its cases.
func (g *Guess) Without(do func()) {
	g.off = true
	defer func() { g.off = false }()
	do()
}

// The guesses.
var (
	// Headless is that rows of nvidia-smi's without a head are of a GPU's memory, by what their cells look like.
	Headless = &Guess{Name: "headless", Cases: []Case{
		{"2024/05/01 12:00:00.123, 0, 40000 MiB, 81920 MiB", "GPU 0: 40000 of 81920 MiB"},
		{"0 %, 7042 MiB, 46068 MiB, 32, 82.53 W", "GPU 0: 7042 of 46068 MiB"},
		{"NVIDIA A100 80GB PCIe, 81920 MiB", "GPU 0: 0 of 81920 MiB"},
		{"2026/03/04 05:06:07.100, 0, 1500, 24576, 17", "GPU 0: 1500 of 24576 MiB"},
	}}
	// Rows is that lines which count are steps, where nothing in a log is surer.
	Rows = &Guess{Name: "rows", Cases: []Case{
		{"0 8.578 504759296\n1 8.102 504759296\n2 7.911 504759296", "3 steps, at most 481 MiB"},
		{"episode 1 reward 3.5 memory 740 MiB\nepisode 2 reward 3.6 memory 740 MiB", "2 steps, at most 740 MiB"},
		{"request 1 (8, 16) 2839 MiB\nrequest 2 (8, 16) 2841 MiB", "2 steps, at most 2841 MiB"},
		{"[3] 2.31 0.5\n[4] 2.30 0.5\n[5] 2.29 0.5", "3 steps"},
	}}
	// Denied is that a word such as not or may before a failure's words tells that nothing failed.
	Denied = &Guess{Name: "denied", Cases: []Case{
		{"the step does not OOM", ""}, {"use less of it to avoid OOM", ""}, {"a longer context may OOM", ""},
		{"the small model never OOMs", ""}, {"what a CUDA out of memory error is", ""}, {"in case of OOM lower the batch", ""},
		{"  what to do when CUDA runs out of memory (default: fail)", ""},
		{"If you see `torch.cuda.OutOfMemoryError`, lower the batch", ""},
		{"  --skip-oom  skip a batch if the GPU runs out of memory\n  skip batches to avoid running out of GPU memory", ""},
	}}
	// All are in no order that matters.
	All = []*Guess{Headless, Rows, Denied}
)
