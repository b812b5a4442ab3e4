package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

func sizeText(n int64) string  { return units.Bytes(n) }
func countText(n int64) string { return units.Count(int(n)) }

// phaseWords name the phases for a reader.
var phaseWords = map[string]string{
	"load": "loaded", "forward": "forward", "loss": "loss", "backward": "backward", "first_optimizer_step": "first step()",
	"optimizer": "step()", "prefill": "prefill", "decode": "decode",
}

// largestFirst orders categories by size.
func largestFirst(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
}

func word(s string) string { return strings.ReplaceAll(s, "_", " ") }

// modelLine is the model in one line.
func modelLine(d *budget.Document) string {
	m := d.Model
	s := fmt.Sprintf("%s, %s parameters", m.Type, countText(m.Parameters))
	if m.Active != m.Parameters {
		s += fmt.Sprintf(" (%s active per token)", countText(m.Active))
	}
	s += fmt.Sprintf(", %d layers, hidden %d", m.Layers, m.Hidden)
	if m.Vocabulary > 0 {
		s += ", vocabulary " + countText(m.Vocabulary)
	}
	return s
}

// settingLine is the setting in one line.
func settingLine(d *budget.Document) string {
	s := d.Setting
	if s["inference"] == true {
		return fmt.Sprintf("serving in %v: %v x %v tokens, context %v, %v cache%s", s["precision"], s["batch"], s["sequence"],
			s["context"], s["cache"], suffix(" in ", s["kv"])) + gpusText(s)
	}
	line := fmt.Sprintf("training in %v: %v x %v tokens, %v, %v attention, checkpointing %v, loss %v", s["precision"], s["batch"],
		s["sequence"], s["optimizer"], s["attention"], s["checkpointing"], s["loss"])
	if n, _ := s["lora"].(int64); n > 0 {
		line += fmt.Sprintf(", LoRA rank %d on %v", n, s["lora_targets"])
	}
	return line + gpusText(s)
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
	if z, _ := s["zero"].(int); z > 0 {
		line += fmt.Sprintf(" ZeRO-%d", z)
	}
	return line + suffix(" FSDP ", s["fsdp"])
}

func suffix(before string, v any) string {
	if s, _ := v.(string); s != "" {
		return before + s
	}
	return ""
}

// solvedText is what --solve found.
func solvedText(s *budget.DocSolved) string {
	if s.Value == 0 {
		return fmt.Sprintf("No %s fits %s; the setting below is the one given.", s.What, s.GPU)
	}
	return fmt.Sprintf("Solved for %s: %s fits %s; everything below is for that.", s.What, countText(s.Value), s.GPU)
}

// verdictOf is the first thing to read.
func verdictOf(d *budget.Document) string {
	first := ""
	if d.FirstStep > d.PeakBytes {
		first = fmt.Sprintf(", the first step %s", sizeText(d.FirstStep))
	}
	s := fmt.Sprintf("%s at the peak, in %s%s; %s on the device with reserve and context", sizeText(d.PeakBytes),
		phaseWords[d.PeakPhase], first, sizeText(d.TotalDevice))
	if len(d.Fits) == 1 {
		f := d.Fits[0]
		if f.Fits {
			return fmt.Sprintf("FITS %s: %s", f.GPU, s)
		}
		return fmt.Sprintf("DOES NOT FIT %s, short by %s: %s", f.GPU, sizeText(max(d.TotalDevice-f.Capacity, 0)), s)
	}
	return s
}

func budgetText(out io.Writer, doc *budgetDocument, style report.Style) error {
	w := &lines{w: out}
	d := doc.Document
	if style.Quiet {
		w.f("%s", sizeText(d.PeakBytes))
		return w.err
	}
	if doc.Title != "" {
		w.f("%s", report.Printable(doc.Title))
	}
	w.f("%s", bold(style, report.Printable(verdictOf(d))))
	for _, n := range doc.Given {
		w.f("  %s: %s", report.Printable(n.Key), report.Printable(n.Value))
	}
	w.f("  %s", report.Printable(modelLine(d)))
	w.f("  %s", report.Printable(settingLine(d)))
	if d.Solved != nil {
		w.f("  %s", report.Printable(solvedText(d.Solved)))
	}
	w.f("")
	w.f("At the peak")
	for _, k := range largestFirst(d.Categories) {
		n := d.Categories[k]
		w.f("  %-16s %11s  %5.1f %%  %s", word(k), sizeText(n), 100*float64(n)/float64(max(d.PeakBytes, 1)),
			strings.Repeat("#", int(30*n/max(d.PeakBytes, 1))))
	}
	w.f("")
	w.f("By phase         peak         end          largest")
	for _, p := range d.Phases {
		w.f("  %-14s %11s  %11s  %s", phaseWords[p.Phase], sizeText(p.PeakBytes), sizeText(p.EndBytes), topThree(p.Categories))
	}
	w.f("  Native allocator: about %s reserved; with the CUDA context %s.", sizeText(d.Reserved), sizeText(d.TotalDevice))
	if d.CacheToken > 0 {
		w.f("  KV cache: %s per token%s.", sizeText(d.CacheToken), fixedCache(d))
	}
	textFits(w, d)
	textLadder(w, d)
	if v := d.Vocabulary; v != nil {
		w.f("")
		w.f("With a vocabulary of %s: %s parameters, peak %s (%s)", countText(v.Vocabulary), countText(v.Parameters),
			sizeText(v.PeakBytes), saved(v.Saves))
	}
	if len(d.Notes) > 0 {
		w.f("")
		for _, n := range d.Notes {
			w.f("Note: %s.", report.Printable(strings.TrimSuffix(n, ".")))
		}
	}
	return w.err
}

func fixedCache(d *budget.Document) string {
	if d.CacheFixed == 0 {
		return ""
	}
	return fmt.Sprintf(" and %s per sequence however long", sizeText(d.CacheFixed))
}

func saved(n int64) string {
	if n < 0 {
		return sizeText(-n) + " more"
	}
	return sizeText(n) + " less"
}

func topThree(m map[string]int64) string {
	var s []string
	for i, k := range largestFirst(m) {
		if i == 3 {
			break
		}
		s = append(s, word(k)+" "+sizeText(m[k]))
	}
	return strings.Join(s, ", ")
}

func textFits(w *lines, d *budget.Document) {
	w.f("")
	w.f("On               total        fits   largest batch  longest sequence%s", ifServing(d, "  tokens in cache"))
	for _, f := range d.Fits {
		yes := "no"
		if f.Fits {
			yes = "yes"
		}
		w.f("  %-14s %11s  %-4s   %13s  %16s%s", report.Printable(f.GPU), sizeText(f.Capacity), yes, countText(f.MaxBatch),
			optional(f.MaxSequence), ifServing(d, fmt.Sprintf("  %15s", optional(f.MaxTokens))))
	}
}

func ifServing(d *budget.Document, s string) string {
	if d.Setting["inference"] == true {
		return s
	}
	return ""
}

func optional(n *int64) string {
	if n == nil {
		return "-"
	}
	return countText(*n)
}

func textLadder(w *lines, d *budget.Document) {
	if len(d.Ladder) == 0 {
		return
	}
	w.f("")
	w.f("What would save memory, cheapest first (each on top of the ones before)")
	for i, m := range d.Ladder {
		fits := ""
		if m.Fits {
			fits = "  <- fits"
		}
		w.f("  %2d  -%-10s -> %10s  %s [%s]; costs %s%s", i+1, sizeText(m.Saves), sizeText(m.TotalDevice),
			report.Printable(m.Change), m.Flags, report.Printable(m.Costs), fits)
	}
}

// lines writes lines until the first error.
type lines struct {
	w   io.Writer
	err error
}

func (l *lines) f(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format+"\n", args...)
	}
}

func budgetMarkdown(out io.Writer, doc *budgetDocument) error {
	w := &lines{w: out}
	d := doc.Document
	w.f("# %s\n\n**%s**\n", cmp.Or(report.Prose(doc.Title), "Memory budget"), report.Prose(verdictOf(d)))
	for _, n := range doc.Given {
		w.f("- %s: %s", report.Prose(n.Key), report.Prose(n.Value))
	}
	w.f("- %s\n- %s\n", report.Prose(modelLine(d)), report.Prose(settingLine(d)))
	if d.Solved != nil {
		w.f("%s\n", report.Prose(solvedText(d.Solved)))
	}
	w.f("## By phase\n\n| phase | peak | end | largest |\n|---|---:|---:|---|")
	for _, p := range d.Phases {
		w.f("| %s | %s | %s | %s |", phaseWords[p.Phase], sizeText(p.PeakBytes), sizeText(p.EndBytes), topThree(p.Categories))
	}
	w.f("\n## At the peak\n\n| category | bytes | |\n|---|---:|---:|")
	for _, k := range largestFirst(d.Categories) {
		w.f("| %s | %s | %.1f %% |", word(k), sizeText(d.Categories[k]), 100*float64(d.Categories[k])/float64(max(d.PeakBytes,
			1)))
	}
	w.f("\nReserved about %s, %s on the device.\n", sizeText(d.Reserved), sizeText(d.TotalDevice))
	w.f("## Devices\n\n| GPU | total | fits | largest batch | longest sequence |%s\n|---|---:|---|---:|---:|%s",
		ifServing(d, " tokens in cache |"), ifServing(d, "---:|"))
	for _, f := range d.Fits {
		w.f("| %s | %s | %t | %s | %s |%s", report.Prose(f.GPU), sizeText(f.Capacity), f.Fits, countText(f.MaxBatch),
			optional(f.MaxSequence), ifServing(d, " "+optional(f.MaxTokens)+" |"))
	}
	if len(d.Ladder) > 0 {
		w.f("\n## What would save memory\n\nCheapest first, each on top of the ones before.\n\n| change | saves | then | " +
			"flags | costs |\n|---|---:|---:|---|---|")
		for _, m := range d.Ladder {
			w.f("| %s | %s | %s | `%s` | %s |", report.Prose(m.Change), sizeText(m.Saves), sizeText(m.TotalDevice), m.Flags,
				report.Prose(m.Costs))
		}
	}
	if v := d.Vocabulary; v != nil {
		w.f("\nWith a vocabulary of %s: %s parameters, peak %s (%s).", countText(v.Vocabulary), countText(v.Parameters),
			sizeText(v.PeakBytes), saved(v.Saves))
	}
	if len(d.Notes) > 0 {
		w.f("\n## Notes\n")
		for _, n := range d.Notes {
			w.f("- %s", report.Prose(n))
		}
	}
	return w.err
}
