package kineto

import "math"

// Category is what a memory timeline attributes memory to, in the order of
// _CATEGORY_TO_COLORS of torch/profiler/_memory_profiler.py.
type Category uint8

const (
	Parameter Category = iota
	OptimizerState
	Input
	Temporary
	Activation
	Gradient
	AutogradDetail
	Uncategorised
	Categories
)

// String is the category's name in PyTorch.
func (c Category) String() string {
	names := [Categories]string{"PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "UNKNOWN"}
	if c >= Categories {
		return "UNKNOWN"
	}
	return names[c]
}

// Row is one change in a raw timeline: what a tensor added or, when negative,
// took away.
type Row struct {
	Time     int64 // nanoseconds in new files, microseconds in old ones
	Action   int   // 0 preexisting, 1 create, 2 increment version, 3 destroy
	Bytes    int64
	Category Category
}

// Timeline sums up a file of export_memory_timeline.
type Timeline struct {
	Raw            bool
	Rows           int
	PeakBytes      int64             // of all categories together
	AtPeak         [Categories]int64 // what they held then
	PeakByCategory [Categories]int64
	FirstTime      int64
	LastTime       int64
}

// list reads what begins with '[': a bare array of events, a raw timeline
// [[t, action, bytes, category], …], or [times, sizes].
func (p *parser) list() (Result, error) {
	p.skip(1)
	c, ok := p.next()
	switch {
	case !ok:
		return Result{}, p.cut("a list")
	case c == '{':
		return p.bareEvents()
	case c == '[':
		return p.timeline()
	}
	return Result{}, p.fail("a list that is neither of events nor a memory timeline", ErrNotTrace)
}

func (p *parser) bareEvents() (Result, error) {
	err := p.events()
	p.finish()
	if p.phases == 0 {
		return Result{}, p.fail("a list of objects without trace events", ErrNotTrace)
	}
	return Result{Trace: p.trace}, err
}

// timeline tells the two forms by the first list: four numbers are a row,
// any other number of them the times.
func (p *parser) timeline() (Result, error) {
	t := &Timeline{}
	var held [Categories]int64
	first, isRow, err := p.numbers(4)
	if err != nil {
		return Result{}, err
	}
	if isRow && len(first) == 4 && plausibleRow(first) && !p.nestedNext() {
		t.Raw = true
		t.FirstTime = first[0]
		t.row(p, first, &held)
		err = p.eachList(func() error {
			row, ok, err := p.numbers(4)
			if err == nil && (!ok || len(row) != 4) {
				err = p.fail("a row that is not [time, action, bytes, category]", ErrNotTrace)
			}
			if err == nil {
				t.row(p, row, &held)
			}
			return err
		})
		return Result{Timeline: t}, err
	}
	if !isRow {
		return Result{}, p.fail("a list of lists of something else than numbers", ErrNotTrace)
	}
	t.FirstTime, t.LastTime = p.firstNumber, p.lastNumber
	times := p.countNumbers
	if c, ok := p.next(); ok && c == ',' {
		p.skip(1)
	}
	if c, ok := p.next(); !ok || c != '[' {
		return Result{}, p.fail("times without sizes", ErrNotTrace)
	}
	p.skip(1)
	err = p.eachList(func() error { return p.sizes(t) })
	if err == nil && t.Rows != times {
		err = p.fail("a memory timeline with more times than sizes or fewer", ErrNotTrace)
	}
	return Result{Timeline: t}, err
}

// nestedNext looks whether a list of lists follows, as after four times.
func (p *parser) nestedNext() bool {
	p.keep = p.pos
	nested := false
	for _, want := range []byte{',', '[', '['} {
		c, ok := p.next()
		if nested = ok && c == want; !nested {
			break
		}
		p.skip(1)
	}
	p.pos, p.keep = p.keep, -1
	return nested
}

func plausibleRow(row []int64) bool {
	return row[1] >= 0 && row[1] <= 3 && row[3] >= 0 && row[3] < int64(Categories)
}

func (t *Timeline) row(p *parser, n []int64, held *[Categories]int64) {
	row := Row{Time: n[0], Action: int(n[1]), Bytes: n[2], Category: Category(min(max(n[3], 0), int64(Uncategorised)))}
	t.Rows++
	t.LastTime = row.Time
	held[row.Category] += row.Bytes
	var sum int64
	for _, b := range held {
		sum += b
	}
	t.PeakByCategory[row.Category] = max(t.PeakByCategory[row.Category], held[row.Category])
	if sum > t.PeakBytes {
		t.PeakBytes, t.AtPeak = sum, *held
	}
	if p.options.OnRow != nil {
		p.options.OnRow(row)
	}
}

// sizes reads one row of cumulative sizes: 0, then a sum per category.
func (p *parser) sizes(t *Timeline) error {
	sums, ok, err := p.numbers(int(Categories) + 1)
	if err != nil {
		return err
	}
	if !ok || len(sums) != int(Categories)+1 {
		return p.fail("a row of a memory timeline without 9 sizes", ErrNotTrace)
	}
	t.Rows++
	var held [Categories]int64
	for c := range held {
		held[c] = sums[c+1] - sums[c]
		t.PeakByCategory[c] = max(t.PeakByCategory[c], held[c])
	}
	if total := sums[Categories]; total > t.PeakBytes {
		t.PeakBytes, t.AtPeak = total, held
	}
	return nil
}

// eachList calls read at every following element up to the closing bracket.
func (p *parser) eachList(read func() error) error {
	for {
		c, ok := p.next()
		switch {
		case !ok:
			return p.cut("a memory timeline")
		case c == ']':
			p.skip(1)
			return nil
		case c == ',':
			p.skip(1)
		case c == '[':
			if err := read(); err != nil {
				return err
			}
		default:
			return p.fail("something else than a row in a memory timeline", ErrNotTrace)
		}
	}
}

// numbers reads a list of numbers, keeping the first limit of them; ok is
// false when it holds anything else.
func (p *parser) numbers(limit int) (list []int64, ok bool, err error) {
	p.skip(1)
	p.kept = p.kept[:0]
	p.countNumbers = 0
	for {
		c, more := p.next()
		switch {
		case !more:
			return nil, false, p.cut("a list of numbers")
		case c == ']':
			p.skip(1)
			if p.countNumbers > limit {
				return nil, true, nil
			}
			return p.kept, true, nil
		case c == ',':
			p.skip(1)
		case c == '-' || c >= '0' && c <= '9':
			text, err := p.value()
			if err != nil {
				return nil, false, err
			}
			v, valid := parseInt(text)
			if !valid {
				v = math.MinInt64
			}
			p.number(v, limit)
		default:
			return nil, false, nil
		}
	}
}

func (p *parser) number(v int64, limit int) {
	if p.countNumbers == 0 {
		p.firstNumber = v
	}
	p.lastNumber = v
	if p.countNumbers++; p.countNumbers <= limit {
		p.kept = append(p.kept, v)
	}
}
