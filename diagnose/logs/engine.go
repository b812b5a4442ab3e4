package logs

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// engineSettings are how engines are told which part of the GPU they may take, and
// how they call themselves to more GPUs.
var engineSettings = map[string]struct{ share, more, less string }{
	"vLLM":         {"gpu_memory_utilization", "tensor_parallel_size", "max_num_batched_tokens or max_num_seqs"},
	"sglang":       {"--mem-fraction-static", "--tp", "--chunked-prefill-size or --cuda-graph-max-bs"},
	"TensorRT-LLM": {"free_gpu_memory_fraction", "tp_size", "max_num_tokens or max_batch_size"},
	"TGI":          {"--cuda-memory-fraction", "--num-shard", "--max-batch-prefill-tokens"},
}

// accounted tells an engine's own account of the GPU, a line for each part, and
// what would make room for its cache where it has none.
func (w *witness) accounted(log *evidence.Log) {
	e := &log.Engine
	rows := account(e)
	if len(rows) < 2 {
		return
	}
	f := report.Finding{ID: "engine_accounting", Severity: report.Info, Confidence: 0.95, Evidence: rows,
		Title: fmt.Sprintf("%s's account of the GPU: %s", e.Name, engineParts(e))}
	set := engineSettings[e.Name]
	switch {
	case e.CacheKnown && e.Cache <= 0:
		f.Severity, f.Fix = report.Warning, new(makeRoom(e))
		f.Title = fmt.Sprintf("%s has nothing left for its key-value cache: %s", e.Name, engineParts(e))
	case e.Preemptions > 0:
		f.Severity = report.Warning
		f.Title = fmt.Sprintf("%s preempted requests %s for want of key-value cache: %s", e.Name,
			units.Times(int(e.Preemptions)), engineParts(e))
		f.Fix = advice.Text("log.preempted", "share", set.share, "more", set.more)
	}
	w.add(f)
}

// makeRoom says from which share of the GPU on there is room for a cache.
func makeRoom(e *evidence.Engine) string {
	set, needs := engineSettings[e.Name], e.Weights+e.Activations+e.Outside
	smaller := fmt.Sprintf("Quantised weights, a smaller pass (%s), or more GPUs (%s)", set.less, set.more)
	if e.Total <= 0 || needs >= e.Total {
		return smaller
	}
	least := float64(needs) / float64(e.Total)
	if least >= 0.97 {
		return fmt.Sprintf("%s: the rest alone needs %.0f %% of the GPU", smaller, 100*least)
	}
	return fmt.Sprintf("%s above %.2f: weights, activations and the rest need %s of the GPU's %s, and what lies above is the "+
		"cache's (%s for each 0.01). Else: %s", set.share, least, units.Bytes(needs), units.Bytes(e.Total),
		units.Bytes(e.Total/100), smaller)
}

// engineParts lists what an engine holds, in a clause.
func engineParts(e *evidence.Engine) string {
	text := oom.Amounts(oom.Amount{Bytes: e.Weights, What: "weights"}, oom.Amount{Bytes: e.Activations, What: "activations"},
		oom.Amount{Bytes: e.Outside, What: "beside PyTorch"}, oom.Amount{Bytes: e.Graphs, What: "CUDA graphs"},
		oom.Amount{Bytes: e.Cache, What: "key-value cache"})
	if e.CacheKnown && e.Cache < 0 {
		text += fmt.Sprintf(", %s too little for a cache", units.Bytes(-e.Cache))
	}
	if e.Allowed > 0 {
		text += fmt.Sprintf(", of %s allowed", units.Bytes(e.Allowed))
	}
	return text
}

// account is the table of an engine's GPU, a row in each line; sums where the
// engine's own figures have them.
func account(e *evidence.Engine) []string {
	var rows []string
	row := func(sign string, bytes int64, what string) {
		if bytes > 0 {
			rows = append(rows, fmt.Sprintf("%s %10s  %s", sign, units.Bytes(bytes), what))
		}
	}
	switch {
	case e.Allowed > 0 && e.Share > 0 && e.Total > 0:
		row(" ", e.Allowed, fmt.Sprintf("allowed: %s of the GPU's %s (%s)", units.Percent(e.Allowed, e.Total),
			units.Bytes(e.Total), engineSettings[e.Name].share))
	default:
		row(" ", e.Total, "the GPU")
	}
	row("-", e.Weights, "weights")
	row("-", e.Activations, "activations at the peak of a pass")
	row("-", e.Outside, "of the process beside PyTorch (context, NCCL)")
	if e.CacheKnown {
		tokens := ""
		if e.Tokens > 0 {
			tokens = fmt.Sprintf(", room for %s tokens", units.Count(int(e.Tokens)))
		}
		if e.Cache <= 0 {
			rows = append(rows, fmt.Sprintf("= %10s  for the key-value cache: none", "-"+units.Bytes(-e.Cache)))
		}
		row("=", e.Cache, "for the key-value cache"+tokens)
	}
	row("+", e.Graphs, "CUDA graphs")
	row(" ", e.Left, "left on the GPU")
	return rows
}

// phaseFacts tells the readings of a trainer's phases: the most and the least.
func (w *witness) phaseFacts() []string {
	var out []string
	for i := range w.doc.Evidence.Logs {
		log := &w.doc.Evidence.Logs[i]
		var most, least *evidence.PhaseReading
		for k := range log.Phases {
			r := &log.Phases[k]
			if most == nil || heldOf(r) > heldOf(most) {
				most = r
			}
			if least == nil || heldOf(r) < heldOf(least) {
				least = r
			}
		}
		if most == nil {
			continue
		}
		text := fmt.Sprintf("%s in use %s", units.Bytes(heldOf(most)), most.When)
		if most.Total > 0 {
			text = fmt.Sprintf("%s of %s in use %s", units.Bytes(heldOf(most)), units.Bytes(most.Total), most.When)
		}
		if least != most && heldOf(least) < heldOf(most) {
			text += fmt.Sprintf(", %s %s", units.Bytes(heldOf(least)), least.When)
		}
		out = append(out, text)
	}
	return out
}

// slept tells of memory that is still in use after each sleep of an engine, where that grows.
func (w *witness) slept(source int, log *evidence.Log) {
	var after []*evidence.PhaseReading
	for i := range log.Phases {
		if r := &log.Phases[i]; r.When == "after sleep" && r.Used >= 0 {
			after = append(after, r)
		}
	}
	const least, noise = 3, 256 << 20
	if len(after) < least {
		return
	}
	first, last := after[0], after[len(after)-1]
	for i := 1; i < len(after); i++ {
		if after[i].Used < after[i-1].Used-noise {
			return
		}
	}
	if grew := last.Used - first.Used; grew >= max(1<<30, first.Used/4) {
		w.add(report.Finding{ID: "memory_grows", Severity: report.Warning, Confidence: 0.8,
			Title: fmt.Sprintf("What is still in use after each sleep of the engine grows: %s after the first, %s after the "+
				"last of %d", units.Bytes(first.Used), units.Bytes(last.Used), len(after)),
			Evidence: []string{w.at(source, last.Line) + ": " + units.Bytes(grew) + " more than after the first sleep"},
			Fix:      advice.Text("log.sleep")})
	}
}

func heldOf(r *evidence.PhaseReading) int64 { return max(r.Used, r.Reserved, r.Allocated) }
