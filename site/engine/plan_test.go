package engine

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct{ name, paths, want string }{
		{"one recording", "a.pickle", `[a.pickle]`},
		{"a log alone", "train.log", `[train.log]`},
		{"recording, log and configuration", "snap.pickle.gz train.log config.json", `[snap.pickle.gz train.log config.json]`},
		{"two recordings", "before.pickle after.pickle", `[before.pickle] [after.pickle]`},
		{"ranks of a job", "rank0.pickle rank1.pickle rank2.pickle", `[rank0.pickle rank1.pickle rank2.pickle]`},
		{"ranks in folders", "job/rank0/s.pickle job/rank1/s.pickle", `[job]`},
		{"dumps of a process", "snapshot_0.pickle snapshot_1.pickle", `[snapshot_0.pickle snapshot_1.pickle]`},
		{"runs in folders", "e/lr1/s.pickle e/lr1/t.log e/lr3/s.pickle e/notes.txt",
			`[e/lr1] [e/lr3/s.pickle]`},
		{"a run's folder", "run42/s.pickle run42/train.log run42/config.json", `[run42]`},
		{"logs named after their recordings", "a.pickle b.pickle c.pickle b.log", `[a.pickle] [b.pickle b.log] [c.pickle]`},
		{"a tracker's folder", "wandb/run-1/files/output.log wandb/run-1/run-1.wandb", `[wandb/run-1]`},
		{"nothing", "", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, g := range Plan(strings.Fields(c.paths)) {
				if len(g.Inputs) > 0 {
					got = append(got, "["+strings.Join(g.Inputs, " ")+"]")
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s\nwant %s", s, c.want)
			}
		})
	}
}

// TestErrorsOfferWhatAPageCanDo: flags of the command line become what the page says and its buttons do.
func TestErrorsOfferWhatAPageCanDo(t *testing.T) {
	const recording = "../../testdata/recordings/growing_list__step_cache/snapshot_all.pickle.gz"
	for _, c := range []struct {
		name   string
		q      Request
		limit  int64
		offer  string
		error  string
		advice string
	}{
		{"missing", Request{Inputs: []string{"none.pickle"}}, 0, "", "none.pickle: no such file", ""},
		{"memory", Request{Inputs: []string{recording}}, 1 << 10, "", "needs more than", "`vramscope analyze` on this machine"},
		{"standard input", Request{Inputs: []string{"-"}}, 0, "", "no standard input", "./-"},
		{"three to compare", Request{Inputs: []string{"a", "b", "c"}, Compare: true}, 0, "", "not 3", ""},
		{"a format", Request{Inputs: []string{recording}, Formats: []string{"exe"}}, 0, "", "no such format", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Answer(&c.q, Options{MaxMemory: c.limit})
			if !strings.Contains(r.Error, c.error) || r.Offer != c.offer || !strings.Contains(r.Advice, c.advice) ||
				strings.Contains(r.Error+r.Advice, "--") {
				text, _ := json.Marshal(r)
				t.Errorf("%s", text)
			}
		})
	}
}
