package logs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

const (
	nearlyFull  = 0.97 // of a GPU's memory: the next request may fail
	idleSamples = 20
	idleShare   = 0.5
	heldShare   = 0.10 // of a GPU's memory, or of the most that was in use, to count as in use
)

// watched tells what nvidia-smi's readings show by themselves.
func (w *witness) watched(gpus []evidence.GPU) {
	w.strays(gpus)
	for i := range gpus {
		g := &gpus[i]
		w.full(g)
		w.fullInstances(g)
		w.unlisted(g)
		w.sharedGPU(g)
		w.idle(g)
		if grown, ok := series.Rising(settled(g)); ok {
			w.add(grew(g, grown))
		}
	}
}

// grew tells of readings that rise all along.
func grew(g *evidence.GPU, grown series.Growth) report.Finding {
	loads, maybe := maybeLoading(g), ""
	if loads {
		maybe = ": it may have been loading"
	}
	f := report.Finding{ID: "memory_grows", Severity: report.Warning, Confidence: 0.6,
		Title: fmt.Sprintf("Memory in use on GPU %d kept growing while %s watched, by %s%s", g.GPU, g.Monitor(),
			units.Bytes(int64(grown.Total)), maybe),
		Evidence: []string{fmt.Sprintf("%s readings%s", units.Count(g.Samples), between(g)),
			"a cache that fills up flattens out; this did not"},
		Fix: advice.Text("log.watch_grows"), Code: how("loop")}
	if loads {
		f.Severity, f.Confidence = report.Info, 0.3
		f.Evidence[1] = "a program that loads its model and takes its first steps looks alike in so short a time"
		f.Fix, f.Code = advice.Text("log.watch_loading"), ""
	}
	return f
}

// loading is how long a program may take to load its model and to come to its
// largest batch.
const loading = 2 * time.Minute

// maybeLoading tells readings of a short time that begin with less than half of
// what they end with.
func maybeLoading(g *evidence.GPU) bool {
	samples := g.Series.Samples
	if len(samples) == 0 {
		return false
	}
	lasted := time.Duration(g.Samples) * time.Second // as tools read by themselves
	if g.FirstTime != nil && g.LastTime != nil {
		lasted = time.Duration(g.LastTime.Nanoseconds() - g.FirstTime.Nanoseconds())
	}
	return lasted < loading && samples[0].UsedBytes < samples[len(samples)-1].UsedBytes/2
}

// settled are the readings of the last job since half of its last level was first
// reached: what comes before is the program loading.
func settled(g *evidence.GPU) []float64 {
	var job []float64
	ended := false
	for _, s := range g.Series.Samples {
		switch used := float64(s.UsedBytes); {
		case used < 0:
		case used < heldShare*float64(evidence.Or(g.PeakUsedBytes, 0)):
			ended = true
		case ended:
			job, ended = append(job[:0], used), false
		default:
			job = append(job, used)
		}
	}
	if len(job) == 0 {
		return nil
	}
	half := job[len(job)-1] / 2
	return job[slices.IndexFunc(job, func(used float64) bool { return used >= half }):]
}

func between(g *evidence.GPU) string {
	if g.FirstTime == nil || g.LastTime == nil || *g.FirstTime == *g.LastTime {
		return ""
	}
	return fmt.Sprintf(" from %s to %s", g.FirstTime, g.LastTime)
}

func (w *witness) full(g *evidence.GPU) {
	total, peak := evidence.Or(g.TotalBytes, 0), evidence.Or(g.PeakUsedBytes, 0)
	if total <= 0 || float64(peak) < nearlyFull*float64(total) || len(w.doc.Devices) > 0 || g.UnlistedBytes >= peak {
		return
	}
	w.add(report.Finding{ID: "gpu_full", Severity: report.Warning, Confidence: 0.9,
		Title: fmt.Sprintf("GPU %d was full: %s of %s in use (%s)", g.GPU, units.Bytes(peak), units.Bytes(total),
			units.Percent(peak, total)),
		Evidence: []string{units.Plural(g.Samples, "reading") + between(g),
			"PyTorch keeps what it once reserved, so a full GPU is not yet a failure: a snapshot tells how much of it is in use"},
		Fix: advice.Text("log.full"), Code: how("loop")})
}

// fullInstances tells of parts of a GPU that MIG made: a program on one has no
// more than that, whatever is free on the GPU.
func (w *witness) fullInstances(g *evidence.GPU) {
	if len(w.doc.Devices) > 0 {
		return
	}
	for _, m := range g.Instances {
		if m.TotalBytes <= 0 || float64(m.PeakUsedBytes) < nearlyFull*float64(m.TotalBytes) {
			continue
		}
		w.add(report.Finding{ID: "gpu_full", Severity: report.Warning, Confidence: 0.9,
			Title: fmt.Sprintf("MIG instance %d of GPU %d was full: %s of %s in use (%s)", m.GI, g.GPU,
				units.Bytes(m.PeakUsedBytes), units.Bytes(m.TotalBytes), units.Percent(m.PeakUsedBytes, m.TotalBytes)),
			Evidence: []string{fmt.Sprintf("the GPU as a whole has %s, of which its programs get their instance's share alone",
				units.Bytes(evidence.Or(g.TotalBytes, -1))),
				"PyTorch keeps what it once reserved, so a full instance is not yet a failure: a snapshot tells how much of " +
					"it is in use"},
			Fix:  advice.Text("log.full_instance"),
			Code: how("loop")})
	}
}

// unlisted tells of memory in use by nobody that nvidia-smi lists, of which a
// recording can't know.
func (w *witness) unlisted(g *evidence.GPU) {
	if g.UnlistedBytes < max(1<<30, int64(heldShare*float64(evidence.Or(g.TotalBytes, 0)))) || len(w.doc.Devices) > 0 {
		return
	}
	// What computes is no dead run: in a container, as likely as not the run itself.
	severity, busy := report.Warning, ""
	for _, s := range g.Series.Samples {
		if s.UsedBytes == g.UnlistedBytes && s.UtilizationPercent > 0 {
			severity = report.Info
			busy = fmt.Sprintf("; it computes (%.0f %%), so somebody is at work, in a container perhaps this run",
				s.UtilizationPercent)
		}
	}
	w.add(report.Finding{ID: "outside_pytorch", Severity: severity, Confidence: 0.8,
		Title: fmt.Sprintf("%s were in use on GPU %d, and nvidia-smi listed no process: one of another container or user, "+
			"or what a dead run left behind", units.Bytes(g.UnlistedBytes), g.GPU),
		Evidence: []string{"the list of processes was empty" + busy,
			"within a container nvidia-smi shows no processes, not even the container's own; a process that hangs while it " +
				"ends keeps its memory"},
		Fix: advice.Text("log.unlisted")})
}

// sharedGPU tells of several programs on one GPU, or one part of it that MIG made,
// where no recording tells which of them matters.
func (w *witness) sharedGPU(g *evidence.GPU) {
	if len(w.doc.Devices) > 0 {
		return
	}
	byInstance := map[int][]evidence.Process{}
	for _, p := range g.Processes {
		byInstance[p.Instance] = append(byInstance[p.Instance], p)
	}
	for _, instance := range slices.Sorted(maps.Keys(byInstance)) {
		what := fmt.Sprintf("GPU %d", g.GPU)
		if instance >= 0 {
			what = fmt.Sprintf("MIG instance %d of GPU %d", instance, g.GPU)
		}
		w.shared(g, what, byInstance[instance])
	}
}

// shared tells of the processes that hold much of the same memory.
func (w *witness) shared(g *evidence.GPU, what string, list []evidence.Process) {
	var large []string
	total, sum := evidence.Or(g.TotalBytes, 0), int64(0)
	list = slices.DeleteFunc(list, func(p evidence.Process) bool {
		return p.PeakUsedBytes == nil || *p.PeakUsedBytes < max(1<<30, total/20)
	})
	for _, p := range list {
		if !slices.ContainsFunc(list, func(q evidence.Process) bool { return q.PID != p.PID && q.Beside(&p) }) {
			continue // the others came before, or after
		}
		sum += *p.PeakUsedBytes
		large = append(large, fmt.Sprintf("process %d%s: %s", p.PID, oom.Named(p.Name), units.Bytes(*p.PeakUsedBytes)))
	}
	if len(large) < 2 || total > 0 && sum > total+total/10 {
		return // one after the other
	}
	title := fmt.Sprintf("%d programs share %s", len(large), what)
	if len(large) > 8 {
		large = append(large[:8:8], fmt.Sprintf("and %d more", len(large)-8))
	}
	w.add(report.Finding{ID: "outside_pytorch", Severity: report.Info, Confidence: 0.8, Title: title, Evidence: large,
		Fix: advice.Text("log.shared_gpu")})
}

// strays tells of ranks that made a CUDA context on a GPU besides their own.
func (w *witness) strays(gpus []evidence.GPU) {
	home := map[int]int64{} // the most that a process holds on any GPU
	for i := range gpus {
		for _, p := range gpus[i].Processes {
			home[p.PID] = max(home[p.PID], evidence.Or(p.PeakUsedBytes, 0))
		}
	}
	for i := range gpus {
		g := &gpus[i]
		n, pid, bytes := 0, 0, int64(0)
		for _, p := range g.Processes {
			if held := evidence.Or(p.PeakUsedBytes, 0); held >= leastContext && held < oom.UsualContext && home[p.PID] > held {
				pid = p.PID
				n++
				bytes += held
			}
		}
		if n == 0 {
			continue
		}
		f := report.Finding{ID: "outside_pytorch", Severity: report.Warning, Confidence: 0.9, SavesBytes: &bytes,
			Title: fmt.Sprintf("%d processes that work on other GPUs hold a CUDA context on GPU %d as well: %s", n, g.GPU,
				units.Bytes(bytes)),
			Evidence: []string{fmt.Sprintf("each holds more on another GPU, and %s here on average, as much as a bare context",
				units.Bytes(bytes/int64(n)))},
			Fix: advice.Text("log.strays")}
		if n == 1 {
			f.Severity, f.Confidence = report.Info, 0.7
			f.Title = fmt.Sprintf("Process %d works on another GPU and holds a CUDA context on GPU %d as well: %s", pid, g.GPU,
				units.Bytes(bytes))
			f.Fix = advice.Text("log.stray")
		}
		w.add(f)
	}
}

// leastContext is less than a CUDA context takes; desktops' programs take less.
const leastContext = 64 << 20

// idle tells of memory that is held while nothing is computed.
func (w *witness) idle(g *evidence.GPU) {
	held, nothing, total := 0, 0, evidence.Or(g.TotalBytes, 0)
	for _, s := range g.Series.Samples {
		if s.UtilizationPercent < 0 || total <= 0 || float64(s.UsedBytes) < heldShare*float64(total) {
			continue
		}
		if held++; s.UtilizationPercent == 0 {
			nothing++
		}
	}
	if held < idleSamples || float64(nothing) < idleShare*float64(held) {
		return
	}
	w.add(report.Finding{ID: "gpu_idle", Severity: report.Info, Confidence: 0.7,
		Title: fmt.Sprintf("GPU %d held memory but computed nothing in %.0f %% of the readings", g.GPU,
			100*float64(nothing)/float64(held)),
		Evidence: []string{fmt.Sprintf("utilisation 0 %% in %s of %s that found memory held, at most %s of it",
			units.Count(nothing), units.Plural(held, "reading"), units.Bytes(evidence.Or(g.PeakUsedBytes, -1)))},
		Fix: advice.Text("log.idle")})
}

// facts are what was seen, a clause each, for runs without anything to report.
func (w *witness) facts() []string {
	if w.doc.Evidence == nil {
		return nil
	}
	out := slices.Concat(w.stepFacts(), w.settingFacts(), w.phaseFacts(), w.gpuFacts(), w.summaryFacts())
	return append(append(out, w.traceFacts()...), w.timelines()...)
}

// settingFacts are what a tracker says of how the run was set.
func (w *witness) settingFacts() []string {
	p := w.doc.Evidence.Settings()
	words := report.SettingWords(p)
	if words == "" {
		return nil
	}
	by := p.Tracker
	if by == evidence.FromLog {
		by = "the log"
	}
	return []string{by + " says: " + words}
}

// stepFacts are of the log with most steps, and of an inference engine.
func (w *witness) stepFacts() []string {
	var out []string
	ev := w.doc.Evidence
	if len(ev.Steps) > 0 {
		s := ev.Steps[0]
		text := units.Plural(s.Count, "step")
		if s.MedianStepSeconds != nil {
			text += " of " + units.Duration(*s.MedianStepSeconds)
		}
		if s.MaxMemoryBytes != nil {
			text += fmt.Sprintf("; the log reports at most %s", mostMemory(s))
			if c := w.capacityOf(); c > *s.MaxMemoryBytes && len(ev.GPUs) == 0 {
				text += fmt.Sprintf(", on GPUs of %s", units.Bytes(c))
			}
		}
		out = append(out, text)
	} else if i := slices.IndexFunc(ev.Logs, mentionsMemory); i >= 0 {
		out = append(out, fmt.Sprintf("%s mentions at most %s", w.name(ev.Logs[i].Source), mostMemory(ev.Logs[i].Steps)))
	}
	if i := slices.IndexFunc(ev.Logs, func(l evidence.Log) bool { return engineParts(&l.Engine) != "" }); i >= 0 {
		out = append(out, engineTook(&ev.Logs[i].Engine))
	}
	return out
}

// gpuFacts are what monitors saw of the first GPUs.
func (w *witness) gpuFacts() []string {
	var out []string
	gpus := w.doc.Evidence.GPUs
	if len(gpus) > 1 && !slices.ContainsFunc(gpus, func(g evidence.GPU) bool {
		return g.PeakUsedBytes != nil || len(g.Processes)+len(g.Instances) > 0
	}) {
		return []string{fmt.Sprintf("%d GPUs without a figure for their memory (%s shows it)", len(gpus), showsMemory(&gpus[0]))}
	}
	for i := range gpus {
		g := &gpus[i]
		if i == 2 {
			return append(out, units.Plural(len(gpus)-i, "more GPU")+" in "+g.Monitor())
		}
		if g.PeakUsedBytes == nil && len(g.Instances) > 0 {
			out = append(out, instanceFacts(g))
			continue
		}
		if g.PeakUsedBytes == nil && g.Unshown {
			out = append(out, fmt.Sprintf("GPU %d shows [N/A] for its memory, as where it is the host's (unified: GB10, "+
				"Jetson): free -h tells what is left of it%s", g.GPU, largestProcess(g.Processes)))
			continue
		}
		if g.PeakUsedBytes == nil {
			out = append(out, fmt.Sprintf("GPU %d without a figure for its memory (%s shows it)%s", g.GPU, showsMemory(g),
				largestProcess(g.Processes)))
			continue
		}
		text := fmt.Sprintf("GPU %d used %s", g.GPU, sawOf(g))
		if g.TotalBytes != nil {
			text += fmt.Sprintf(" of %s", units.Bytes(*g.TotalBytes))
		}
		if g.Samples == 1 {
			text += " in " + g.Monitor() + "'s only reading"
		}
		if g.Partition != "" && i == 0 {
			text += fmt.Sprintf(" (%s: partitions of a card, each of which shows the memory that they share)", g.Partition)
		}
		out = append(out, text)
	}
	return out
}

// instanceFacts are what the parts of a GPU hold that MIG made, where nothing tells
// of the GPU as a whole.
func instanceFacts(g *evidence.GPU) string {
	const most = 4
	text := fmt.Sprintf("GPU %d is divided by MIG", g.GPU)
	for i, m := range g.Instances {
		if i == most {
			return text + fmt.Sprintf(", and %s", units.Plural(len(g.Instances)-most, "more instance"))
		}
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		text += sep + fmt.Sprintf("instance %d used %s of %s", m.GI, units.Bytes(m.PeakUsedBytes), units.Bytes(m.TotalBytes))
	}
	return text
}

// summaryFacts are the peaks of the first memory summary.
func (w *witness) summaryFacts() []string {
	all := w.doc.Evidence.MemorySummaries
	if len(all) == 0 || all[0].PeakAllocatedBytes == nil {
		return nil
	}
	text := fmt.Sprintf("PyTorch's own counters show a peak of %s allocated", units.Bytes(*all[0].PeakAllocatedBytes))
	if all[0].PeakReservedBytes != nil {
		text += fmt.Sprintf(" and %s reserved", units.Bytes(*all[0].PeakReservedBytes))
	}
	if all[0].Device != nil {
		text += fmt.Sprintf(" on device %d", *all[0].Device)
	}
	return []string{text}
}

// showsMemory is how a GPU's memory is asked for.
func showsMemory(g *evidence.GPU) string {
	switch g.Monitor() {
	case "rocm-smi":
		return "rocm-smi --showmeminfo vram"
	case "nvidia-smi":
		return "--query-gpu=memory.used"
	}
	return g.Monitor() + "'s metrics of the system, where they were kept,"
}

// engineTook is what an inference engine took of a GPU by its own word.
func engineTook(e *evidence.Engine) string { return e.Name + " took " + engineParts(e) }

// largestProcess names the process that holds most.
func largestProcess(list []evidence.Process) string {
	most := -1
	for i, p := range list {
		if p.PeakUsedBytes != nil && (most < 0 || *p.PeakUsedBytes > *list[most].PeakUsedBytes) {
			most = i
		}
	}
	switch {
	case most >= 0:
		p := list[most]
		return fmt.Sprintf("; process %d%s held most there, %s", p.PID, oom.Named(p.Name), units.Bytes(*p.PeakUsedBytes))
	case len(list) > 0:
		return fmt.Sprintf("; %d processes on it", len(list))
	}
	return ""
}

func mentionsMemory(l evidence.Log) bool { return evidence.Or(l.Steps.MaxMemoryBytes, 0) > 0 }

func mostMemory(s *evidence.Steps) string {
	return units.MostMemory(s.MaxMemoryBytes, s.MaxReservedBytes, s.Named, s.Printed)
}
