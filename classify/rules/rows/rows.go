// Package rows finds rows of equal blocks: keys and values come so, one or two for each
// of a model's layers.
package rows

import (
	"cmp"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Row are blocks of one size, made in one run, all of which are there at once.
type Row struct {
	Size               int64
	IDs                []timeline.AllocationID // in the order in which they were made
	First, Last        int                     // births
	MinFreed, MaxFreed int
	Fits               bool // one or two blocks for each of the model's layers
	Unsure             bool // may be data as well
}

// AtOnce is true of blocks that are made with nothing else in between.
func (r *Row) AtOnce() bool { return int(r.IDs[len(r.IDs)-1]-r.IDs[0]) == len(r.IDs)-1 }

// Paired is true of blocks that are made two by two, a key and a value of each layer, with
// more between the pairs than within them; what an encoder hands to a decoder may be one
// more before them.
func (r *Row) Paired(p *phases.Program) bool {
	ids := r.IDs[len(r.IDs)%2:]
	for i := 2; i < len(ids); i += 2 {
		between := p.Born(ids[i]) - p.Born(ids[i-1])
		if p.Born(ids[i-1])-p.Born(ids[i-2]) >= between || p.Born(ids[i+1])-p.Born(ids[i]) >= between {
			return false
		}
	}
	return true
}

// Stays is true of blocks that are there together for several times as long as it took to make them all.
func (r *Row) Stays() bool {
	const times = 3
	return r.MinFreed-r.Last > times*(r.Last-r.First)
}

// GoTogether is true of blocks that are freed with nothing made in between.
func (r *Row) GoTogether(p *phases.Program) bool {
	return !slices.Contains(p.Events.Action[r.MinFreed:r.MaxFreed], snapshot.Alloc)
}

// Bounds of a row.
const (
	least  = 1024 // bytes of a block
	fewest = 4    // blocks: keys and values of two layers
	most   = 1024 // blocks: what is more are no layers'
)

// Find finds the rows of a program, in the order of their first births: what its setup
// leaves, and what passes make and the next backward pass doesn't free. The sizes of its
// weights tell how many layers its model has.
func Find(p *phases.Program, weights map[int64]int) []*Row {
	f := finder{Program: p, open: map[int64]*open{}, layers: layerCounts{weights: weights, known: map[kind]bool{}}}
	for id := timeline.AllocationID(p.Timeline.Older()); int(id) < p.Timeline.Len(); id++ {
		if n := p.Timeline.Requested(id); n >= least && f.lasts(id) {
			f.add(id, n)
		}
	}
	for _, o := range f.open {
		f.end(o)
	}
	slices.SortFunc(f.rows, func(a, b *Row) int { return cmp.Compare(a.First, b.First) })
	return f.rows
}

// finder gathers rows by size.
type finder struct {
	*phases.Program
	open   map[int64]*open
	recent [256]*open // sizes come again and again
	rows   []*Row
	layers layerCounts
}

// open are the blocks of one size that may become a row.
type open struct {
	size int64
	run  int
	ids  []timeline.AllocationID
	ends []int                   // of the first to go among so many
	gone []timeline.AllocationID // one by one, since the row began
}

// lasts is true of what a row may consist of.
func (f *finder) lasts(id timeline.AllocationID) bool {
	switch f.Phase[id] {
	case meaning.Setup:
		return f.Outlives(id) || f.PhaseAt(f.Freed(id)) != meaning.Setup || f.FailedBetween(f.Born(id), f.Freed(id))
	case meaning.Data, meaning.Forward, meaning.Generate, meaning.OtherPhase:
		if !f.Trains {
			return true
		}
		pass := f.BackwardAfter(f.Run(f.Born(id)))
		return pass == nil || f.Freed(id) < pass.First || f.Freed(id) >= pass.End
	}
	return false
}

// add puts a block into the row of its size, from which those go that are gone.
func (f *finder) add(id timeline.AllocationID, n int64) {
	o := f.recent[(n>>9^n>>17)&255]
	if o == nil || o.size != n {
		if o = f.open[n]; o == nil {
			o = &open{size: n}
			f.open[n] = o
		}
		f.recent[(n>>9^n>>17)&255] = o
	}
	b := f.Born(id)
	run := f.Run(b)
	if n := len(o.ids); n >= most || n > 0 && o.run != run && o.ids[n-1]+1 != id {
		f.end(o)
	}
	for len(o.ids) > 0 && f.Freed(o.ids[len(o.ids)-1]) < b && (len(o.ids) == 1 || o.ends[len(o.ids)-2] >= b) {
		o.cut(len(o.ids) - 1) // what was made last is gone first
	}
	if len(o.ids) > 0 && o.ends[len(o.ids)-1] < b {
		f.drop(o, b)
	}
	o.push(id, f.Freed(id))
	o.run = run
}

func (o *open) cut(n int) { o.ids, o.ends = o.ids[:n], o.ends[:n] }

func (o *open) push(id timeline.AllocationID, freed int) {
	if n := len(o.ends); n > 0 {
		freed = min(freed, o.ends[n-1])
	}
	o.ids, o.ends = append(o.ids, id), append(o.ends, freed)
}

// drop takes out what is gone, which may have been a row.
func (f *finder) drop(o *open, at int) {
	var gone []timeline.AllocationID
	ids := slices.Clone(o.ids)
	o.cut(0)
	for _, id := range ids {
		if freed := f.Freed(id); freed < at {
			gone = append(gone, id)
		} else {
			o.push(id, freed)
		}
	}
	if len(gone) < fewest && len(o.gone) < most {
		o.gone = append(o.gone, gone...)
		return
	}
	f.close(gone)
}

// end makes a row of what is there, or two where that replaced others at once: a beam search puts a cache in another order.
func (f *finder) end(o *open) {
	all := slices.Concat(o.gone, o.ids)
	slices.Sort(all)
	first := f.Last // to go
	for _, id := range all {
		first = min(first, f.Freed(id))
	}
	n := sort.Search(len(all), func(k int) bool { return f.Born(all[k]) > first })
	for _, h := range [...]int{n - 1, n / 2} { // one by one, or all at once
		if h >= fewest && 2*h <= len(all) && f.replace(all[h:2*h], all[:h]) {
			f.close(all[:h])
			o.ids = all[h:]
			break
		}
	}
	f.close(o.ids)
	o.gone = o.gone[:0]
	o.cut(0)
}

// replace reports whether blocks are made in one go and stay, and others go meanwhile or right after.
func (f *finder) replace(ids, others []timeline.AllocationID) bool {
	first, last := f.Born(ids[0]), f.Born(ids[len(ids)-1])
	for last+1 < f.Last && f.Events.Action[last+1] != snapshot.Alloc {
		last++
	}
	return int(ids[len(ids)-1]-ids[0]) < 2*len(ids) &&
		!slices.ContainsFunc(ids, func(id timeline.AllocationID) bool { return f.Freed(id) <= last }) &&
		!slices.ContainsFunc(others, func(id timeline.AllocationID) bool { return f.Freed(id) < first || f.Freed(id) > last })
}

// close makes a row of blocks but for those that went long before the rest, or before the
// first one's time: others that come and go have its size by chance.
func (f *finder) close(ids []timeline.AllocationID) {
	if len(ids) < fewest {
		return
	}
	longest, end := 0, 0
	for _, id := range ids {
		freed := f.Freed(id)
		longest, end = max(longest, freed-f.Born(id)), max(end, freed)
	}
	r := &Row{Size: f.Timeline.Requested(ids[0]), MinFreed: f.Last}
	for k, id := range ids {
		if k >= fewest && (f.Born(id)-f.Born(ids[k-1]))*2 > end-f.Born(ids[0]) {
			break // of another pass
		}
		born, freed := f.Born(id), f.Freed(id)
		if (freed-born)*2 >= min(longest, end-born) {
			r.IDs = append(r.IDs, id)
			r.MinFreed, r.MaxFreed = min(r.MinFreed, freed), max(r.MaxFreed, freed)
		}
	}
	if len(r.IDs) >= fewest {
		r.First, r.Last = f.Born(r.IDs[0]), f.Born(r.IDs[len(r.IDs)-1])
		r.Fits = f.layers.fits(kind{r.Size, len(r.IDs), r.Stays() && !r.AtOnce()})
		f.rows = append(f.rows, r)
	}
}

// layerCounts tells whether there are one or two blocks of a row for each of a model's layers.
type layerCounts struct {
	weights map[int64]int
	known   map[kind]bool
}

type kind struct {
	size  int64
	count int
	some  bool // of the layers may have them: an encoder's have none
}

func (l *layerCounts) fits(k kind) bool {
	fits, ok := l.known[k]
	if !ok {
		fits = l.fit(k.count, k) || l.fit(k.count/2, k)
		l.known[k] = fits
	}
	return fits
}

// Part reports whether so many blocks of a size are a part of two for each of a model's layers, as its weights recur.
func Part(weights map[int64]int, size int64, blocks int) bool {
	l := layerCounts{weights: weights}
	for layers := max(fewest, (blocks+1)/2); blocks >= fewest && layers <= most; layers++ {
		if l.fit(layers, kind{size: size}) {
			return true
		}
	}
	return false
}

// fit reports whether a model has so many layers, going by how often most of its large
// weights recur. What a row itself consists of isn't one of them, and is not small beside
// them, as adapters are. What is several times as large as all of them may stand beside two of each size in a layer.
func (l *layerCounts) fit(layers int, row kind) bool {
	const large, part, few = 64 << 10, 16, 4 // bytes: norms and biases may be as large as each other; of a weight; times as large
	var bytes, all, largest int64
	common := 0
	for n, count := range l.weights {
		if n == row.size || n < large || count < layers {
			continue
		}
		if n > row.size*part {
			return false
		}
		all, largest = all+n*int64(count), max(largest, n)
		if count%layers == 0 {
			bytes += n * int64(count)
			common = gcd(common, count)
		}
	}
	some := row.some && layers >= fewest && common > 0 && common%layers == 0
	return (some || common == layers || common == 2*layers && largest*few <= row.size) && bytes*4 >= all*3
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
