package logs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/runlog"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// shareSettings are how inference servers are told to take less of a GPU.
var shareSettings = map[string]string{"sglang": "--mem-fraction-static", "vLLM": "gpu_memory_utilization"}

// maybeOwn takes back the advice to stop other processes where they may belong
// to the run itself: where the log starts an inference server, or nvidia-smi
// saw the GPU without them.
func (w *witness) maybeOwn(g *failures, f *report.Finding) {
	if g.Cause != report.OtherProcess || g.By != "" {
		return
	}
	who := cmp.Or(oom.Processes(g.Strangers()), "what other processes hold")
	if name, where := w.server(g); name != "" {
		f.SavesBytes = nil // of a share, not all
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s is probably this run's own", where, who))
		f.Fix = advice.Text("own_server", "name", name, "setting", shareSettings[name], "who", who)
		return
	}
	why := ""
	if gpu := w.printed(g); gpu != nil && *gpu.PeakUsedBytes < min(oom.UsualContext, g.HeldByOthers()) {
		why = "nvidia-smi saw the GPU empty"
	} else if slices.ContainsFunc(w.names(g), func(name string) bool { return strings.HasPrefix(name, "ray::") }) {
		why = "it is a worker of Ray"
	}
	if why != "" {
		f.SavesBytes = nil
		f.Fix = advice.Text("own_process", "who", who, "why", why, "visible", g.Tools().Visible)
	}
}

// server is the inference server that others on the GPU may be, and what tells.
func (w *witness) server(g *failures) (name, where string) {
	for _, p := range w.names(g) {
		if name := runlog.ServerOf(p); name != "" {
			return name, fmt.Sprintf("nvidia-smi calls it %s", p)
		}
	}
	if log := w.doc.Evidence.Log(g.source); log != nil {
		for _, s := range log.Servers {
			if s.Line < g.Line {
				return s.Name, fmt.Sprintf("%s starts a server of %s", w.at(g.source, s.Line), s.Name)
			}
		}
	}
	return "", ""
}

// names are what nvidia-smi calls the other processes that a message lists.
func (w *witness) names(g *failures) []string {
	var out []string
	for _, gpu := range w.doc.Evidence.GPUs {
		for _, p := range gpu.Processes {
			if p.Name != nil && slices.ContainsFunc(g.Strangers(), func(s evidence.ProcessUse) bool { return s.PID == p.PID }) {
				out = append(out, *p.Name)
			}
		}
	}
	return out
}

// printed is what nvidia-smi said of the GPU in the log that has the message,
// nil where it said nothing of its memory.
func (w *witness) printed(g *failures) *evidence.GPU {
	for i := range w.doc.Evidence.GPUs {
		gpu := &w.doc.Evidence.GPUs[i]
		if gpu.Source == g.source && gpu.GPU == evidence.Or(g.GPU, -1) && gpu.PeakUsedBytes != nil {
			return gpu
		}
	}
	return nil
}

func sawOf(gpu *evidence.GPU) string {
	if gpu.Samples == 1 {
		return units.Bytes(*gpu.PeakUsedBytes)
	}
	return "at most " + units.Bytes(*gpu.PeakUsedBytes)
}
