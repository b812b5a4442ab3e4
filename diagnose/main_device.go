package diagnose

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/filename"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// names gives the labels and tensors that name a device's allocations.
func (j *job) names(source int, t *timeline.Timeline) classify.Options {
	var o classify.Options
	if j.options.Names != nil {
		o = j.options.Names(t)
	}
	s := &j.sources[source]
	if s.Labels == nil {
		return o
	}
	labels, err := s.Labels(t)
	if err != nil {
		s.labelsFailed = err.Error()
	}
	o.Labels = append(o.Labels, labels...)
	return o
}

// arrange puts the devices of the processes' main dumps into the document.
func (j *job) arrange(doc *report.Document) {
	all := j.ranks.Processes()
	place := map[*ranks.Device]int{}
	for _, p := range all {
		r := j.ranks.Recorded[p.Main]
		for _, x := range r.Devices {
			x.Dev.Rank = p.RankOrNil()
			place[x] = len(doc.Devices)
			doc.Devices = append(doc.Devices, x.Dev)
		}
		if host := j.sources[r.Source].host; host != nil {
			doc.Host = host
		}
	}
	var failed []filename.Name
	for i := range j.sources {
		if s := &j.sources[i]; s.Failed != "" {
			failed = append(failed, s.name())
		}
	}
	doc.Ranks = j.ranks.Table(all, place, failed)
	doc.Trend = j.ranks.Trends(all, place)
	if doc.Ranks != nil {
		for k := range doc.Ranks.Groups {
			g := &doc.Ranks.Groups[k]
			for _, i := range g.Rows {
				if i != g.Shown {
					doc.Devices[doc.Ranks.Rows[i].Index].Alike = new(doc.Ranks.Rows[g.Shown].Index)
				}
			}
		}
	}
}

func (j *job) noSuchDevice() error {
	var list []string
	for _, r := range j.ranks.Recorded {
		if s, err := j.sources[r.Source].decode(); err == nil {
			for _, d := range s.Devices {
				if name := fmt.Sprint(d.Ordinal); !slices.Contains(list, name) {
					list = append(list, name)
				}
			}
		}
	}
	what := "no device"
	switch len(list) {
	case 0:
	case 1:
		what = "device " + list[0]
	default:
		what = "devices " + strings.Join(list, ", ")
	}
	if len(j.ranks.Recorded) == 1 {
		return fmt.Errorf("--device %d: %s has %s", *j.options.Device, j.sources[j.ranks.Recorded[0].Source].Path, what)
	}
	return fmt.Errorf("--device %d: the recordings have %s", *j.options.Device, what)
}

// mainDevice is the device that matters most: the first that failed, else the
// fullest; -1 without any.
func (j *job) mainDevice(doc *report.Document) int {
	if r := doc.Ranks; r != nil && len(r.Rows) > 0 {
		worst := 0
		for i := range r.Rows {
			if ranks.Worse(r, i, worst) < 0 {
				worst = i
			}
		}
		return r.Rows[worst].Index
	}
	main := -1
	for i := range doc.Devices {
		d := &doc.Devices[i]
		if main < 0 || len(d.OOMs) > 0 && len(doc.Devices[main].OOMs) == 0 ||
			(len(d.OOMs) > 0) == (len(doc.Devices[main].OOMs) > 0) &&
				d.Peaks.Allocated.Bytes > doc.Devices[main].Peaks.Allocated.Bytes {
			main = i
		}
	}
	return main
}

// complete examines those devices again that are shown in full, where they were
// only remembered in short or are to be drawn, and gives the main one's
// examination.
func (j *job) complete(doc *report.Document, main int) (*examination, error) {
	if main < 0 {
		return nil, nil
	}
	if j.only != nil {
		return j.only, nil
	}
	want := map[int]map[int]bool{} // devices by source
	for i := range doc.Devices {
		d := &doc.Devices[i]
		if j.showsMore(doc, i, main) {
			if want[d.Input] == nil {
				want[d.Input] = map[int]bool{}
			}
			want[d.Input][d.Device] = true
		}
	}
	var e *examination
	for source := range j.sources {
		if want[source] == nil {
			continue
		}
		err := j.again(source, want[source], func(x *examination, dev *report.Device) {
			for i := range doc.Devices {
				if d := &doc.Devices[i]; d.Input == source && d.Device == dev.Device {
					dev.Rank, dev.Alike = d.Rank, d.Alike
					*d = *dev
					if i == main {
						e = x
					}
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if doc.Ranks != nil {
		ranks.ImbalanceFindings(doc.Ranks, doc.Devices)
	}
	return e, nil
}

// showsMore reports whether a device is shown in full, and more of it than is remembered.
func (j *job) showsMore(doc *report.Document, i, main int) bool {
	shown := doc.Ranks == nil || i == main || slices.Contains(doc.Ranks.Shown, i)
	return shown && (j.options.Pictures || doc.Devices[i].Summary || i == main && j.needsMain(&doc.Devices[i]))
}

// needsMain reports whether more is asked of the main device than its report.
func (j *job) needsMain(d *report.Device) bool { return len(d.OOMs) > 0 || j.options.Theory != nil }

// verdict is the run in one sentence: that of the device that matters most, with its place among the ranks, and what else
// is known of the run around it.
func (j *job) verdict(doc, one *report.Document) (v report.Verdict) {
	r, place, uneven := doc.Ranks, "", ""
	if r == nil || len(one.Devices) != 1 || len(r.Rows) < 2 {
		v = verdict(doc)
	} else {
		worst, main := worstVerdict(doc, &one.Devices[0])
		v, place = worst, placeAmongRanks(doc, &one.Devices[0], main)+": "
		if m := r.Imbalance; m != nil && m.Highest == main && m.Bytes >= ranks.UnevenBytes &&
			facts.Share(m.Bytes, r.Rows[main].PeakAllocated) >= ranks.UnevenInfo {
			uneven = fmt.Sprintf("; %s more than is usual among the ranks%s", units.Bytes(m.Bytes),
				ranks.Explained(m.Categories, nil))
		}
	}
	needs, unread, said := simulated(doc), j.unread(), place+v.Text+uneven+j.goesOn(doc, one)
	if needs != "" && unread == "" && v.Severity == report.Info {
		said = ""
	}
	if unread != "" && v.Severity == report.Info {
		v.Severity = report.Warning
	}
	v.Text = strings.Join(slices.DeleteFunc([]string{needs, unread, said}, func(s string) bool { return s == "" }), " ")
	v.Causes = append([]report.Cause{}, v.Causes...)
	if a := v.About; a != nil {
		v.Device, v.Finding = evidence.Known(a.Device), evidence.Known(a.Finding)
	}
	return v
}

// placeAmongRanks names a row of the ranks, and what it is among them.
func placeAmongRanks(doc *report.Document, fullest *report.Device, main int) string {
	r := doc.Ranks
	row := &r.Rows[main]
	where, of := shortName(doc.Inputs, row.Input), "recording"
	if r.Sure && row.Rank != nil {
		where, of = fmt.Sprintf("Rank %d", *row.Rank), "rank"
	}
	switch f := r.FirstOOM; {
	case f != nil && f.Row == main && f.Failed > 1:
		where += fmt.Sprintf(", the first of %s to fail", units.Plural(f.Failed, of))
	case len(doc.Devices[row.Index].OOMs) > 0 && failedRows(r) > 1:
		where += fmt.Sprintf(", one of %s that failed", units.Plural(failedRows(r), of))
	case len(doc.Devices[row.Index].OOMs) > 0:
		where += fmt.Sprintf(", the only one of %d to fail", r.Count)
	case &doc.Devices[row.Index] == fullest:
		where += fmt.Sprintf(", the fullest of %d", r.Count)
	default:
		where += fmt.Sprintf(" of %d", r.Count)
	}
	return where
}

// shortName is the end of an input's path, as much of it as no other's ends in.
func shortName(inputs []report.Input, which int) string {
	name := filepath.ToSlash(inputs[which].Path)
	at := strings.LastIndexByte(name, '/')
	for at > 0 && slices.ContainsFunc(inputs, func(i report.Input) bool {
		other := filepath.ToSlash(i.Path)
		return other != name && (other == name[at+1:] || strings.HasSuffix(other, name[at:]))
	}) {
		at = strings.LastIndexByte(name[:at], '/')
	}
	return name[at+1:]
}

// worstVerdict is the gravest verdict on a device of the job by itself, and the
// device's row; the main one's where no other's is graver.
func worstVerdict(doc *report.Document, main *report.Device) (v report.Verdict, row int) {
	look := func(i int) {
		one := *doc
		one.Devices = doc.Devices[doc.Ranks.Rows[i].Index : doc.Ranks.Rows[i].Index+1]
		if x := verdict(&one); v.Text == "" || x.Severity.Place() < v.Severity.Place() {
			v, row = x, i
			if v.About != nil && v.About.Device >= 0 {
				v.About.Device = doc.Ranks.Rows[i].Index
			}
		}
	}
	look(slices.IndexFunc(doc.Ranks.Rows, func(x report.Rank) bool { return &doc.Devices[x.Index] == main }))
	for k := range doc.Ranks.Groups {
		look(doc.Ranks.Groups[k].Shown)
	}
	return v, row
}

// goesOn tells what the main device's dumps show together: an end without the
// failure, growth, or a peak that isn't in the one that is shown.
func (j *job) goesOn(doc, one *report.Document) string {
	for i := range doc.Trend {
		t := &doc.Trend[i]
		if len(one.Devices) != 1 || &doc.Devices[t.Index] != &one.Devices[0] {
			continue
		}
		d, last := &one.Devices[0], &t.Dumps[len(t.Dumps)-1]
		highest := slices.MaxFunc(t.Dumps, func(a, b report.Dump) int { return cmp.Compare(a.PeakAllocated, b.PeakAllocated) })
		switch {
		case len(d.OOMs) > 0 && last.OOMs == 0:
			return fmt.Sprintf("; the later %s holds no failure", shortName(doc.Inputs, last.Input))
		case t.Grows != nil && len(t.Dumps) > 2:
			return fmt.Sprintf("; it grows from dump to dump by %s", units.Bytes(*t.Grows))
		case highest.PeakAllocated > d.Peaks.Allocated.Bytes:
			return fmt.Sprintf("; in %s it had peaked at %s allocated", shortName(doc.Inputs, highest.Input),
				units.Bytes(highest.PeakAllocated))
		}
	}
	return ""
}

// budgetCommand is what works out a budget from a model's configuration, or from a framework's file that names one.
func (s *Source) budgetCommand() string {
	if s.Kind == "recipe" {
		return "`vramscope budget --recipe`"
	}
	return "`vramscope budget --config`"
}

// compare puts the budget beside the main device. A configuration or a framework's file that
// was only found among the inputs is left out when it describes another model.
func (j *job) compare(doc, one *report.Document, e *examination, main int) error {
	found := slices.IndexFunc(j.sources, func(s Source) bool { return s.Config != nil && s.Config == j.options.Theory.Config })
	if found < 0 {
		err := e.compare(one)
		j.takeBudget(doc, one, main)
		return err
	}
	in := &doc.Inputs[found]
	if err := e.compare(one); err != nil {
		// the error may quote the file
		in.Notes = append(in.Notes, "not used: no budget can be worked out from it; "+j.sources[found].budgetCommand()+
			" says why")
		return nil
	}
	if r, ok := one.Budget.(*compare.Result); ok && r.Foreign {
		in.Notes = append(in.Notes, "not used: the weights in the recording are another model's")
		d := &one.Devices[0]
		d.Findings = slices.DeleteFunc(d.Findings, func(f report.Finding) bool { return f.ID == "over_budget" })
		return nil
	}
	if r, ok := one.Budget.(*compare.Result); ok && r.By == "" && j.options.Theory.By != "" {
		in.Notes = append(in.Notes, "the recording is compared with its model alone: it serves, and the recording trains")
	} else {
		in.Notes = append(in.Notes, "the recording is compared with it")
	}
	j.takeBudget(doc, one, main)
	return nil
}

// takeBudget takes the comparison of the main device.
func (j *job) takeBudget(doc, one *report.Document, main int) {
	if r, ok := one.Budget.(*compare.Result); ok {
		projectByBudget(&one.Devices[0], r)
	}
	if doc.Budget, doc.Comparison = one.Budget, one.Comparison; doc.Comparison != nil {
		doc.Comparison.Index = main
	}
}

// failedRows counts the rows that ran out of memory.
func failedRows(r *report.Ranks) int {
	n := 0
	for i := range r.Rows {
		if r.Rows[i].Failed {
			n++
		}
	}
	return n
}
