package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// failure puts a failed request into words.
type failure struct {
	*report.OOM
	d     *report.Device
	first *report.Cause
}

// oomVerdict says what failed, when, and what filled the GPU.
func oomVerdict(doc *report.Document, device int) report.Verdict {
	d := &doc.Devices[device]
	f := failure{&d.OOMs[len(d.OOMs)-1], d, &report.Cause{Cause: report.Unclear}}
	if len(f.Causes) > 0 {
		f.first = &f.Causes[0]
	}
	text := "Out of memory"
	if at := f.in(); at != "" {
		text += " in " + at + f.larger()
	}
	if len(doc.Devices) > 1 {
		text += fmt.Sprintf(" on device %d", d.Device)
	}
	text += ": " + sentences(f.cause(f.first), f.besides(), f.request())
	switch n := facts.StepsAfter(d, f.Event); {
	case n > 1:
		text += fmt.Sprintf(". The program caught the error and went on: %s without a failure follow", units.Plural(n, "step"))
	case d.AtPeak.Event != nil && *d.AtPeak.Event > f.Event:
		text += fmt.Sprintf(". The program caught the error and went on, up to %s in use", units.Size(d.AtPeak.AllocatedBytes))
	}
	v := report.Verdict{Severity: report.Critical, Text: text, About: &report.About{Device: device, Finding: -1},
		Causes: f.Causes}
	if len(d.Findings) > 0 && d.Findings[0].Severity == report.Critical { // the worst stand first
		worst := &d.Findings[0]
		v.Fix, v.SavesBytes, v.About.Finding = worst.Fix, worst.SavesBytes, 0
	}
	takeChange(&v, d)
	return v
}

// sentences joins those that there are.
func sentences(all ...string) string {
	text := ""
	for _, s := range all {
		if s == "" {
			continue
		}
		if text != "" {
			text += ". "
			s = strings.ToUpper(s[:1]) + s[1:]
		}
		text += s
	}
	return text
}

// in is where in the run a request failed, "" where that isn't known.
func (f *failure) in() string {
	step := strings.TrimPrefix(facts.OfStep(f.d, f.Event), " of ")
	switch {
	case f.Phase == nil || *f.Phase == classify.OtherPhase.String():
		return step
	case f.stateToCome() > 0:
		return "the first optimizer step"
	case *f.Phase == classify.Optimizer.String() && step != "":
		return "the optimizer's part of " + step
	case step == "":
		return report.PhaseText[*f.Phase]
	}
	return report.PhaseText[*f.Phase] + " of " + step
}

// larger says that the batch is larger than all before, where nothing but what the job needs filled the GPU.
func (f *failure) larger() string {
	if f.LargerTimes == nil || !design(f.first) || f.stateToCome() > 0 {
		return ""
	}
	if f.LargerPass {
		return ", in a pass " + facts.Factor(*f.LargerTimes) + " times as large as that of the step before"
	}
	if f.LargerStep {
		return ", which needs " + facts.Factor(*f.LargerTimes) + " times as much as any step before"
	}
	return ", on inputs " + facts.Factor(*f.LargerTimes) + " times as large as any before"
}

// stateToCome is what of the optimizer's state a first step had yet to make.
func (f *failure) stateToCome() int64 {
	if f.Phase == nil || *f.Phase != classify.Optimizer.String() || f.d.Projection == nil {
		return 0
	}
	return f.d.Projection.Missed(classify.OptimizerState.String())
}

// design reports whether a cause is a kind of memory: then the rest of the step counts, too.
func design(c *report.Cause) bool {
	return slices.Contains(report.Categories, c.Cause) || c.Cause == report.Temporaries || c.Cause == report.Unclear
}

// of is a part of what was in use.
func (f *failure) of(bytes int64) string {
	return units.Size(bytes) + " of " + units.Size(f.AllocatedBytes) + " in use"
}

// made is a line of code in parentheses, "" where it isn't known.
func made(did string, p *report.Place) string {
	if p == nil {
		return ""
	}
	return " (" + did + " " + facts.PlaceText(p) + ")"
}

// plainCauses are sentences without a figure.
var plainCauses = map[string]string{
	report.TooLarge:      "one request is larger than all that the GPU has",
	report.Pieces:        "memory was free, but in pieces",
	report.FractionCause: "a limit below the GPU's size refused the request",
	report.PendingFree:   "memory that the program had freed waits for another stream",
}

// cause says what filled the GPU.
func (f *failure) cause(c *report.Cause) string {
	if text := plainCauses[c.Cause]; text != "" {
		return text
	}
	switch c.Cause {
	case report.LeakCause, report.RetainedGraph:
		return f.leak(c)
	case report.CycleCause:
		return "objects that only each other refers to stay until the garbage collector runs. " + *c.Holder + " holds " +
			f.of(c.Bytes) + made("made at", c.At)
	case report.SecondModel:
		if c.Count == 0 {
			return "the file that the weights were loaded from is still on the GPU. It holds " + f.of(c.Bytes) +
				made("loaded at", c.At)
		}
		who := "the earlier ones hold "
		if c.Holder != nil {
			who = *c.Holder + " keeps the earlier ones: "
		}
		return fmt.Sprintf("earlier models are still there. A model was made %s%s, and %s%s", units.Times(c.Count),
			made("at", c.At), who, f.of(c.Bytes))
	case report.KeptException:
		return "what a failed attempt had made is still held. It takes " + f.of(c.Bytes) +
			": an exception keeps the tensors of all its frames"
	case report.HeldCause:
		if 2*c.Most > c.Bytes {
			return fmt.Sprintf("%s holds %s", *c.Holder, f.of(c.Most))
		}
		return fmt.Sprintf("variables hold %s. The largest is %s, with %s", f.of(c.Bytes), *c.Holder, units.Size(c.Most))
	case report.Sleeping:
		return units.Size(c.Bytes) + " of what PyTorch counts aren't on the GPU: an allocator beside it sleeps (vLLM's sleep " +
			"mode, torch_memory_saver)"
	case report.PrivatePool:
		return units.Size(c.Bytes) + " were free, but in private pools, for CUDA graphs and the like alone"
	case report.OtherProcess:
		held := "memory of this GPU"
		if n := f.d.AtPeak.OtherProcesses; n != nil && *n > 0 {
			held = units.Size(*n) + " of this GPU"
		}
		return "other processes hold " + held
	}
	return f.designed(c)
}

// designed is about memory that the job needs.
func (f *failure) designed(c *report.Cause) string {
	if n := f.stateToCome(); n > 0 && f.short() {
		return fmt.Sprintf("the optimizer's state doesn't fit. %s of it exist, %s are still to come; %s",
			units.Size(f.InUse[classify.OptimizerState.String()]), units.Size(n), facts.Needs(f.d.Projection, usable(f.d, f.OOM)))
	}
	switch {
	case c.Cause == report.Unclear && c.At != nil:
		return "tensors made at " + facts.PlaceText(c.At) + " hold " + f.of(c.Bytes)
	case c.Cause == report.Unclear || c.Bytes == 0:
		if free := f.Free(); free != nil && 10*free.Bytes > f.ReservedBytes {
			return units.Size(f.AllocatedBytes) + " were in use"
		}
		return "the GPU is full"
	}
	return holding(c) + " " + f.of(c.Bytes)
}

// mostly is the share of what is in use, in percent, from which on a leak filled the GPU.
const mostly = 25

// leak says what grew, by how much, and who keeps it.
func (f *failure) leak(c *report.Cause) string {
	if c.Leak == nil || *c.FixID == "missing_no_grad" {
		return f.kept(c)
	}
	text := "a leak filled the GPU. "
	if c.Bytes*100 < f.AllocatedBytes*mostly {
		text = "a leak took the room that was missing. "
	}
	if c.Unsure {
		text = "probably " + text
	}
	text += growth(c) + storedOrMade(c)
	text += ": " + f.of(c.Bytes)
	switch l := c.Leak; {
	case l.Steps > 0 && l.Older > 0:
		text += ", " + units.Size(l.TotalBytes-l.Older) + " of it from the " + units.Plural(l.Steps, "step") + " recorded"
	case l.Steps > 0:
		text += " after " + units.Plural(l.Steps, "step")
	}
	return text
}

// storedOrMade is the line that stores what is kept, else the one that made it.
func storedOrMade(c *report.Cause) string {
	if c.StoredAt != nil {
		return made("stored at", c.StoredAt)
	}
	return made("made at", c.At)
}

// growth says what of every step is kept, and by whom.
func growth(c *report.Cause) string {
	each := cmp.Or(c.Leak.Each(), "a part")
	switch {
	case c.Leak.Steps == 0 && c.Holder != nil: // looks show it, no steps
		return *c.Holder + " gathers tensors"
	case c.Cause == report.RetainedGraph && c.Holder != nil:
		return *c.Holder + " keeps the autograd graph of every step, " + each + " each"
	case c.Cause == report.RetainedGraph:
		return "The autograd graph of every step is kept, " + each + " each"
	case c.Holder != nil:
		return *c.Holder + " keeps " + each + " of every step"
	}
	return "Every step leaves " + each + " behind"
}

// kept is about graphs that nobody uses, and copies.
func (f *failure) kept(c *report.Cause) string {
	who, where := "", made("called in", c.At)
	switch {
	case c.Leak == nil && checks.IsAwaited(c.FixID):
		who = "the graphs of all passes wait for one backward pass"
		if c.Holder != nil {
			who = *c.Holder + " gathers the graphs of all passes for one backward pass"
		}
	case c.Leak == nil && c.Cause == report.RetainedGraph:
		who = *c.Holder + " keeps the graphs of earlier passes, which no backward pass has used"
	case c.Leak != nil && c.Holder != nil:
		who = "graphs that no backward pass uses are kept by " + *c.Holder
	case c.Leak != nil:
		who = "graphs that no backward pass uses are kept"
	default:
		who, where = "copies of a model or of an optimizer's state pile up", storedOrMade(c)
		if c.Holder != nil {
			who += " in " + *c.Holder
		}
	}
	return who + ". They hold " + f.of(c.Bytes) + where
}

// besides names a second cause that explains the failure as well.
func (f *failure) besides() string {
	if len(f.Causes) < 2 || design(&f.Causes[1]) || design(f.first) {
		return ""
	}
	c := &f.Causes[1]
	switch c.Cause {
	case report.Pieces, report.HeldCause: // the request's sentence says it
		return ""
	case report.LeakCause, report.RetainedGraph, report.SecondModel, report.CycleCause, report.KeptException:
		return "besides, " + report.CauseWords(c.Cause) + " takes " + units.Size(c.Bytes)
	}
	return "besides, " + f.cause(c)
}

// short reports whether more was missing than lay in pieces.
func (f *failure) short() bool { return f.MissingBytes != nil && *f.MissingBytes > 0 }

// request says what was asked for, by which line, what was free, and what would have followed.
func (f *failure) request() string {
	c := f.first
	if n := f.stateToCome(); n > 0 && f.short() && design(c) {
		return "" // the one request is the least of it
	}
	asked := units.Size(f.RequestedBytes) + " asked for"
	if f.Site != nil && (f.Site.Op != "" || f.Site.Function != "") {
		asked = cmp.Or(strings.TrimPrefix(f.Site.Op, "aten::"), "a request")
		if p := facts.UserPlace(f.Site); p != nil {
			asked += " at " + facts.PlaceText(p)
		}
		asked += " asked for " + units.Size(f.RequestedBytes)
	}
	switch {
	case c.Length > 0:
		return fmt.Sprintf("%s: a square of %s, as [N, 1] against [N] makes; %s in use", asked, units.Count(int(c.Length)),
			units.Size(f.AllocatedBytes))
	case c.Cause == report.TooLarge:
		return fmt.Sprintf("%s, the GPU has %s; nothing that is freed makes room for it", asked, units.Size(usable(f.d, f.OOM)))
	case f.Verdict == report.UnknownVerdict:
		return asked
	case f.Verdict == report.MemoryFraction:
		return fmt.Sprintf("%s, with %s free on the GPU", asked, units.Size(*f.DeviceFreeBytes)) + f.largest(c)
	case f.Verdict == report.PendingFree:
		return asked + ", and the freed blocks would have held it" + f.largest(c)
	}
	return asked + ", " + f.free() + cmp.Or(f.grows(c), f.rest(c)) + f.largest(c)
}

// largest names what holds most, where the verdict is of something around the program.
func (f *failure) largest(c *report.Cause) string {
	if !slices.Contains([]string{report.FractionCause, report.PendingFree, report.OtherProcess, report.Sleeping}, c.Cause) {
		return ""
	}
	for i := range f.Causes {
		if x := &f.Causes[i]; design(x) || x.Cause == report.HeldCause {
			return "; " + f.designed(x)
		}
	}
	return ""
}

// free is what was free, and why it wouldn't do.
func (f *failure) free() string {
	x := f.Free()
	if x == nil || f.DeviceFreeBytes == nil {
		return units.Size(f.ReservedBytes-f.AllocatedBytes) + " were free in PyTorch's cache"
	}
	switch lacks := f.RequestedBytes - x.Bytes; {
	case lacks > 0:
		return units.Size(x.Bytes) + " were free: " + units.Size(lacks) + " short"
	case x.Largest < f.RequestedBytes:
		return units.Size(x.Bytes) + " were free in pieces, the largest " + units.Size(x.Largest)
	case x.Largest < oom.Asked(f.RequestedBytes):
		return fmt.Sprintf("%s were free in pieces, the largest %s; PyTorch asks the driver for %s at once", units.Size(x.Bytes),
			units.Size(x.Largest), units.Size(oom.Asked(f.RequestedBytes)))
	}
	return units.Size(x.Bytes) + " were free, but not for this stream, pool or size"
}

// grows says of a cache by how much it grows, "" where that isn't what a request failed for.
func (f *failure) grows(c *report.Cause) string {
	if f.CacheGrows == nil || c.Cause != report.Pieces && c.Cause != classify.KVCache.String() {
		return ""
	}
	return "; keys and values take " + units.Size(*f.CacheGrows) + " more with each step"
}

// restBy is what tells of the rest of the step.
func (f *failure) restBy() string {
	if x := f.d.Projection; x != nil && x.Missed(classify.Temporary.String()) > 0 {
		return "by the weights' sizes"
	}
	return "by the step before"
}

// rest is what the rest of the step would have needed.
func (f *failure) rest(c *report.Cause) string {
	x, free := f.d.Projection, f.Free()
	switch {
	case x != nil && x.Basis == byBudget:
		return fmt.Sprintf("; %s the run needs about %s", byBudget, units.Size(x.NeedsBytes))
	case c.Leak != nil:
	case f.short() && x != nil && x.Missed(classify.Activations.String()) > 0:
		return fmt.Sprintf("; the whole pass needs about %s, PyTorch could have %s", units.Size(x.NeedsBytes),
			units.Size(usable(f.d, f.OOM)))
	case free == nil || !design(c):
	case f.short() && 2**f.MissingBytes > 3*(f.RequestedBytes-free.Bytes):
		return fmt.Sprintf("; %s, the rest of the step needs %s more than there is", f.restBy(), units.Size(*f.MissingBytes))
	case f.MissingBytes != nil && free.Bytes >= f.RequestedBytes:
		return fmt.Sprintf("; joined, they would leave %s for what follows", units.Size(free.Bytes-f.RequestedBytes))
	}
	return ""
}

// usable is what PyTorch could have had.
func usable(d *report.Device, o *report.OOM) int64 {
	if o.DeviceFreeBytes == nil && d.CapacityBytes != nil {
		return *d.CapacityBytes
	}
	return o.ReservedBytes + evidence.Or(o.DeviceFreeBytes, 0)
}

// holding is a category as the beginning of a sentence on what it holds.
func holding(c *report.Cause) string {
	words := report.CategoryWords(c.Cause)
	switch c.Cause {
	case report.Temporaries:
		words = "temporary tensors"
	case classify.KVCache.String():
		words = "keys and values"
	case classify.Communication.String():
		words = "buffers for communication"
	}
	if c.Unsure {
		words += " probably"
	}
	if c.Cause == classify.OptimizerState.String() || c.Cause == classify.Workspace.String() {
		return words + " holds"
	}
	return words + " hold"
}
