package snapshot

import (
	"unsafe"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// form is what a whole trace entry looks like, or its beginning. Most entries of a
// file are of a few forms: they differ in a few numbers at fixed places, and the rest
// need only be compared, eight bytes at a time. What those bytes mean was worked out
// field by field when the form was seen first; the memo that they refer to doesn't
// change.
type form struct {
	words      []formWord                  // from the entry's `}` on
	length     int                         // in bytes
	numbers    [stepForward + 1]formNumber // by step: values, or positions in the memo; those that aren't there are 0
	references []step                      // of the numbers besides the stack, those that are positions in the memo
	others     bool                        // there are some besides address, size, time and stack
	list       bool                        // its last bytes begin a list of frames, with SETITEMS behind it
	own        bool                        // the entry itself is put into the memo, before others
	puts       []ref                       // the others
	action     Action
	keys       uint64
	rest       *field // what the fields behind it stand behind; nil when there are none
	then       uint8  // the form that followed the last time
}

// formWord is eight bytes of a form; mask leaves the numbers out.
type formWord struct{ bits, mask uint64 }

// formNumber is where a number stands in an entry; its payload is 0 where there is none.
type formNumber struct {
	at           int
	payload, max uint64
}

func (x *formNumber) read(start unsafe.Pointer, p int) uint64 {
	return eight(start, p+x.at) & x.payload
}

const (
	maxForms  = 64
	formBytes = 256 // of the longest form
	formPuts  = 8   // memo entries of one form, and one of its list
	patience  = 4096
	dear      = 16 // entries that are read as a whole for one that is compared in vain
	listHead  = 3  // bytes that tell a list of many frames from one of one or none
)

// forms are those of the entries so far. Programs repeat themselves: the form that
// followed the last few forms before is tried before any other.
type forms struct {
	all     []form
	next    [1 << 13]uint8 // by context, the form that followed
	context uint64         // of the last sixteen forms
	last    int
	// Where most entries have forms of their own, patience runs out: it is -1.
	missed, patience int
}

func (fs *forms) slot() *uint8 { return &fs.next[fs.context*0x9E3779B97F4A7C15>>(64-13)] }

// fits reports whether the entry at p is of form f.
func (f *form) fits(start unsafe.Pointer, p int) bool {
	for i := range f.words {
		if w := &f.words[i]; (eight(start, p+8*i)^w.bits)&w.mask != 0 {
			return false
		}
	}
	return true
}

// find is the form of the entry at p where the first guess was wrong, -1 when it
// has none that is known.
func (fs *forms) find(start unsafe.Pointer, p, rows int) int {
	last := &fs.all[fs.last]
	if i := last.then; fs.all[i].fits(start, p) {
		return int(i)
	}
	for i := range fs.all {
		if fs.all[i].fits(start, p) {
			last.then = uint8(i)
			return i
		}
	}
	if fs.missed++; fs.missed*dear > fs.patience+rows {
		fs.all, fs.patience = nil, -1
	}
	return -1
}

// formedEvents reads trace entries at d.p as long as they are of known forms;
// false when what follows is no entry, or not at hand.
func (d *fast) formedEvents() (more bool) {
	fs, b := &d.forms, d.b
	start := unsafe.Pointer(unsafe.SliceData(b))
	for {
		p := d.p
		if p >= d.more || b[p] != pickle.EmptyDict || len(d.stack) == cap(d.stack) {
			return false
		}
		if len(fs.all) == 0 || len(b)-p < room || len(d.memo)+formPuts > cap(d.memo) {
			return true
		}
		slot := fs.slot()
		i := int(*slot)
		f := &fs.all[i]
		if !f.fits(start, p) {
			if i = fs.find(start, p, d.rows); i < 0 {
				return true
			}
			f = &fs.all[i]
			*slot = uint8(i)
		}
		fs.last = i
		fs.context = fs.context<<4 ^ uint64(i)
		if d.p = d.formedEvent(f, start, p); d.p == 0 {
			d.p = p
			return true
		}
	}
}

// formedEvent adds the entry at p, which is of form f; end is behind it, 0 when one
// of its numbers can't be told here.
// Most events of most files go through it, so that nothing is called for them.
func (d *fast) formedEvent(f *form, start unsafe.Pointer, p int) (end int) {
	address, size, time := f.numbers[stepAddress].read(start, p), f.numbers[stepSize].read(start, p),
		f.numbers[stepTime].read(start, p)
	n, c := d.rows, &d.events
	if address > f.numbers[stepAddress].max || size > f.numbers[stepSize].max || time > f.numbers[stepTime].max ||
		n == len(c.Action) && d.growEvents() != nil {
		return 0
	}
	was := len(d.memo)
	memo := d.memo
	if f.own {
		memo = append(memo, newValue(kEvent, uint64(n)).ref())
	}
	d.memo = append(memo, f.puts...)
	stack, ok := StackID(0), true
	end = p + f.length
	switch {
	case f.list:
		end, stack = d.frameList(end - listHead)
		ok = end != 0 && d.b[end] == pickle.SetItems
		end++
	case f.numbers[stepStack].payload != 0:
		stack, ok = d.knownStack(d.remembered(f.numbers[stepStack].read(start, p)))
	}
	v := newValue(kEvent, uint64(n))
	if ok && (f.others || f.rest != nil) {
		r := row{action: f.action, stack: stack}
		r.numbers[stepAddress], r.numbers[stepSize], r.numbers[stepTime] = address, size, time
		ok = !f.others || d.formedOthers(f, start, p, &r)
		switch {
		case !ok:
		case f.rest != nil:
			d.seen = d.seen[:0]
			_, end = d.fastFields(d.b, end, f.rest, &r)
			ok = end != 0
		default:
			d.eventKeys |= f.keys
			_, err := d.addEvent(&r)
			ok = err == nil
		}
	} else if ok {
		c.Action[n] = f.action
		c.Address[n] = address
		c.Size[n] = int64(size)
		c.TimeUS[n] = int64(time)
		c.Stack[n] = stack
		d.rows = n + 1
		d.eventKeys |= f.keys
	}
	if !ok {
		d.memo = d.memo[:was]
		return 0
	}
	d.push(v)
	return end
}

// formedOthers reads what most files leave at zero.
func (d *fast) formedOthers(f *form, start unsafe.Pointer, p int, r *row) (ok bool) {
	stream, category := &f.numbers[stepStream], &f.numbers[stepCategory]
	x := stream.read(start, p)
	if x > stream.max {
		return false
	}
	if x != 0 {
		r.stream = d.stream(d.number(int64(x)))
	}
	if category.payload != 0 {
		if x = category.read(start, p); x > category.max {
			return false
		}
		r.category = categoryOf(int64(x))
	}
	for _, s := range f.references {
		v := d.remembered(f.numbers[s].read(start, p))
		if s <= stepStage && v.kind() == kString { // nearly all
			*r.text(s) = StringID(v.index())
		} else if !d.refer(s, v, r) {
			return false
		}
	}
	return true
}

// seenField is a field of the entry that was read last.
type seenField struct {
	field *field
	at    int // where it begins
	puts  int // memo entries before it
}

// learnForm makes a form of an entry of the usual kind that was read field by field
// and is b; its memo entries begin at puts. It ends where the next entry of its kind
// may differ in more than the numbers: before texts, pools and lists, but for a list
// of frames at the entry's end. What has a FRAME amid it or is in the memo by a number
// has no form.
func (d *fast) learnForm(b []byte, puts int, e *row) {
	if d.forms.patience < 0 || len(d.forms.all) == maxForms || d.framed || e.action == OOM {
		return
	}
	f := form{length: len(b), keys: d.seen[len(d.seen)-1].field.keys}
	at := 2 // behind `}` and MARK
	if f.own = b[1] == pickle.Memoize; f.own {
		at, puts = 3, puts+1
	}
	first := d.p
	if d.seen[0].at-first != at || d.seen[0].puts != puts {
		return // its memo entry is numbered
	}
	var varies [formBytes]bool // bytes of numbers
	last := &d.fields
fields:
	for i := range d.seen {
		s := &d.seen[i]
		if s.at-first > formBytes-fieldRoom {
			f.length, f.rest = s.at-first, last
			break
		}
		if s.field.step == stepEnd {
			break
		}
		next := d.seen[i+1]
		switch step := s.field.step; step {
		case stepAction:
			f.action = e.action
		case stepOther:
			f.list = s.field.key == sFrames && e.stack != 0 && next.field.step == stepEnd
			if f.list {
				f.length = s.at - first + s.field.value + listHead
				break fields // its memo entry is its own
			}
			if !e.isNothing(s.field.key) || next.puts > s.puts && !memoized(b[:next.at-first]) {
				f.length, f.rest = s.at-first, last
				break fields
			}
		case stepNoFrames: // nothing but its memo entry
		default:
			if step == stepStream && e.stream == 0 { // most are: a byte to be compared
				break
			}
			g, from := s.field, s.at-first+s.field.value
			f.numbers[step] = formNumber{at: from, payload: g.payload, max: g.max}
			for i := from; i < s.at-first+g.length; i++ {
				varies[i] = true
			}
			if step >= stepCompile && step != stepStack {
				f.references = append(f.references, step)
			}
			f.others = f.others || step != stepAddress && step != stepSize && step != stepTime && step != stepStack
		}
		f.puts = append(f.puts, d.memo[s.puts:next.puts]...)
		last = s.field
	}
	if f.length > formBytes || len(f.puts)+2 > formPuts {
		return
	}
	f.compare(b, &varies)
	d.forms.all = append(d.forms.all, f)
}

// compare makes the words of a form of an entry's bytes but those that vary.
func (f *form) compare(b []byte, varies *[formBytes]bool) {
	f.words = make([]formWord, (f.length+7)/8)
	for i := range f.length {
		if !varies[i] {
			f.words[i/8].mask |= 0xff << (8 * (i % 8))
			f.words[i/8].bits |= uint64(b[i]) << (8 * (i % 8))
		}
	}
}

// isNothing reports whether the value of a key is what most entries have: the columns
// leave it out.
func (r *row) isNothing(key StringID) bool {
	switch s := eventSteps.reference[min(key, numKeys)]; s {
	case stepCompile, stepMetadata, stepInternal:
		return *r.text(s) == 0
	case stepPool:
		return r.pool == 0
	case stepStack:
		return r.stack == 0
	case stepForward:
		return r.forward == 0
	}
	return false
}

// memoized reports whether b surely ends in MEMOIZE.
func memoized(b []byte) bool {
	n := len(b)
	return b[n-1] == pickle.Memoize && b[n-2] != pickle.BinPut && b[n-5] != pickle.LongBinPut
}
