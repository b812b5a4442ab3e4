package batch

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestFolderName(t *testing.T) {
	for _, c := range []struct{ place, want string }{
		{"runs/gpt2/run_07", "runs__gpt2__run_07"},
		{"/data/exp/a.pickle.gz", "__data__exp__a.pickle.gz"},
		{"run", "run"},
		{"a b", "a_b-"},
		{"a_b", "a_b"},
		{"..", "run-"},
		{"../x", "x-"},
		{".", "run-"},
		{"a__b", "a__b-"},
		{"a_/b", "a___b-"},
		{"a/_b", "a___b-"},
		{"<script>alert(1)</script>", "script_alert_1____script-"},
		{"a/../../etc/passwd", "a__..__..__etc__passwd-"},
		{strings.Repeat("x/", 200) + "y", "x__x__x-"},
		{"trailing.", "trailing-"},
		{"already-0123456789ab", "already-0123456789ab-"},
		{"日本", "run-"},
		{"", "run-"},
	} {
		t.Run(c.place, func(t *testing.T) {
			got := FolderName(c.place)
			want := c.want
			if strings.HasSuffix(want, "-") { // and a hash
				want = strings.TrimSuffix(want, "-")
				got = got[:min(len(got), len(want))]
			}
			if got != want {
				t.Errorf("got %q, want %q", FolderName(c.place), c.want)
			}
			safe(t, FolderName(c.place))
		})
	}
}

var safeName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*[A-Za-z0-9_-]$|^[A-Za-z0-9]$`)

func safe(t *testing.T, name string) {
	t.Helper()
	if !safeName.MatchString(name) || len(name) > maxName || name == "." || name == ".." {
		t.Errorf("%q is no safe name of a folder", name)
	}
}

// TestFolderNameSafe: whatever the path, the name is one safe element, and two
// paths don't share one.
func TestFolderNameSafe(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "_", "__", "/", "/", "-", ".", "..", "é", " ", "\x00", "\\", "<", "-0123456789ab", "0"}
	paths := map[string]string{} // by name
	for range 200_000 {
		var b strings.Builder
		for range random.IntN(7) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		name := FolderName(b.String())
		safe(t, name)
		if other, ok := paths[name]; ok && other != b.String() {
			t.Fatalf("%q and %q are both %q", other, b.String(), name)
		}
		paths[name] = b.String()
	}
}

func TestExperimentOf(t *testing.T) {
	for _, c := range []struct{ place, want string }{
		{"exp/gpt2/run_0042", "exp/gpt2/run"},
		{"exp/gpt2/2024-01-02_03-04-05", "exp/gpt2"},
		{"exp/run7/snapshot.pickle.gz", "exp/run/snapshot"},
		{"exp/train_001.jsonl", "exp/train"},
		{"exp/train_001.PT.gz", "exp/train"},
		{"exp/llama-7b", "exp/llama-7b"},
		{"exp/llama-13b", "exp/llama-13b"},
		{"exp/gpt-2/seed3", "exp/gpt-2/seed"},
		{"sweep/bs_16/run12", "sweep/bs_16/run"},
		{"sweep/bs16-lr_3/1", "sweep/bs16-lr_3"},
		{"wandb/run-20240101_120000-a1b2c3d4", "wandb/run"},
		{"host_Jun_10_12_34_56.pickle", "host"},
		{"decode__hf_dynamic_cache", "decode__hf_dynamic_cache"},
		{"20240102T030405Z/x", "x"},
		{"/data/001", "/data"},
		{"17", "runs"},
		{"../runs/5", "../runs"},
		{"june", "june"},
		{"x/forward_only_512", "x/forward_only_512"},
		{"x/run_512", "x/run"},
		{"x/512", "x"},
		{"x/snapshot_0512", "x/snapshot"},
		{"w/opt_1.3b", "w/opt_1.3b"},
		{"w/opt_6.3b", "w/opt_6.3b"},
		{"w/opt-6.7b/run_3", "w/opt-6.7b/run"},
		{"w/opt-6.7b.pickle.gz", "w/opt-6.7b"},
		{"w/Qwen2.5-7B", "w/Qwen2.5-7B"},
		{"w/Qwen2.5-0.5B", "w/Qwen2.5-0.5B"},
		{"w/gpt2-1.5B", "w/gpt2-1.5B"},
		{"w/mistral-7b-v0.1", "w/mistral-7b-v0.1"},
		{"w/lr0.001", "w/lr0.001"},
		{"w/lr0.01", "w/lr0.01"},
		{"w/lr_0.0003_seed3", "w/lr_0.0003_seed"},
		{"w/lr=1e-5", "w/lr=1e-5"},
		{"w/lr1e-4_wd0.1", "w/lr1e-4_wd0.1"},
		{"w/lr2.5e-4", "w/lr2.5e-4"},
		{"w/0.95", "w/0.95"},
		{"w/\u212a\u212a1.5", "w/\u212a\u212a1.5"}, // shorter in lower case
		{"w/epoch=3-loss=2.345", "w/epoch-loss"},
		{"w/run1.2", "w/run"},
		{"w/run_1.2", "w/run"},
		{"w/2024-01-02_13.45", "w"},
		{"w/2024-01-02_03.04.05", "w"},
		{"w/2024.01.02", "w"},
		{"w/train_2024.01.02", "w/train"},
		{"w/slurm-123456.0", "w/slurm"},
		{"w/host_4242.1700000000000", "w/host"},
		{"w/machine-10.0.0.1", "w/machine"},
	} {
		t.Run(c.place, func(t *testing.T) {
			if got := experimentOf(c.place); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
