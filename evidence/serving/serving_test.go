package serving

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// TestMarks: every example is read by its mark, and names its engine.
func TestMarks(t *testing.T) {
	for _, m := range Marks {
		var e evidence.Engine
		if !strings.Contains(m.Line, m.Words) || !Account(&e, []byte(m.Line)) || e.Name != m.Engine {
			t.Errorf("%q: %+v", m.Words, e)
		}
	}
}

// TestAccount reads whole accounts.
func TestAccount(t *testing.T) {
	lines := func(words ...string) (text []string) {
		for _, m := range Marks {
			for _, w := range words {
				if strings.HasPrefix(m.Words, w) {
					text = append(text, m.Line)
				}
			}
		}
		return text
	}
	const gib = 1 << 30
	for name, test := range map[string]struct {
		lines []string
		want  evidence.Engine
	}{
		"vLLM V0": {lines("the current", "model weights", "total_num"), evidence.Engine{Name: "vLLM", Total: 24 * gib, Share: 0.9,
			Allowed: gibs(21.6), Weights: gibs(15.2), Outside: gibs(0.06), Activations: gibs(1.2), Cache: gibs(5.14),
			CacheKnown: true, Preemptions: 51}},
		"nothing left": {[]string{"model weights take 5.00GiB; non_torch_memory takes 0.05GiB; PyTorch activation peak memory " +
			"takes 1.50GiB; the rest of the memory reserved for KV Cache is -1.25GiB."}, evidence.Engine{Name: "vLLM",
			Weights: 5 * gib, Outside: gibs(0.05), Activations: 3 * gib / 2, Cache: -5 * gib / 4, CacheKnown: true}},
		"vLLM V1": {lines("Actual usage", "GPU KV cache size"), evidence.Engine{Name: "vLLM", Total: gibs(23.6), Share: 0.9,
			Allowed: gibs(21.24), Weights: gibs(15.1), Activations: gibs(1.4), Outside: gibs(0.2), Graphs: gib / 2,
			Cache: 4337916968, CacheKnown: true, Tokens: 127664}},
		"sglang": {lines("Load weight", "KV Cache is", "Memory pool", "Capture", "KV cache pool"), evidence.Engine{Name: "sglang",
			Weights: gibs(15.15), Tokens: 443000, Cache: 2 * gibs(27.04), CacheKnown: true, Graphs: gibs(1.2), Left: gibs(7.12),
			Preemptions: 1}},
		"TensorRT-LLM": {lines("(inside", "(outside", "available KV", "tokens in paged"), evidence.Engine{Name: "TensorRT-LLM",
			Weights: 15 * gib, Outside: 5 * gib / 4, Cache: gibs(54.8), CacheKnown: true, Share: 0.9, Total: gibs(79.1),
			Tokens: 98240}},
		"llama.cpp": {append(lines(" model", " KV", " compute"), "load_tensors:   CPU_Mapped model buffer size =  70.00 MiB"),
			evidence.Engine{Name: "llama.cpp", Weights: 4293971149, Cache: 512 << 20, CacheKnown: true, Activations: 560 << 20}},
	} {
		var e evidence.Engine
		for _, line := range test.lines {
			Account(&e, []byte(line))
		}
		if e != test.want {
			t.Errorf("%s: %+v, want %+v", name, e, test.want)
		}
	}
}

func gibs(x float64) int64 { return int64(x*(1<<30) + 0.5) }

// TestPhases reads readings before and after phases.
func TestPhases(t *testing.T) {
	want := []evidence.PhaseReading{
		{When: "before vllm offload in sharding manager", Allocated: gibs(12.5), Reserved: gibs(14), Used: gibs(20), Total: gibs(79.1)},
		{When: "after vllm offload in sharding manager", Allocated: -1, Reserved: -1, Used: gibs(24.5), Total: gibs(79.11)},
		{When: "after update_weights", Allocated: -1, Reserved: -1, Used: gibs(82.5), Total: gibs(178)},
		{When: "after sleep", Allocated: -1, Reserved: -1, Used: gibs(1.23), Total: -1},
	}
	for i, line := range PhaseExamples {
		if r, ok := Phase([]byte(line)); !ok || !near(r, want[i]) {
			t.Errorf("%q: %+v", line, r)
		}
	}
	for _, line := range []string{"Before the run: 3 files", "after 5 iterations memory (MB) | allocated: 10.5", "After that, 2 GB"} {
		if r, ok := Phase([]byte(line)); ok {
			t.Errorf("%q: %+v", line, r)
		}
	}
}

// near compares readings, whose figures were cut to whole bytes.
func near(a, b evidence.PhaseReading) bool {
	is := func(x, y int64) bool { return x-y <= 1 && y-x <= 1 }
	return a.When == b.When && is(a.Used, b.Used) && is(a.Total, b.Total) && is(a.Allocated, b.Allocated) && is(a.Reserved, b.Reserved)
}

func FuzzAccount(f *testing.F) {
	for _, m := range Marks {
		f.Add(m.Line)
	}
	for _, line := range PhaseExamples {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var e evidence.Engine
		Account(&e, []byte(line))
		if e.Weights < 0 || e.Share < 0 || e.Share > 1 {
			t.Errorf("%+v", e)
		}
		if r, ok := Phase([]byte(line)); ok && len(r.When) > 100 {
			t.Errorf("%+v", r)
		}
	})
}
