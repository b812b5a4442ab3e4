package snapshot_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

// repeat is an endless text of n bytes.
func repeat(head, body string, n int64) io.Reader {
	return io.MultiReader(strings.NewReader(head), io.LimitReader(&loop{s: body}, n))
}

type loop struct {
	s string
	i int
}

func (l *loop) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k := copy(b[n:], l.s[l.i:])
		n += k
		l.i = (l.i + k) % len(l.s)
	}
	return n, nil
}

// Small files that would grow beyond measure in a reader that follows them.
func TestBombs(t *testing.T) {
	list := func(items ...any) *recorder.List { return &recorder.List{Items: items} }
	many := func(v any, n int) *recorder.List {
		l := list()
		for range n {
			l.Items = append(l.Items, v)
		}
		return l
	}
	laughs := any("ha")
	for range 30 {
		laughs = many(laughs, 10)
	}
	wide := any(&recorder.Dict{Items: []recorder.Item{{Key: "x", Value: &recorder.Dict{}}}})
	for range 4 {
		d := &recorder.Dict{}
		for i := range 1000 {
			d.Items = append(d.Items, recorder.Item{Key: i, Value: wide})
		}
		wide = d
	}
	text := strings.Repeat("long", 250_000)
	notes := list()
	for i := range 2000 {
		f := &recorder.Dict{Items: []recorder.Item{{Key: "name", Value: "f"}, {Key: "filename", Value: "g"}, {Key: "line", Value: i}, {Key: "fx_node_op", Value: text}, {Key: "fx_node_info", Value: text}}}
		notes.Items = append(notes.Items, f)
	}
	plain := &recorder.Dict{}
	for i := range 20_000 {
		plain.Items = append(plain.Items, recorder.Item{Key: i, Value: i})
	}
	r := small()
	self := list()
	self.Items = append(self.Items, self, self)
	ring := &recorder.Dict{}
	ring.Items = append(ring.Items, recorder.Item{Key: "again", Value: ring})
	file := r.Objects(recorder.Style{Era: recorder.V2_15, Protocol: 4}).(*recorder.Dict)
	trace := file.Items[1].Value.(*recorder.List).Items[0].(*recorder.List)
	segment := file.Items[0].Value.(*recorder.List).Items[0].(*recorder.Dict)
	with := func(key string, v any) []byte {
		d := &recorder.Dict{Items: append(append([]recorder.Item{}, file.Items...), recorder.Item{Key: key, Value: v})}
		return recorder.Pickle(d, 4)
	}
	copyOf := &recorder.Dict{Items: append([]recorder.Item{{Key: "extra", Value: 1}}, segment.Items...)}
	for name, test := range map[string]struct {
		file []byte
		want string // error, "" for none
	}{
		"a billion laughs":                     {with("jokes", laughs), ""},
		"a billion laughs as a stack":          {with("device_traces", list(list(&recorder.Dict{Items: []recorder.Item{{Key: "action", Value: "alloc"}, {Key: "frames", Value: laughs}}}))), ""},
		"a trace that many devices share":      {with("device_traces", many(trace, 100_000)), "one list is used as two tables"},
		"blocks that two segments share":       {with("segments", list(segment, copyOf)), "one list is used as two tables"},
		"a segment that is listed often":       {with("segments", many(segment, 300_000)), ""},
		"settings within settings":             {with("allocator_settings", wide), ""},
		"long settings within settings":        {with("allocator_settings", &recorder.Dict{Items: []recorder.Item{{Key: text, Value: many(1, 3)}, {Key: text + "x", Value: wide}}}), ""},
		"long notes that many frames share":    {with("device_traces", list(list(&recorder.Dict{Items: []recorder.Item{{Key: "action", Value: "alloc"}, {Key: "frames", Value: notes}}}))), ""},
		"a large dictionary referred to often": {with("device_traces", list(many(plain, 200_000))), ""},
		"a list that holds itself":             {with("device_traces", self), "one list is used as two tables"},
		"segments that hold themselves":        {with("segments", self), ""},
		"settings that hold themselves":        {with("allocator_settings", ring), ""},
		"a stack that holds itself":            {with("device_traces", list(list(&recorder.Dict{Items: []recorder.Item{{Key: "action", Value: "alloc"}, {Key: "frames", Value: self}}}))), ""},
		"a million lists in each other":        {[]byte(wrap(strings.Repeat("]", 1_000_000) + strings.Repeat("a", 999_999))), ""},
		"a million tuples in each other":       {[]byte(wrap("N" + strings.Repeat("\x85", 1_000_000))), ""},
		"a million empty batches":              {[]byte(wrap("]" + strings.Repeat("(e", 1_000_000))), ""},
		"a million copies":                     {[]byte(wrap("](" + strings.Repeat("N2222222222", 100_000) + "e")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = open(test.file, snapshot.Options{MaxMemory: 1 << 30}) })
			if limit := int64(96<<20 + 500*len(test.file)); n > limit {
				t.Errorf("%d bytes allocated for a file of %d", n, len(test.file))
			}
			if test.want != "" {
				wantError(t, err, test.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A text of megabytes, which two bytes can refer to again, is no name: what is
// kept of it is bounded, and still text.
func TestLongTexts(t *testing.T) {
	file := small().Objects(recorder.Style{Era: recorder.V2_15, Protocol: 4}).(*recorder.Dict)
	name := "f" + strings.Repeat("\u00e9", 1<<20) // of which the bound cuts one in two
	frame := &recorder.Dict{Items: []recorder.Item{{Key: "name", Value: name}, {Key: "filename", Value: "a.py"}, {Key: "line", Value: 1}}}
	event := &recorder.Dict{Items: []recorder.Item{{Key: "action", Value: "alloc"}, {Key: "addr", Value: 1}, {Key: "size", Value: 1}, {Key: "frames", Value: &recorder.List{Items: []any{frame}}}}}
	file.Items = append(file.Items[:1:1], recorder.Item{Key: "device_traces", Value: &recorder.List{Items: []any{&recorder.List{Items: []any{event}}}}})
	s, err := open(recorder.Pickle(file, 4), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, text := range s.Strings {
		if strings.HasPrefix(text, "f\u00e9") {
			got = text
		}
	}
	if want := "f" + strings.Repeat("\u00e9", 4095) + "\u2026"; got != want {
		t.Errorf("%d bytes are left, want %d", len(got), len(want))
	}
	if !slices.ContainsFunc(s.Damage, func(d string) bool { return strings.Contains(d, "text of more than 8 KiB, cut") }) {
		t.Errorf("damage %v", s.Damage)
	}
}

// A segment that is listed again, which takes two bytes, is no further memory.
func TestSegmentListedTwice(t *testing.T) {
	file := small().Objects(recorder.Style{Era: recorder.V2_15, Protocol: 4}).(*recorder.Dict)
	segments := file.Items[0].Value.(*recorder.List)
	once := len(segments.Items)
	segments.Items = append(segments.Items, segments.Items[0], segments.Items[0])
	s, err := open(recorder.Pickle(file, 4), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Devices[0].Segments); n != once {
		t.Errorf("%d segments, want %d", n, once)
	}
	if len(s.Damage) != 1 || !strings.Contains(s.Damage[0], "segment that is listed twice, counted once") {
		t.Errorf("damage %v", s.Damage)
	}
}

// What would take more than MaxMemory is refused before it is taken.
func TestMaxMemory(t *testing.T) {
	const limit = 16 << 20
	event := string(recorder.Pickle(&recorder.Dict{Items: []recorder.Item{{Key: "action", Value: "alloc"}, {Key: "addr", Value: 1}}}, 2))
	event = strings.TrimSuffix(strings.TrimPrefix(event, "\x80\x02"), ".")
	for name, r := range map[string]io.Reader{
		"lists":        repeat("\x80\x04](", "]", 100<<20),
		"numbers":      repeat("\x80\x04](", "K\x01", 100<<20),
		"wide numbers": repeat("\x80\x04](", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 100<<20),
		"floats":       repeat("\x80\x04](", "G12345678", 100<<20),
		"memo":         repeat("\x80\x04](N", "\x94", 200<<20),
		"tuples":       repeat("\x80\x04](", "K\x01K\x02K\x03\x87", 200<<20),
		"events":       repeat("\x80\x04](", event, 200<<20),
		"a string":     io.MultiReader(strings.NewReader("\x80\x04X\x00\x00\x00\x03"), repeat("", "text", 100<<20)),
		"a line":       repeat("(dV", "text", 100<<20),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = snapshot.Decode(r, snapshot.Options{MaxMemory: limit}) })
			if err == nil || !strings.Contains(err.Error(), "16 MiB of memory allowed") {
				t.Errorf("%v, want a word on the limit", err)
			}
			// Columns that grow leave their smaller selves behind: six times is more than the sum of all.
			if n > 6*limit+16<<20 {
				t.Errorf("%d bytes allocated, %d allowed", n, limit)
			}
		})
	}
}

// A table is there twice while it grows, which counts: 200,000 lists fit into the limit, but not
// beside their smaller selves.
func TestMaxMemoryOfGrowingTables(t *testing.T) {
	file := "\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](" + strings.Repeat("]", 200_000) + "eu."
	_, err := snapshot.Decode(strings.NewReader(file), snapshot.Options{MaxMemory: 16 << 20})
	if !errors.Is(err, snapshot.ErrMemory) {
		t.Errorf("%v, want a word on the limit", err)
	}
}

// Of allocator settings without end the first are kept, and it is told.
func TestManySettings(t *testing.T) {
	var pairs strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&pairs, "\x8c\x05k%04dK\x01", i)
	}
	file := "\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces]\x8c\x12allocator_settings}(" + pairs.String() + "uu."
	s, err := snapshot.Decode(strings.NewReader(file), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Settings) != 1000 || len(s.Damage) != 1 || !strings.Contains(s.Damage[0], "more than 1000 allocator_settings") {
		t.Errorf("%d settings, damage %q", len(s.Settings), s.Damage)
	}
}

// Values that belong to nothing are refused long before memory is short, as a
// small compressed file may hold any number of them.
func TestLooseValues(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"numbers": "K\x01", "memo": "N0\x94", "elements": "Na", "pairs": "NNs", "lists given up": "]0",
	} {
		t.Run(name, func(t *testing.T) {
			head := "\x80\x04N]"
			if unit == "NNs" {
				head = "\x80\x04N}"
			}
			in, err := snapshot.ReadInput("input", repeat(head, unit, 200<<20))
			if err != nil {
				t.Fatal(err)
			}
			_, err = in.Snapshot(snapshot.Options{})
			wantError(t, err, "no memory snapshot")
		})
	}
}

// The same holds for the general decoder, which makes an object of each value.
func TestLooseValuesInGeneral(t *testing.T) {
	file := "\x80\x04}(X\x08\x00\x00\x00segments]X\x01\x00\x00\x00x](" + strings.Repeat("]", 1<<20) + "eu."
	_, err := snapshot.DecodeGeneral([]byte(file))
	if err == nil || !strings.Contains(err.Error(), "no memory snapshot") {
		t.Errorf("error %v", err)
	}
}

func gzipped(t testing.TB, r io.Reader) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.Bytes()
}

func zstded(t testing.TB, r io.Reader) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return b.Bytes()
}

func zipped(t testing.TB, files ...io.Reader) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i, r := range files {
		f, err := w.Create("snapshot" + string(rune('0'+i)) + ".pickle")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, r); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.Bytes()
}

// zippedFolder is what zipping a folder with a single file makes on macOS.
func zippedFolder(t testing.TB, r io.Reader) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"dump/", "dump/snapshot.pickle", "__MACOSX/dump/._snapshot.pickle"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == "dump/snapshot.pickle" {
			if _, err := io.Copy(f, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Close()
	return b.Bytes()
}

func TestContainers(t *testing.T) {
	run := recorder.Simulate(recorder.Program{Seed: 2, Events: 2000, Depth: 12})
	plain := run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})
	decoded, err := open(plain, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := dump(decoded)
	content := func() io.Reader { return bytes.NewReader(plain) }
	g, z, p := gzipped(t, content()), zstded(t, content()), zipped(t, content())
	corrupt := func(b []byte) []byte {
		b = bytes.Clone(b)
		for i := len(b) / 2; i < len(b)/2+64; i++ {
			b[i] ^= 0x5a
		}
		return b
	}
	for name, test := range map[string]struct {
		file []byte
		want string // error, "" for none
	}{
		"plain": {plain, ""}, "gzip": {g, ""}, "zstd": {z, ""}, "zip": {p, ""},
		"gzip in two members":   {append(gzipped(t, bytes.NewReader(plain[:1000])), gzipped(t, bytes.NewReader(plain[1000:]))...), ""},
		"gzip with a tail":      {append(bytes.Clone(g), 0, 0, 0, 0), ""},
		"gzip with much of it":  {append(bytes.Clone(g), make([]byte, 1<<20)...), ""},
		"gzip, zeros between":   {slices.Concat(gzipped(t, bytes.NewReader(plain[:1000])), make([]byte, 100), gzipped(t, bytes.NewReader(plain[1000:]))), ""},
		"gzip and something":    {append(bytes.Clone(g), "\x00\x00and something"...), "gzip: invalid header"},
		"zstd after a skipped":  {append([]byte("\x53\x2a\x4d\x18\x04\x00\x00\x00meta"), z...), ""},
		"gzip cut":              {g[:len(g)/2], "ends in the middle"},
		"zstd cut":              {z[:len(z)/2], "ends in the middle"},
		"zip cut":               {p[:len(p)/2], "zip: "},
		"gzip, header only":     {g[:6], "gzip: "},
		"zstd, header only":     {z[:5], ""},
		"gzip corrupt":          {corrupt(g), ""},
		"zstd corrupt":          {corrupt(z), ""},
		"zip corrupt":           {corrupt(p), ""},
		"zip of two":            {zipped(t, content(), content()), `a zip of 2 files (`},
		"zip of a folder":       {zippedFolder(t, content()), ""},
		"zip of none":           {append([]byte("PK\x03\x04"), zipped(t)...), "a zip of 0 files, "},
		"gzip of nothing":       {gzipped(t, strings.NewReader("")), "the file is empty"},
		"gzip of text":          {gzipped(t, strings.NewReader("hello")), "not a pickle"},
		"gzip of gzip":          {gzipped(t, bytes.NewReader(g)), "not a pickle"},
		"gzip bomb of zeros":    {gzipped(t, repeat("", "\x00", 24<<20)), "not a pickle"},
		"gzip bomb of lists":    {gzipped(t, repeat("\x80\x04](", "]", 24<<20)), "of memory allowed"},
		"zstd bomb of lists":    {zstded(t, repeat("\x80\x04](", "]", 24<<20)), "of memory allowed"},
		"zip bomb of lists":     {zipped(t, repeat("\x80\x04](", "]", 24<<20)), "of memory allowed"},
		"zstd with vast window": {[]byte("\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "input")
			if err := os.WriteFile(name, test.file, 0o600); err != nil {
				t.Fatal(err)
			}
			good := test.want == "" && (bytes.Equal(test.file, plain) || strings.Count(t.Name(), "corrupt")+strings.Count(t.Name(), "header")+strings.Count(t.Name(), "vast") == 0)
			check := func(s *snapshot.Snapshot, err error) {
				t.Helper()
				switch {
				case good && err != nil:
					t.Error(err)
				case good:
					if d := firstDifference(dump(s), whole); d != "" {
						t.Error(d)
					}
				default:
					if err == nil {
						t.Fatal("accepted")
					}
					if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "input") {
						t.Errorf("%v, want %q", err, test.want)
					}
				}
			}
			var s *snapshot.Snapshot
			var err error
			n := allocated(func() { s, err = snapshot.Open(name, snapshot.Options{MaxMemory: 64 << 20}) })
			check(s, err)
			if n > 400<<20 {
				t.Errorf("%d bytes allocated", n)
			}
			check(open(test.file, snapshot.Options{MaxMemory: 64 << 20}))
		})
	}
}

// A container cut off still holds what came before.
func TestPartialContainers(t *testing.T) {
	run := recorder.Simulate(recorder.Program{Seed: 2, Events: 4000, Depth: 30})
	plain := run.Recording.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})
	for name, b := range map[string][]byte{"gzip": gzipped(t, bytes.NewReader(plain)), "zstd": zstded(t, bytes.NewReader(plain))} {
		s, err := open(b[:len(b)*9/10], snapshot.Options{Partial: true})
		if err != nil || s.Cut < 0 || len(s.Devices) != 1 || len(s.Damage) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A stream that is longer than what is kept of it is read once, as it comes.
func TestLongStream(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 80 MB")
	}
	head := "\x80\x04}(X\x08\x00\x00\x00segments]X\x03\x00\x00\x00padB\x00\x00\x00\x05"
	const padding = 5 << 24
	file := func(end string) io.Reader {
		return io.MultiReader(strings.NewReader(head), io.LimitReader(&loop{s: "padding."}, padding), strings.NewReader(end))
	}
	in, err := snapshot.ReadInput("-", file("u."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Snapshot(snapshot.Options{}); err != nil {
		t.Error(err)
	}
	if sum, n := in.Digest(); len(sum) != 64 || n != int64(len(head)+padding+2) {
		t.Errorf("digest %s of %d bytes", sum, n)
	}
	in, err = snapshot.ReadInput("input", file("cos\nsystem\nu."))
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.Snapshot(snapshot.Options{})
	wantError(t, err, "GLOBAL")
	// A zip's directory is at its end: too long a stream is refused.
	in, err = snapshot.ReadInput("input", io.MultiReader(strings.NewReader("PK\x03\x04"), file("")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.Snapshot(snapshot.Options{})
	wantError(t, err, "give the file's name")
}
