package runlog

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// TestLabels: `srun --label` puts a task's number before each line, docker compose
// a container's name, and what keeps a container's output makes it JSON.
func TestLabels(t *testing.T) {
	start := "loading\n\nmodel of 124 million\ncompiled\nready\nset\ngo\nbegin\n"
	steps := "step 1 loss 4.1 mem 1.5GiB\nstep 2 loss 4.0 mem 1.5GiB\nstep 3 loss 3.9 mem 1.5GiB\n"
	each := func(text string, marks ...string) string {
		var b strings.Builder
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			for _, m := range marks {
				b.WriteString(m + line + "\n")
			}
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		log         string
		count       int
		first, last int64
	}{
		"none":                    {start + steps, 3, 1, 3},
		"one task":                {each(start+steps, "0: "), 3, 1, 3},
		"four tasks":              {each(start+steps, "0: ", "1: ", "2: ", "3: "), 3, 1, 3},
		"more than ten":           {each(start+steps, " 0: ", " 1: ", "10: ", " 2: ", " 3: ", " 4: ", " 5: ", " 6: ", " 7: ", " 8: ", " 9: "), 3, 1, 3},
		"a script's own lines":    {"job 17 on node a\n" + each(start+steps, "0: ") + "job done\n", 3, 1, 3},
		"a container":             {each(start+steps, "trainer-1  | "), 3, 1, 3},
		"two containers":          {each(start, "db_1       | ", "trainer_1  | ", "trainer_1  | ") + each(steps, "trainer_1  | "), 3, 1, 3},
		"as JSON":                 {`{"log":"ready\n","stream":"stdout"}` + "\n" + `{"log":"step 1 loss 4.1\r\u001b[32mstep 2\u001b[0m loss \"4.0\"\n","stream":"stderr","time":"2026-01-02T10:20:00Z"}`, 2, 1, 2},
		"a logger with braces":    {"[2026-01-02, 10:20:07 UTC] {docker.py:1} INFO - {'loss': 9.1, 'epoch': 0.1}\n[2026-01-02, 10:20:08 UTC] {docker.py:1} INFO - {'loss': 9.0, 'epoch': 0.2}", 2, -1, -1},
		"steps that are numbered": {"0: loss 4.1\n1: loss 4.0\n2: loss 3.9\n3: loss 3.8\n4: loss 3.7\n", 5, 0, 4},
		"several lines of a step": {"0: loss 4.1\n0: acc 0.1\n0: lr 0.1\n0: mem 1GiB\n1: loss 4.0\n1: acc 0.1\n1: lr 0.1\n1: mem 1GiB\n", 2, 0, 1},
		"from another number":     {"5: starts\n5: goes on\n5: still\n5: again\n5: loss 4.0\n6: loss 3.9\n7: loss 3.8\n", 3, 5, 7},
	} {
		t.Run(name, func(t *testing.T) {
			var p Parser
			for i, line := range strings.Split(c.log, "\n") {
				if !p.Again(i+1, []byte(line)) {
					p.Line(i+1, []byte(line))
				}
			}
			s := p.Finish().Steps
			if s.Count != c.count || evidence.Or(s.First, -1) != c.first || evidence.Or(s.Last, -1) != c.last {
				t.Errorf("%d steps from %d to %d, want %d from %d to %d", s.Count, evidence.Or(s.First, -1), evidence.Or(s.Last, -1), c.count, c.first, c.last)
			}
		})
	}
}
