package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// shortage is what a failed request lacked, in bytes.
type shortage struct {
	usable  int64 // what PyTorch could have had; 0: not known
	still   int64 // what the phase at work had yet to make, this request included; 0: not known
	missing int64 // of what the program needed then; 0 where memory was there, or isn't known
	after   int   // steps that the program made after it without another failure
}

// need is what the program wanted to hold next.
func (s *shortage) need(o *timeline.OOM) int64 { return o.Active + max(o.Requested, s.still) }

func (e *examination) shortage(o *timeline.OOM, dev *report.Device) shortage {
	s := shortage{usable: o.Capacity(), still: e.stillToCome(o), after: stepsAfter(dev, o.Event)}
	if s.usable < 0 {
		s.usable = 0
		if dev.CapacityBytes != nil {
			s.usable = *dev.CapacityBytes
		}
	}
	if s.usable > 0 {
		s.missing = max(0, s.need(o)-s.usable)
	}
	return s
}

// stepsAfter counts the steps that begin after a failure that was the last.
func stepsAfter(dev *report.Device, event int) int {
	n := 0
	for _, s := range dev.Steps {
		if s.FirstEvent > event {
			n++
		}
	}
	for _, o := range dev.OOMs {
		if o.Event > event {
			return 0
		}
	}
	return n
}

// maxExplained bounds the failures for which the rest of their step is worked out.
const maxExplained = 8

// stillToCome is what the phase in which a request failed had yet to make: the
// state of a first optimizer step, or what the rest of a step needs by one
// before. The one failing request may have fitted; the step can't. 0: not known.
func (e *examination) stillToCome(o *timeline.OOM) int64 {
	if n, ok := e.toCome[o.Event]; ok {
		return n
	}
	if e.toCome == nil {
		e.toCome = map[int]int64{}
	}
	n := passes.OptimizerStateToCome(e.classes, o)
	if n == 0 && e.program() != nil && len(e.toCome) < maxExplained {
		n = passes.RestOfStep(e.classes, o)
	}
	e.toCome[o.Event] = n
	return n
}

// oomFindings explain each kind of failed request once.
func (e *examination) oomFindings(dev *report.Device, f *facts) []draft {
	var out []draft
	seen := map[string]bool{}
	for i := range dev.OOMs {
		if o := &dev.OOMs[i]; !seen[o.Verdict] {
			seen[o.Verdict] = true
			out = append(out, e.oomFinding(o, &e.t.OOMs[i], dev, f))
		}
	}
	return out
}

func (e *examination) oomFinding(o *report.OOM, recorded *timeline.OOM, dev *report.Device, f *facts) draft {
	s := e.shortage(recorded, dev)
	d := draft{Finding: report.Finding{ID: "oom_" + o.Verdict, Severity: report.Critical, Confidence: 0.9,
		Evidence: []string{e.asked(o, dev)}}}
	d.Evidence = append(d.Evidence, roomLeft(o))
	what := units.Bytes(o.RequestedBytes)
	switch o.Verdict {
	case "true_shortage":
		d.Title = fmt.Sprintf("True shortage: a request of %s found no room, %s are missing", what, units.Bytes(s.missing))
		if s.still > o.RequestedBytes {
			step, besides := "the rest of the step", ""
			if o.Phase != nil && *o.Phase == classify.Optimizer.String() {
				step, besides = "the optimizer's first step", "; unless it is fused, temporaries come on top"
			}
			d.Title = fmt.Sprintf("True shortage: %s still has to make %s, %s are missing", step, units.Bytes(s.still),
				units.Bytes(s.missing))
			d.Evidence = append(d.Evidence, fmt.Sprintf("the step needs %s in all, of %s that PyTorch could have%s",
				units.Bytes(s.need(recorded)), units.Bytes(s.usable), besides))
		} else if s.missing == 0 {
			d.Confidence = 0.7
			d.Title = fmt.Sprintf("True shortage: nearly all is in use, a request of %s would have left %s", what,
				units.Bytes(s.usable-s.need(recorded)))
			d.Evidence = append(d.Evidence, fmt.Sprintf("%s in use and %s asked for, of %s that PyTorch could have; what is "+
				"free lies in pieces, and an allocator setting that joins them gains no more", units.Bytes(recorded.Active), what,
				units.Bytes(s.usable)))
		} else {
			d.Evidence = append(d.Evidence, fmt.Sprintf("%s in use and %s asked for, of %s that PyTorch could have: no "+
				"allocator setting helps", units.Bytes(recorded.Active), what, units.Bytes(s.usable)))
		}
		d.Evidence = append(d.Evidence, mostOf(dev)...)
	case "fragmentation":
		d.Title = fmt.Sprintf("Fragmentation: a request of %s failed although %s were free, in pieces that are too small", what,
			units.Bytes(max(0, s.usable-recorded.Active)))
		d.Evidence = append(d.Evidence, e.pinnedBy(recorded)...)
		d.Fix = ptr("PYTORCH_CUDA_ALLOC_CONF=" + expandable + ", or allocate the largest tensors first")
		if leak := e.leakFirst(recorded, dev); leak != "" {
			d.Fix = ptr(leak)
		}
		return d
	case "memory_fraction":
		d.Title = fmt.Sprintf("A request of %s was refused by a limit below the device's size", what)
		if p := e.program(); p != nil {
			if l := p.Limits(); l.Allowed > 0 {
				d.Evidence = append(d.Evidence, fmt.Sprintf("the limit is about %s", units.Bytes(l.Allowed)))
			}
		}
		d.Evidence = append(d.Evidence, mostOf(dev)...)
		d.Fix = ptr("Raise torch.cuda.set_per_process_memory_fraction (or per_process_memory_fraction in " +
			"PYTORCH_CUDA_ALLOC_CONF), or hold less")
		return d
	case "other_process":
		d.Title = fmt.Sprintf("A request of %s failed because others hold memory on the same GPU", what)
		d.Fix = ptr("Find them with nvidia-smi and stop them, or move to a free GPU")
		return d
	default:
		d.ID, d.Confidence = "oom_true_shortage", 0.3
		d.Title = fmt.Sprintf("A request of %s failed; what was left on the device was not recorded", what)
		d.Evidence = append(d.Evidence, mostOf(dev)...)
		d.Fix = ptr("Give the GPU's size with --gpu, or the log with the error message")
		return d
	}
	if i := e.graphsKept(recorded, f); i >= 0 {
		e.evaluating(&d, &dev.Leaks[i], &e.classes.Leaks()[i])
		return d
	}
	e.remedy(&d, recorded, s, dev)
	e.outlier(&d, recorded)
	if bytes := dev.AtPeak.Categories[classify.Activations.String()]; !f.trains && share(bytes, dev.AtPeak.AllocatedBytes) >= 30 {
		d.Fix = ptr(fmt.Sprintf("If this pass isn't for training, torch.no_grad() around it: it keeps none of the %s of "+
			"activations then. Else: ", units.Bytes(bytes)) + lowerFirst(*d.Fix))
	}
	e.retried(&d, recorded)
	return d
}

// leakFirst says that a failure is a leak's doing, whatever setting would have
// met that one request: it holds most of what was in use, or takes in few steps
// what any setting would leave. "" where none does.
func (e *examination) leakFirst(o *timeline.OOM, dev *report.Device) string {
	const (
		most = 50 // percent
		few  = 3  // steps
	)
	s := e.shortage(o, dev)
	left := max(0, s.usable-s.need(o))
	for i, l := range e.classes.Leaks() {
		if !l.Defect || l.Suspected || l.Kind == classify.GradientsKept || l.Kind == classify.FragmentationCreep {
			continue
		}
		var held int64
		for _, id := range l.Allocations {
			if e.t.AliveAt(id, o.Event) {
				held += e.t.Allocated[id]
			}
		}
		x := &dev.Leaks[i]
		soon := s.usable > 0 && x.BytesPerStep != nil && *x.BytesPerStep > 0 && left / *x.BytesPerStep < few
		if share(held, o.Active) < most && !soon {
			continue
		}
		at := ""
		if x.File != nil {
			at = " at " + lineText(frames.Line{Function: *x.Function, File: *x.File, Line: intOf(x.Line)})
		}
		text := fmt.Sprintf("Fix the leak%s: it holds %s of the %s in use", at, units.Bytes(held), units.Bytes(o.Active))
		if soon {
			text += fmt.Sprintf(", and takes %s more in each step: a setting would only put the failure off",
				units.Bytes(*x.BytesPerStep))
		}
		return text
	}
	return ""
}

// graphsKept is the leak that keeps whole graphs, a good part of what was in use,
// of passes that no backward pass follows; -1 for none.
func (e *examination) graphsKept(o *timeline.OOM, f *facts) int {
	const good = 20 // percent
	return slices.IndexFunc(e.classes.Leaks(), func(l classify.Leak) bool {
		if !e.unusedGraph(&l, f) {
			return false
		}
		var there int64
		for _, id := range l.Allocations {
			if e.t.AliveAt(id, o.Event) {
				there += e.t.Allocated[id]
			}
		}
		return !f.trains || share(there, o.Active) >= good
	})
}

// evaluating is about a failure while graphs are kept that no backward pass
// needs.
func (e *examination) evaluating(d *draft, l *report.Leak, kept *classify.Leak) {
	at := ""
	if l.File != nil {
		at = " around the call in " + lineText(frames.Line{Function: *l.Function, File: *l.File, Line: intOf(l.Line)})
	}
	d.Fix = ptr("torch.no_grad()" + at + ": no backward pass uses the graphs that are kept")
	d.without = "without the graphs,"
	if kept.Untrained {
		d.spells = e.afterUse(kept.Allocations)
		return
	}
	var ids []timeline.AllocationID
	for i, c := range e.classes.Category {
		if c == classify.Activations || c == classify.Logits {
			ids = append(ids, timeline.AllocationID(i))
		}
	}
	d.spells = e.afterUse(ids)
}

// outlier says that the step of a failure has larger inputs than all steps before
// it: that batch doesn't fit, others do.
func (e *examination) outlier(d *draft, o *timeline.OOM) {
	const steps, larger = 2, 1.5 // steps that went well before, at least
	k := int(e.stepAt(o.Event))
	if k < steps {
		return
	}
	inputs := make([]int64, len(e.classes.Steps)) // requested bytes by step
	for i, category := range e.classes.Category {
		if step := e.classes.Step[i]; category == classify.Inputs && step >= 0 && e.t.Born[i] != timeline.Never {
			inputs[step] += e.t.Requested(timeline.AllocationID(i))
		}
	}
	before := slices.Max(inputs[:k])
	if before == 0 || float64(inputs[k]) < larger*float64(before) {
		return
	}
	times := float64(inputs[k]) / float64(before)
	d.Evidence = append(d.Evidence, fmt.Sprintf("this step's inputs are %.1f times as large as the largest before: %s, in %s "+
		"at most %s", times, units.Bytes(inputs[k]), units.Plural(k, "step"), units.Bytes(before)))
	d.Fix = ptr(*d.Fix + fmt.Sprintf(". Or don't let it come to that: truncate or split what is %.1f times as large as all "+
		"before, or group inputs by length with a bound on tokens per batch", times))
}

// retried says that a program went on after a failure, and failed again for what
// the attempt before still held.
func (e *examination) retried(d *draft, o *timeline.OOM) {
	const most = 50 // percent of what is in use
	last := &e.t.OOMs[len(e.t.OOMs)-1]
	if last.Event <= o.Event {
		return
	}
	var held int64
	again := false
	for i, bytes := range e.t.Allocated {
		id := timeline.AllocationID(i)
		born := e.t.Born[i]
		again = again || born != timeline.Never && int(born) > o.Event && int(born) < last.Event
		if p := e.classes.Phase[i]; (p == classify.Forward || p == classify.Backward) &&
			e.classes.Category[i] != classify.Gradients &&
			e.t.AliveAt(id, o.Event) && e.t.AliveAt(id, last.Event) {
			held += bytes
		}
	}
	if !again || share(held, last.Active) < most {
		return
	}
	failed := len(e.t.OOMs) - sort.Search(len(e.t.OOMs), func(i int) bool { return e.t.OOMs[i].Event > o.Event })
	d.Evidence = append(d.Evidence, fmt.Sprintf("the program went on, and %s failed, too: %s of what this attempt had made "+
		"were still held then", units.Plural(failed, "more request"), units.Bytes(held)))
	d.Fix = ptr("Let go of the failed attempt before the next one: an exception keeps the tensors of all its frames, so try " +
		"again outside the except block, and keep str(error) instead of the error. Then: " + lowerFirst(*d.Fix))
}

// asked says what was asked for, when and by which line.
func (e *examination) asked(o *report.OOM, dev *report.Device) string {
	text := fmt.Sprintf("event %s: %s asked for", units.Count(o.Event), units.Bytes(o.RequestedBytes))
	if o.Site != nil && (o.Site.Function != "" || o.Site.Op != "") {
		text += " by " + o.Site.Short()
		if o.Site.Function != "" && o.Site.Op != "" {
			text += " (" + o.Site.Op + ")"
		}
		text += calledFrom(o.Site.CalledFrom)
	}
	if o.Phase != nil {
		text += " in " + phaseText[*o.Phase] + ofStep(dev, o.Event)
	}
	return text
}

// ofStep names the step of an event. Without stacks, what comes back in passes
// that only run forward may as well be the layers of one.
func ofStep(d *report.Device, event int) string {
	sure := d.Stacks != "none"
	for _, s := range d.Steps {
		for _, p := range s.Phases {
			sure = sure || p.Phase == "backward" || p.Phase == "optimizer"
		}
	}
	for _, s := range d.Steps {
		if sure && s.FirstEvent <= event && event <= s.LastEvent {
			return fmt.Sprintf(" of step %d", s.Step)
		}
	}
	return ""
}

func roomLeft(o *report.OOM) string {
	text := fmt.Sprintf("%s allocated, %s reserved", units.Bytes(o.AllocatedBytes), units.Bytes(o.ReservedBytes))
	if o.DeviceFreeBytes != nil {
		text += fmt.Sprintf(", %s left on the device", units.Bytes(*o.DeviceFreeBytes))
	}
	if o.LargestFreeBlock != nil {
		text += fmt.Sprintf("; %s free in PyTorch's cache, the largest block %s", units.Bytes(o.ReservedBytes-o.AllocatedBytes),
			units.Bytes(*o.LargestFreeBlock))
	}
	return text
}

// mostOf names what took most of the peak, if anything did.
func mostOf(dev *report.Device) []string {
	name, bytes := largest(&dev.AtPeak)
	if bytes == 0 {
		return nil
	}
	what, why := strings.ReplaceAll(name, "_", " "), ""
	if dev.AtPeak.GuessedWeights && name == classify.Unknown.String() {
		what, why = "what was made before anything was freed",
			": without stacks weights can't be told from what the first pass makes, or from data"
	}
	return []string{fmt.Sprintf("most of it: %s, %s (%s)%s", what, units.Bytes(bytes),
		units.Percent(bytes, dev.AtPeak.AllocatedBytes), why)}
}

// pinnedBy says which blocks keep free memory in pieces, by name and line:
// those of segments that have free memory, summed up by who made them.
func (e *examination) pinnedBy(o *timeline.OOM) []string {
	type pin struct {
		tally
		free     int64 // in the segments that hold such blocks
		segments int
		example  timeline.AllocationID // the smallest
	}
	pins := map[siteKey]*pin{}
	var keys []siteKey
	layout := e.t.LayoutAt(o.Event)
	for _, s := range layout.Segments {
		var free int64
		least := timeline.NoAllocation
		for _, b := range s.Blocks {
			if b.Allocation == timeline.NoAllocation {
				free += b.Bytes
			} else if least == timeline.NoAllocation || b.Bytes < e.t.Allocated[least] {
				least = b.Allocation
			}
		}
		if free == 0 || least == timeline.NoAllocation {
			continue
		}
		k := siteKey{category: e.classes.Category[least]}
		if stack := e.t.Stack(least); stack != 0 {
			k.site, k.known = e.view.Site(stack), true
		}
		p := pins[k]
		if p == nil {
			p = &pin{example: least}
			pins[k], keys = p, append(keys, k)
		}
		p.add(e.t.Allocated[least])
		p.free += free
		p.segments++
		if e.t.Allocated[least] < e.t.Allocated[p.example] {
			p.example = least
		}
	}
	slices.SortStableFunc(keys, func(a, b siteKey) int { return cmp.Compare(pins[b].free, pins[a].free) })
	var out []string
	for i, k := range keys[:min(len(keys), 3)] {
		p := pins[k]
		if i > 0 && p.free*20 < pins[keys[0]].free {
			break
		}
		what := strings.ReplaceAll(k.category.String(), "_", " ")
		if name := e.nameOf(p.example); name != "" {
			what += " such as " + name
		}
		from := ""
		if s := siteOf(k); k.known && s.Short() != "" {
			from = " from " + userLine(&s)
		}
		sizes := units.Bytes(p.largest)
		if least := e.t.Allocated[p.example]; least < p.largest {
			sizes = units.Bytes(least) + " to " + sizes
		}
		out = append(out, fmt.Sprintf("%s (%s)%s, of %s, pin %s of free memory in %s", units.Plural(p.blocks, "block"), what,
			from,
			sizes, units.Bytes(p.free), units.Plural(p.segments, "segment")))
	}
	return out
}

// nameOf is the name of a weight, gradient or state, "" when it has none.
func (e *examination) nameOf(id timeline.AllocationID) string {
	if len(e.classes.Name) == 0 {
		return ""
	}
	return e.classes.Names[e.classes.Name[id]]
}
