package snapshot

import (
	"fmt"
	"github.com/vramscope/vramscope/internal/hashes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// traceOf is a file with a trace of so many events, written as CPython would;
// next writes what one looks like.
func traceOf(n int, next func(i int) string) []byte {
	var file strings.Builder
	file.WriteString("\x80\x04}(\x8c\x08segments\x94]\x94\x8c\x0ddevice_traces\x94]\x94]\x94(}\x94(" + // memo 0 to 5
		"\x8c\x06action\x94\x8c\x05alloc\x94" + "\x8c\x04addr\x94K\x01" + "\x8c\x04size\x94K\x01" + "\x8c\x06stream\x94K\x00" + // 6 7, 8, 9, 10
		"\x8c\x07time_us\x94K\x01" + "\x8c\x0fcompile_context\x94\x8c\x03N/A\x94" + "\x8c\x0duser_metadata\x94\x8c\x00\x94" + // 11, 12 13, 14 15
		"\x8c\x07pool_id\x94K\x01K\x02\x86\x94" + // 16 17
		"\x8c\x06frames\x94]\x94(" + // 18 19
		"}\x94(\x8c\x08filename\x94\x8c\x04a.py\x94\x8c\x04line\x94K\x01\x8c\x04name\x94\x8c\x01f\x94u" + // 20, 21 22, 23, 24 25
		"}\x94(h\x15h\x16h\x17K\x02h\x18h\x19u" + "eu" + // 26
		"}\x94(h\x06\x8c\x0efree_requested\x94h\x08K\x01h\x09K\x01h\x0aK\x00h\x0bK\x01h\x12h\x13u" + // 27, 28
		"}\x94(h\x06\x8c\x0efree_completed\x94h\x08K\x01h\x09K\x01h\x0aK\x00h\x0bK\x01h\x12h\x13u" + // 29, 30
		"}\x94(h\x06h\x07h\x08K\x01h\x09K\x01\x8c\x11internal_metadata\x94\x8c\x03abc\x94\x8c\x08category\x94K\x02" + // 31 32 33, 34
		"\x8c\x0eforward_frames\x94]\x94(\x8c\x04here\x94\x8c\x05there\x94eu") // 35 36 37 38
	for i := range n {
		file.WriteString(next(i))
	}
	file.WriteString("eau.")
	return []byte(file.String())
}

// oneOf is one of some texts.
func oneOf(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// TestForms: entries that are read as a whole give the same rows as those that are
// read field by field, whatever their numbers' widths, references, texts and lists.
func TestForms(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		number := func() string {
			return oneOf(r, "K\x07", "M\x01\x02", "J\x01\x02\x03\x04", "\x8a\x05\x01\x02\x03\x04\x05", "\x8a\x06\x01\x02\x03\x04\x05\x06", "\x8a\x07\x01\x02\x03\x04\x05\x06\x07")
		}
		var loop []string
		for range 1 + r.IntN(60) {
			e := "}\x94(h\x06" + oneOf(r, "h\x07", "h\x1c", "j\x1e\x00\x00\x00") + "h\x08" + number() + "h\x09" + oneOf(r, "K\x07", "M\x01\x02", "J\x01\x02\x03\x04", "\x8a\x05\x01\x02\x03\x04\x05") + "h\x0a" + oneOf(r, "K\x00", "K\x00", number())
			if seed%4 > 0 {
				e += "h\x0b" + number()
			}
			if seed%3 > 0 {
				e += "h\x0c" + oneOf(r, "\x8c\x03N/A\x94", "h\x0d", "\x8c\x040/0.\x94", "h\x0f")
			}
			if seed%5 > 0 {
				e += "h\x0e" + oneOf(r, "\x8c\x00\x94", "\x8c\x05step \x94", "h\x0f")
			}
			if seed%6 > 3 {
				e += "h\x20" + oneOf(r, "h\x21", "\x8c\x00\x94", "\x8c\x02op\x94")
			}
			if seed%8 > 3 {
				e += "h\x22" + oneOf(r, "K\x00", "K\x05", "M\x00\x01", "J\xff\xff\xff\x7f")
			}
			if seed%9 > 4 {
				e += "h\x23" + oneOf(r, "h\x24", "]\x94", "]\x94(h\x25h\x26e", "]\x94(\x8c\x03now\x94h\x26\x8c\x05later\x94e")
			}
			if seed%2 > 0 {
				e += "h\x10" + oneOf(r, "h\x11", "K\x00K\x00\x86\x94", "K\x05K\x06\x86\x94")
			}
			if seed%7 > 0 {
				e += "h\x12" + oneOf(r, "]\x94", "h\x13", "]\x94(h\x14h\x1ae", "]\x94(h\x1ah\x1ah\x14e", "]\x94h\x14a", "j\x13\x00\x00\x00")
			}
			loop = append(loop, e+"u")
		}
		file := traceOf(3000, func(i int) string {
			e := loop[i%len(loop)]
			switch r.IntN(200) {
			case 0: // a FRAME between fields
				at := 3 + strings.Index(e[3:], "h")
				e = e[:at] + "\x95\x00\x00\x00\x00\x00\x00\x00\x00" + e[at:]
			case 1: // another order
				e = strings.Replace(e, "h\x0aK\x00", "", 1)
			case 2: // a key that isn't known
				e = e[:len(e)-1] + "\x8c\x04mine\x94K\x03u"
			case 4: // a stream that can't be right
				e = strings.Replace(e, "h\x0aK\x00", "h\x0a\x8a\x01\xff", 1)
			case 5: // references to something else
				e = strings.NewReplacer("h\x10h\x11", "h\x10h\x0d", "h\x0ch\x0d", "h\x0ch\x11", "h\x12h\x13", "h\x12h\x11").Replace(e)
			case 6: // a key behind the frames
				e = strings.Replace(e, "h\x08K\x07", "", 1)
				e = e[:len(e)-1] + "h\x08K\x07u"
			case 7: // a text longer than a form
				e = e[:len(e)-1] + "h\x0e\x8c\xff" + strings.Repeat("x", 255) + "\x94u"
				if strings.Count(e, "h\x0e") > 1 {
					e = loop[0]
				}
			case 3: // a size that can't be right
				e = strings.Replace(e, "h\x09", "h\x09\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", 1)
				e = e[:strings.Index(e, "h\x09")+12] + "u"
			}
			return e
		})
		read := func(patience int) (*decoder, *Snapshot, error) {
			d := newDecoder(Options{})
			d.whole = file
			d.forms.patience = patience
			s, err := d.decode()
			return d, s, err
		}
		d, formed, err := read(patience)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		_, plain, err := read(-1)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(d.forms.all) == 0 {
			t.Errorf("seed %d: no form was learned", seed)
		}
		for _, s := range []*Snapshot{formed, plain} { // seeds of hashes
			s.stacks.index = hashes.Index{}
		}
		if !reflect.DeepEqual(formed, plain) {
			t.Errorf("seed %d: the rows differ", seed)
		}
	}
}

// TestFormless: entries of which each has a form of its own aren't compared with
// others for long; those that differ in a text begin alike.
func TestFormless(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name  string
		forms int
		next  func(i int) string
	}{
		{"texts", 1, func(i int) string { return fmt.Sprintf("}\x94(h\x06h\x07h\x08K\x01h\x09K\x01h\x0e\x8c\x04%04du", i) }},
		{"orders", 0, func(i int) string {
			fields := []string{"h\x06h\x07", "h\x08K\x01", "h\x09K\x01", "h\x0aK\x00", "h\x0bK\x01", "h\x0ch\x0d", "h\x0eh\x0f"}
			r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
			return "}\x94(" + strings.Join(fields, "") + "u"
		}},
	} {
		d := newDecoder(Options{})
		const n = 2000
		d.whole = traceOf(n, c.next)
		s, err := d.decode()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Devices[0].Events.Len(); got != n+4 || len(d.forms.all) != c.forms {
			t.Errorf("%s: %d events, %d forms", c.name, got, len(d.forms.all))
		}
	}
}
