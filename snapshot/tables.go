package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/internal/cut"
)

// tables are what the file said so far, as interned texts, frames and stacks and as
// rows of columns.
type tables struct {
	window

	strings    map[string]StringID
	lastText   string // the last literal string and its id: recorders repeat them
	lastID     StringID
	frames     map[Frame]FrameID
	fxs        map[FX]FXID
	lastStream struct {
		raw uint64
		id  uint32
	}
	streams map[uint64]uint32
	pools   map[Pool]uint32
	actions map[StringID]Action

	events      Events // columns longer than rows
	rows        int
	eventGrowth growth
	readyRows   int // memory is behind the columns up to here
	ooms        []OutOfMemory
	blocks      []Block
	segments    []segmentRow
	annotations []Annotation
	histories   []History

	eventKeys uint64 // all keys seen in events, as bits
	out       *Snapshot
	damage    []damage
	place     int64 // where damage is said to be, 0: where it is found
	unknown   map[[2]StringID]*Unknown
}

// segmentRow is a segment whose device isn't sorted out yet.
type segmentRow struct {
	Segment
	device                int64
	firstBlock, numBlocks int
	placed                bool // its device has it
}

// damage counts one kind of thing that can't be right.
type damage struct {
	text  string
	count int
	at    int64
}

// note counts damage; the text names the kind, the first place is kept.
func (t *tables) note(text string) {
	for i := range t.damage {
		if t.damage[i].text == text {
			t.damage[i].count++
			return
		}
	}
	if len(t.damage) < 64 {
		at := t.base + int64(t.p)
		if t.place > 0 {
			at = t.place
		}
		t.damage = append(t.damage, damage{text, 1, at})
	}
}

func (t *tables) textOf(v value) string { return t.out.Strings[v.index()] }

// intern gives a string's id; a new string is copied, once.
func (t *tables) intern(s []byte) (StringID, error) {
	if len(s) > maxText {
		s = t.shortened(s)
	}
	if string(s) == t.lastText {
		return t.lastID, nil
	}
	id, ok := t.strings[string(s)]
	if !ok {
		if err := t.take(2*int64(len(s)) + 64); err != nil {
			return 0, err
		}
		id = StringID(len(t.out.Strings))
		clean := string(s)
		t.strings[clean] = id
		if !utf8.ValidString(clean) {
			t.note("string that is not UTF-8, shown with replacement characters")
			clean = strings.ToValidUTF8(clean, "\uFFFD")
		}
		t.out.Strings = append(t.out.Strings, clean)
	}
	t.lastText, t.lastID = t.out.Strings[id], id
	return id, nil
}

// shortened is the beginning of a text that is too long to be a name.
func (t *tables) shortened(s []byte) []byte {
	t.note("text of more than 8 KiB, cut")
	n := cut.Whole(s, maxText)
	return append(s[:n:n], "\u2026"...)
}

func (t *tables) internStack(frames []FrameID) (StackID, error) {
	before := t.out.stacks.len()
	id := t.out.stacks.intern(frames)
	if t.out.stacks.len() > before {
		return id, t.take(4*int64(len(frames)) + 32)
	}
	return id, nil
}

func (t *tables) frame(f Frame) (FrameID, error) {
	id, ok := t.frames[f]
	if !ok {
		if err := t.take(64); err != nil {
			return 0, err
		}
		id = FrameID(len(t.out.Frames))
		t.out.Frames = append(t.out.Frames, f)
		t.frames[f] = id
	}
	return id, nil
}

func (t *tables) fx(f FX) (FXID, error) {
	id, ok := t.fxs[f]
	if !ok {
		if err := t.take(96); err != nil {
			return 0, err
		}
		id = FXID(len(t.out.FX))
		t.out.FX = append(t.out.FX, f)
		t.fxs[f] = id
	}
	return id, nil
}

func (t *tables) pool(p Pool) uint32 {
	id, ok := t.pools[p]
	if !ok {
		t.used += 80
		id = uint32(len(t.out.Pools))
		t.out.Pools = append(t.out.Pools, p)
		t.pools[p] = id
	}
	return id
}

// report turns the counts of damage and unknown keys into words.
func (t *tables) report() {
	for _, x := range t.damage {
		text := fmt.Sprintf("%s, near offset %d", x.text, x.at)
		if x.count > 1 {
			text = fmt.Sprintf("%s, %d times, first near offset %d", x.text, x.count, x.at)
		}
		t.out.Damage = append(t.out.Damage, text)
	}
	for _, u := range t.unknown {
		t.out.Unknown = append(t.out.Unknown, *u)
	}
	slices.SortFunc(t.out.Unknown, func(a, b Unknown) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Key, b.Key))
	})
}
