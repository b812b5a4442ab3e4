package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// BudgetPhases name the phases for a reader.
var BudgetPhases = map[string]string{
	budget.Load.String(): "loaded", budget.Forward.String(): "forward", budget.Loss.String(): "loss",
	budget.Backward.String(): "backward", budget.FirstOptimizer.String(): "first step()", budget.Optimizer.String(): "step()",
	budget.Prefill.String(): "prefill", budget.Decode.String(): "decode",
}

func count(n int64) string { return units.Count(int(n)) }

// LargestCategories are names by size.
func LargestCategories(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
}

// BudgetModel is the model in one line.
func BudgetModel(d *budget.Document) string {
	m := d.Model
	return fmt.Sprintf("%s, %s parameters%s, %d layers, hidden %d%s", m.Type, count(m.Parameters),
		when(m.Active != m.Parameters, " ("+count(m.Active)+" active per token)"), m.Layers, m.Hidden,
		when(m.Vocabulary > 0, ", vocabulary "+count(m.Vocabulary)))
}

// BudgetSetting is the setting in one line.
func BudgetSetting(d *budget.Document) string {
	s := d.Setting
	if e, _ := s["engine"].(string); e != "" {
		return fmt.Sprintf("serving by %s in %v: requests of up to %v tokens, %v at once at most, "+
			"%v tokens of prompts at a time, %.2f of the GPU", e, s["precision"], s["context"], s["batch"],
			s["batch_tokens"], s["gpu_share"]) + gpusText(s)
	}
	if s["inference"] == true {
		return fmt.Sprintf("serving in %v: %v x %v tokens, context %v, %v cache%s", s["precision"], s["batch"], s["sequence"],
			s["context"], s["cache"], suffix(" in ", s["kv"])) + gpusText(s)
	}
	each := fmt.Sprintf("%v tokens", s["sequence"])
	if n, _ := s["resolution"].(int64); n > 0 {
		each = fmt.Sprintf("%dx%d pixels", n, n)
	}
	line := fmt.Sprintf("training in %v: %v x %s, %v, %v attention, checkpointing %v, loss %v", s["precision"], s["batch"], each,
		s["optimizer"], s["attention"], s["checkpointing"], s["loss"])
	rank, _ := s["lora"].(int64)
	load, _ := s["expert_load"].(float64)
	frozen, _ := s["freeze"].(int64)
	line += when(rank > 0, fmt.Sprintf(", LoRA rank %d on %v", rank, s["lora_targets"])) +
		when(load > 1, fmt.Sprintf(", experts with %g times an even share", load)) +
		when(frozen > 0, fmt.Sprintf(", %d blocks frozen", frozen))
	for _, k := range []string{"compile", "cuda_graphs", "float8", "float8_all_gather", "mxfp8", "async_tp",
		"optimizer_in_backward", "activation_offload"} {
		if s[k] == true {
			line += ", " + strings.NewReplacer("_", " ", "cuda", "CUDA", "tp", "TP").Replace(k)
		}
	}
	framework, _ := s["framework"].(string)
	return line + when(framework != "" && framework != "transformers", ", as "+framework+" does it") + gpusText(s)
}

// gpusText is how many GPUs there are and how they share the model, "" for one.
func gpusText(s map[string]any) string {
	n, _ := s["gpus"].(int64)
	if n <= 1 {
		return ""
	}
	line := fmt.Sprintf(", %d GPUs", n)
	for _, k := range []string{"tp", "pp", "ep", "cp"} {
		if v, _ := s[k].(int64); v > 1 {
			line += fmt.Sprintf(" %s %d", k, v)
		}
	}
	zero, _ := s["zero"].(int)
	shards, _ := s["fsdp_shards"].(int64)
	return line + when(zero > 0, fmt.Sprintf(" ZeRO-%d", zero)) +
		when(s["sequence_parallel"] == true, ", sequences split over tensor-parallel ranks") +
		suffix(" FSDP"+when(s["fsdp_version"] == 1, "1")+" ", s["fsdp"]) +
		when(shards > 0, fmt.Sprintf(" over %d", shards)) + suffix(", reduced in ", s["reduce_dtype"]) +
		when(s["keep_gathered"] == true, ", gathered until backward")
}

func suffix(before string, v any) string {
	s, _ := v.(string)
	return when(s != "", before+s)
}

// BudgetSolved is what --solve found.
func BudgetSolved(s *budget.DocSolved) string {
	if s.Value == 0 {
		return fmt.Sprintf("No %s fits %s; the setting below is the one given. --plan lists settings that fit.", s.What, s.GPU)
	}
	margin := ""
	switch {
	case s.WithMargin == s.Value:
		margin = ", with as much spare as measurements are off by"
	case s.WithMargin > 0:
		margin = fmt.Sprintf(" (%s with as much spare as measurements are off by)", count(s.WithMargin))
	}
	return fmt.Sprintf("Solved for %s: %s fits %s%s; everything below is for that.", s.What, count(s.Value), s.GPU, margin)
}

// BudgetVerdict is the first thing to read.
func BudgetVerdict(d *budget.Document) string {
	s := fmt.Sprintf("%s at the peak, in %s%s; %s on the device with reserve and context", units.Bytes(d.PeakBytes),
		BudgetPhases[d.PeakPhase], when(d.FirstStep > d.PeakBytes, ", the first step "+units.Bytes(d.FirstStep)),
		units.Bytes(d.TotalDevice))
	if len(d.Fits) == 1 {
		f := d.Fits[0]
		if n := len(d.Plans); n > 0 && f.Fits {
			return fmt.Sprintf("%s for %s. The first, %s: %s", units.Plural(n, "plan"), f.GPU, d.Plans[0].Way, s)
		}
		if share, _ := d.Setting["gpu_share"].(float64); share > 0 && !f.Fits {
			shorter := ""
			if n := f.MaxTokens; n != nil && *n > 0 {
				shorter = fmt.Sprintf("; with requests of up to %s tokens it fits (--context %d)", count(*n), *n)
			}
			return fmt.Sprintf("DOES NOT FIT %s: weights, activations and one request of %v tokens are %s, and its share %s%s",
				f.GPU, d.Setting["context"], units.Bytes(d.TotalDevice), units.Bytes(int64(share*float64(f.Capacity))), shorter)
		}
		if f.AtOnce != nil {
			return fmt.Sprintf("FITS %s: beside weights and activations its share has room for %s tokens of cache, "+
				"%.1f requests of full length at once", f.GPU, count(*f.MaxTokens), *f.AtOnce)
		}
		switch f.Verdict {
		case budget.Depending:
			return fmt.Sprintf("FITS %s, %s spare, unless %s: no flag says, and it takes more; %s",
				f.GPU, units.Bytes(f.Spare), f.If, s)
		case budget.Tight:
			return fmt.Sprintf("FITS %s, %s spare: tight, as measurements are off by more; %s", f.GPU, units.Bytes(f.Spare), s)
		}
		if f.Fits {
			return fmt.Sprintf("FITS %s: %s", f.GPU, s)
		}
		last := len(d.Ladder) - 1
		return fmt.Sprintf("DOES NOT FIT %s, short by %s: %s", f.GPU, units.Bytes(max(d.TotalDevice-f.Capacity, 0)), s) +
			when(last >= 0 && d.Ladder[max(last, 0)].Fits, "; with what would save memory, below, it fits")
	}
	return s
}

// Budget is what a model should take as a sheet.
func Budget(d *budget.Document, e Edition) *Sheet {
	s := &sheet{Edition: e}
	about := Part{Text: []string{BudgetModel(d), BudgetSetting(d)}, List: e == Ticket}
	if d.Solved != nil {
		about.Text = append(about.Text, BudgetSolved(d.Solved))
	}
	s.add(about)
	s.plans(d)
	s.budgetPeak(d)
	s.budgetPhases(d)
	s.stages(d)
	s.budgetFits(d)
	s.ladder(d.Ladder)
	if v := d.Vocabulary; v != nil {
		s.add(Part{Bare: true, Text: []string{fmt.Sprintf("With a vocabulary of %s: %s parameters, peak %s (%s)",
			count(v.Vocabulary), count(v.Parameters), units.Bytes(v.PeakBytes), Saved(v.Saves))}})
	}
	if len(d.Notes) > 0 {
		s.add(Part{Heading: "Notes", Level: 2, Text: d.Notes, List: true})
	}
	verdict := report.Verdict{Text: BudgetVerdict(d)}
	if len(d.Fits) == 1 && !d.Fits[0].Fits {
		verdict.Severity = report.Critical
	}
	return &Sheet{Heading: "Memory budget", Verdict: verdict, Short: units.Bytes(d.PeakBytes),
		Parts: s.parts}
}

// budgetPeak are the categories at the peak, largest first.
func (s *sheet) budgetPeak(d *budget.Document) {
	t := Table{NoHead: true, Columns: []Column{textColumn("category", 16), figureColumn("bytes", 11), figureColumn("share", 8),
		{Gap: 1, Bar: true}}}
	for _, k := range LargestCategories(d.Categories) {
		t.add(Plain(k), units.Bytes(d.Categories[k]), units.Percent(d.Categories[k], max(d.PeakBytes, 1)),
			Bar(d.Categories[k], d.PeakBytes, 20)).Category = k
	}
	s.add(Part{Heading: "At the peak", Level: 2, Table: t})
}

func (s *sheet) budgetPhases(d *budget.Document) {
	t := Table{Columns: []Column{textColumn("", 14), figureColumn("peak", 11), figureColumn("end", 12),
		{Name: "largest", Gap: 1}}}
	for _, p := range d.Phases {
		t.add(BudgetPhases[p.Phase], units.Bytes(p.PeakBytes), units.Bytes(p.EndBytes), TopThree(p.Categories))
	}
	s.add(Part{Heading: "By phase", Level: 2, Table: t, Bars: phaseBars(d)})
	device := []string{fmt.Sprintf("Native allocator: about %s reserved; with the CUDA context %s.", units.Bytes(d.Reserved),
		units.Bytes(d.TotalDevice))}
	if d.CacheToken > 0 {
		device = append(device, fmt.Sprintf("KV cache: %s per token%s.", units.Bytes(d.CacheToken), when(d.CacheFixed > 0,
			" and "+units.Bytes(d.CacheFixed)+" per sequence however long")))
	}
	if d.Host > 0 {
		device = append(device, fmt.Sprintf("Host memory: about %s for each GPU.", units.Bytes(d.Host)))
	}
	s.add(Part{Text: device})
}

// phaseBars are the categories alive in each phase, beside the GPUs.
func phaseBars(d *budget.Document) *Bars {
	b := &Bars{Whole: max(d.TotalDevice, 1)}
	for _, f := range d.Fits {
		if f.Capacity < 2*d.TotalDevice {
			b.Whole, b.Limits = max(b.Whole, f.Capacity), append(b.Limits, Limit{f.GPU, f.Capacity})
		}
	}
	for _, p := range d.Phases {
		row := Stacked{Name: BudgetPhases[p.Phase]}
		for _, c := range LargestCategories(p.Categories) {
			row.add("c-"+c, report.CategoryTitle(c), p.Categories[c])
		}
		row.Bytes = p.PeakBytes
		b.Rows = append(b.Rows, row)
	}
	return b
}

// Saved is what a change saves, or takes.
func Saved(n int64) string {
	if n < 0 {
		return units.Bytes(-n) + " more"
	}
	return units.Bytes(n) + " less"
}

// TopThree are the largest categories in a line.
func TopThree(m map[string]int64) string {
	names := LargestCategories(m)
	names = names[:min(len(names), 3)]
	for i, k := range names {
		names[i] = Plain(k) + " " + units.Bytes(m[k])
	}
	return strings.Join(names, ", ")
}

// plans are settings that fit, the best first, which the rest is about.
func (s *sheet) plans(d *budget.Document) {
	if len(d.Plans) == 0 {
		return
	}
	longest := 24
	for i := range d.Plans {
		longest = max(longest, len(d.Plans[i].Way)+len("1: "))
	}
	t := Table{Columns: slices.Concat([]Column{textColumn("plan", longest)}, numbers("GPU memory", "host memory", "micro-batch",
		"time", "recomputed", "sent"))}
	long := slices.ContainsFunc(d.Plans, func(p budget.Plan) bool { return p.Sequence != d.Plans[0].Sequence }) ||
		d.Solved != nil
	if long {
		t.Columns = slices.Insert(t.Columns, 1, numbers("sequence")...)
	}
	t.Columns = append(t.Columns, Column{Name: "command line", Paper: true})
	for i := range d.Plans {
		p := &d.Plans[i]
		line := cell(Code(cmp.Or(p.Command, p.Flags)))
		notes := []Fact{{"", cmp.Or(p.Command, p.Flags)}}
		if name, _ := d.Setting["framework"].(string); p.Framework != "" {
			takes := "as " + name + " takes it: "
			line, notes = cell(line, "; "+takes, Code(p.Framework)), append(notes, Fact{takes, p.Framework})
		}
		cells := []any{fmt.Sprintf("%d: %s", i+1, p.Way), units.Size(p.TotalDevice),
			orNone(p.Host > 0, "about "+units.Size(p.Host)), count(p.Batch),
			fmt.Sprintf("x%.2f", p.Cost), orNone(p.Recompute > 0, fmt.Sprintf("%.0f %%", 100*p.Recompute)),
			orNone(p.Traffic > 0, units.Size(p.Traffic)), line}
		if long {
			cells = slices.Insert(cells, 1, any(count(p.Sequence)))
		}
		t.add(cells...).Notes = notes
	}
	notes := []string{"The rest is about plan 1. What trains most in full comes first, within that the fastest. Times are for " +
		"a token beside plan 1's, estimated for an H100 and good for the order alone; what is sent is so by each GPU " +
		"in a micro-batch."}
	if p := d.Plans[0].Setting; p.Precision == "bf16" && p.LoRA == 0 && p.Adapter != "ia3" && !p.MasterWeights {
		notes = append(notes,
			"--precision bf16 keeps weights, gradients and optimizer state in 16 bits; bf16-mixed keeps them in 32.")
	}
	s.add(Part{Heading: "Plans", Level: 2, Table: t, Rest: strings.Join(notes, " ")})
}

// orNone is a figure in a table, "-" where there is none.
func orNone(is bool, figure string) string { return cmp.Or(when(is, figure), "-") }

// stages are what the ranks of a pipeline take.
func (s *sheet) stages(d *budget.Document) {
	if len(d.Stages) == 0 {
		return
	}
	t := Table{Columns: []Column{figureColumn("stage", 7), figureColumn("layers", 6), figureColumn("in flight", 9),
		figureColumn("peak", 11), figureColumn("reserved", 11)}}
	for _, g := range d.Stages {
		t.add(count(g.Rank), count(g.Layers), count(g.InFlight), units.Bytes(g.Peak), units.Bytes(g.Reserved))
	}
	s.table("Pipeline stages", 2, t, "")
}

// budgetFits say what fits on which GPU.
func (s *sheet) budgetFits(d *budget.Document) {
	t := Table{Columns: []Column{textColumn("GPU", 14), figureColumn("total", 11), {Name: "fits", Width: 5, Gap: 1},
		figureColumn("largest batch", 15), figureColumn("longest sequence", 17)}}
	if d.Setting["engine"] != nil {
		t.Columns[3].Name, t.Columns[4].Name = "full requests", "longest request"
	}
	if d.Setting["inference"] == true {
		t.Columns = append(t.Columns, figureColumn("tokens in cache", 16))
	}
	for _, f := range d.Fits {
		cells := []any{f.GPU, units.Bytes(f.Capacity), fitsWord(f), count(f.MaxBatch),
			optional(f.MaxSequence), optional(f.MaxTokens)}
		t.add(cells[:len(t.Columns)]...)
	}
	s.table("Devices", 2, t, when(d.Setting["inference"] != true, "Batch and sequence are estimates, with as much reserved "+
		"over allocated as for the setting above; --solve works one out."))
}

// fitsWord says in a word whether a device is enough.
func fitsWord(f budget.DocFit) string {
	switch {
	case !f.Fits:
		return "no"
	case f.Verdict == budget.Tight:
		return "tight"
	case f.Verdict == budget.Depending:
		return "if"
	}
	return "yes"
}

func optional(n *int64) string { return orNone(n != nil, count(evidence.Or(n, 0))) }

// ladder are the measures that would save memory.
func (s *sheet) ladder(measures []budget.Measure) {
	t := Table{Wrap: true, Columns: []Column{figureColumn("saves", 12), figureColumn("then", 11),
		{Name: "fits", Gap: 1, Width: 5}, {Name: "change, flags and costs", Gap: 1, Leads: true}}}
	for _, m := range measures {
		t.add(units.Bytes(m.Saves), units.Bytes(m.TotalDevice), when(m.Fits, "yes"), cell(m.Change+" [", Code(m.Flags),
			"]; costs "+m.Costs))
	}
	s.table("What would save memory, cheapest first (each on top of the ones before)", 2, t, "")
}
