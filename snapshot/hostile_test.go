package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
)

// allocated is how many bytes f allocates in all, whatever of them is freed again.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// open reads a file as the program does: the general reader takes what the
// fast one refuses for its layout.
func open(b []byte, o snapshot.Options) (*snapshot.Snapshot, error) {
	in, err := snapshot.ReadInput("input", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return in.Snapshot(o)
}

func le(width int, n uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, n)[:width])
}

// wrap puts a pickled value under the key "segments" of a snapshot.
func wrap(value string) string { return "\x80\x04}X\x08\x00\x00\x00segments" + value + "s." }

func TestNotASnapshot(t *testing.T) {
	noise := make([]byte, 4096)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	noise[0] = 0xff
	for name, test := range map[string]struct{ file, want string }{
		"empty":            {"", "the file is empty"},
		"text":             {"hello world, this is no pickle", "not a pickle"},
		"JSON":             {`{"segments": []}`, "not a pickle"},
		"a JSON list":      {`[1, 2]`, "not a pickle"},
		"noise":            {string(noise), "not a pickle"},
		"a model's config": {"\x80\x04}X\x05\x00\x00\x00modelX\x04\x00\x00\x00bertss.", "SETITEM with too few values"},
		"another pickle":   {"\x80\x04}X\x05\x00\x00\x00modelX\x04\x00\x00\x00berts.", "neither segments nor device_traces"},
		"a number":         {"\x80\x04K\x01.", "neither segments nor device_traces"},
		"a list of others": {"\x80\x04]K\x01a.", "neither segments nor device_traces"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open([]byte(test.file), snapshot.Options{})
			wantError(t, err, test.want)
			if strings.Contains(test.want, "not a") || strings.Contains(test.want, "neither") {
				if !errors.Is(err, snapshot.ErrNotSnapshot) {
					t.Errorf("%v is no ErrNotSnapshot", err)
				}
			}
		})
	}
}

// wantError checks that an error is an *Error that says where and why.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	var e *snapshot.Error
	if !errors.As(err, &e) || !strings.Contains(e.Cause, want) || e.File != "input" {
		t.Fatalf("error %v, want an *Error with %q", err, want)
	}
}

func TestForbiddenOpcodes(t *testing.T) {
	for name, file := range map[string]string{
		"GLOBAL": "\x80\x02cposix\nsystem\n.", "INST": "\x80\x02(iposix\nsystem\n.", "STACK_GLOBAL": "\x80\x04\x8c\x05posix\x8c\x06system\x93.",
		"REDUCE": "\x80\x02NNR.", "BUILD": "\x80\x02NNb.", "OBJ": "\x80\x02(NNo.", "NEWOBJ": "\x80\x02NN\x81.", "NEWOBJ_EX": "\x80\x04NNN\x92.",
		"PERSID": "\x80\x02P1\n.", "BINPERSID": "\x80\x02NQ.", "EXT1": "\x80\x02\x82\x01.", "EXT2": "\x80\x02\x83\x01\x00.", "EXT4": "\x80\x02\x84\x01\x00\x00\x00.",
		"NEXT_BUFFER": "\x80\x05\x97.", "READONLY_BUFFER": "\x80\x05N\x98.",
	} {
		_, err := open([]byte(file), snapshot.Options{})
		wantError(t, err, name)
		wantError(t, err, "refused")
		var e *snapshot.Error
		if errors.As(err, &e); file[e.Offset] != file[strings.IndexByte(file, file[e.Offset])] || e.Offset < 2 {
			t.Errorf("%s: offset %d", name, e.Offset)
		}
		if _, err := snapshot.DecodeGeneral([]byte(file)); err == nil || !strings.Contains(err.Error(), name+" refused") {
			t.Errorf("general: %v, want %s refused", err, name)
		}
	}
	_, err := open([]byte("\x80\x02cposix\nsystem\n."), snapshot.Options{})
	wantError(t, err, `GLOBAL "posix.system"`)
}

// What can't be parsed gets one error, and takes little time and memory.
func TestBrokenStructure(t *testing.T) {
	const huge = "\xff\xff\xff\x7f"
	const vast = "\xff\xff\xff\xff\xff\xff\xff\x7f"
	nested := func(open string, n int) string { return "\x80\x04" + strings.Repeat(open, n) }
	for name, test := range map[string]struct{ file, want string }{
		"BINUNICODE":              {wrap("X" + huge), "goes beyond the end"},
		"BINUNICODE8":             {wrap("\x8d" + vast), "goes beyond the end"},
		"BINUNICODE8 of 64 bits":  {wrap("\x8d" + strings.Repeat("\xff", 8)), "goes beyond the end"},
		"SHORT_BINUNICODE":        {"\x80\x04\x8c\xffabc", "goes beyond the end"},
		"BINSTRING":               {wrap("T" + huge), "goes beyond the end"},
		"SHORT_BINSTRING":         {"\x80\x02U\xffabc", "goes beyond the end"},
		"BINBYTES":                {wrap("B" + huge), "goes beyond the end"},
		"BINBYTES8":               {wrap("\x8e" + vast), "goes beyond the end"},
		"SHORT_BINBYTES":          {"\x80\x04C\xffabc", "goes beyond the end"},
		"BYTEARRAY8":              {wrap("\x96" + vast), "goes beyond the end"},
		"LONG1":                   {"\x80\x04\x8a\xff\x01", "goes beyond the end"},
		"LONG4":                   {wrap("\x8b" + huge), "goes beyond the end"},
		"FRAME":                   {"\x80\x04\x95" + vast + "N.", "goes beyond the end"},
		"line without end":        {"(dVabc", "ends in the middle"},
		"protocol 9":              {"\x80\x09N.", "pickle protocol 9"},
		"unknown opcode":          {"\x80\x04\xfe.", "no pickle opcode"},
		"GET of nothing":          {"\x80\x04h\x07.", "GET 7 outside memo"},
		"LONG_BINGET of nothing":  {"\x80\x04j\xff\xff\xff\xff.", "outside memo"},
		"GET of nothing, in text": {"(dg12\n.", "GET 12 outside memo"},
		"GET of a word":           {"(dgx\n.", "no memo position"},
		"GET of a hole":           {"\x80\x04Nq\x05h\x03.", "GET 3 outside memo"},
		"sparse PUT":              {"\x80\x04Nr" + huge + ".", "PUT 2147483647 beyond a memo"},
		"PUT of a negative":       {"(dp-1\n.", "no memo position"},
		"ever sparser PUTs": {func() string {
			b := "\x80\x04N"
			for i := uint64(1); i < 2000; i++ {
				b += "r" + le(4, i*60000)
			}
			return b + "."
		}(), "beyond a memo"},
		"PUT of nothing":      {"\x80\x04q\x00.", "with nothing on the stack"},
		"a million marks":     {nested("(", 1e6), "nesting deeper than"},
		"APPENDS without":     {"\x80\x04]Ne.", "APPENDS without a mark"},
		"APPEND to a number":  {"\x80\x04K\x01Na.", "APPEND to something that is no list"},
		"SETITEM in a list":   {"\x80\x04]NNs.", "SETITEM to something that is no dictionary"},
		"odd dictionary":      {"\x80\x04}(Nu.", "odd number of values"},
		"odd DICT":            {"(d(Nd.", "odd number of values"},
		"STOP early":          {"\x80\x04}X\x08\x00\x00\x00segments.", "STOP with 2 values"},
		"STOP within a mark":  {"\x80\x04}(.", "STOP with 1 values and 1 marks"},
		"STOP at once":        {"\x80\x04.", "STOP with 0 values"},
		"POP of nothing":      {"\x80\x040.", "POP without a mark"},
		"POP_MARK of nothing": {"\x80\x041.", "POP_MARK without a mark"},
		"DUP of nothing":      {"\x80\x042.", "DUP with nothing"},
		"TUPLE3 of two":       {"\x80\x04NN\x87.", "TUPLE3 with too few"},
		"below the mark":      {"\x80\x04N(\x85.", "TUPLE1 with too few"},
		"an integer of words": {"(dIabc\n.", "is no integer"},
		"a number of words":   {"(dFabc\n.", "is no number"},
		"a string unquoted":   {"(dSabc\n.", "without quotes"},
		"a bad escape":        {"(dV\\uzzzz\n.", "escape"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = open([]byte(test.file), snapshot.Options{}) })
			wantError(t, err, test.want)
			if limit := int64(24<<20 + 128*len(test.file)); n > limit {
				t.Errorf("%d bytes allocated for a file of %d", n, len(test.file))
			}
			// A stream doesn't know its length: the same must hold without Size.
			_, err = snapshot.Decode(bytes.NewReader([]byte(test.file)), snapshot.Options{})
			if err == nil {
				t.Error("accepted as a stream")
			}
		})
	}
}

// changed is a snapshot's file with other values in its one segment, block or event.
func changed(change func(*recorder.Recording)) []byte {
	r := small()
	change(r)
	return r.Dump(recorder.Style{Era: recorder.V2_15, Protocol: 4})
}

// Values that can't be right are told, and the rest is read.
func TestDamagedValues(t *testing.T) {
	wide := new(big.Int).Lsh(big.NewInt(1), 100)
	for name, test := range map[string]struct {
		change func(*recorder.Recording)
		want   string
	}{
		"negative size":          {func(r *recorder.Recording) { r.Traces[0][1].Size = -5 }, "size below zero"},
		"size of 63 bits":        {func(r *recorder.Recording) { r.Traces[0][1].Size = int64(1) << 62 }, "size beyond 64 TiB"},
		"size of 64 bits":        {func(r *recorder.Recording) { r.Traces[0][1].Size = uint64(1) << 63 }, "size beyond 64 TiB"},
		"size of 100 bits":       {func(r *recorder.Recording) { r.Traces[0][1].Size = wide }, "size of more than 64 bits"},
		"size of minus 100 bits": {func(r *recorder.Recording) { r.Traces[0][1].Size = new(big.Int).Neg(wide) }, "size"},
		"size that is a float":   {func(r *recorder.Recording) { r.Traces[0][1].Size = 1.5 }, "size that is no integer"},
		"size that is text":      {func(r *recorder.Recording) { r.Segments[0].Total = "much" }, "size that is no integer"},
		"size that is None":      {func(r *recorder.Recording) { r.Traces[0][1].Extra = []recorder.Item{{Key: "size", Value: nil}} }, "size that is no integer"},
		"negative address":       {func(r *recorder.Recording) { r.Traces[0][1].Address = -512 }, "address below zero"},
		"address of 100 bits":    {func(r *recorder.Recording) { r.Traces[0][1].Address = wide }, "address of more than 64 bits"},
		"address that is a list": {func(r *recorder.Recording) { r.Traces[0][1].Address = &recorder.List{} }, "address that is no integer"},
		"time of 100 bits":       {func(r *recorder.Recording) { r.Traces[0][1].TimeUS = wide }, "integer of more than 64 bits"},
		"time that is text":      {func(r *recorder.Recording) { r.Traces[0][1].TimeUS = "noon" }, "number that is no integer"},
		"time that is no number": {func(r *recorder.Recording) { r.Traces[0][1].TimeUS = math.NaN() }, "number that is no integer"},
		"time with a fraction":   {func(r *recorder.Recording) { r.Traces[0][1].TimeUS = 17.25 }, "number with a fraction"},
		"pool that is a number":  {func(r *recorder.Recording) { r.Traces[0][1].Extra = []recorder.Item{{Key: "pool_id", Value: 3}} }, "pool that is no pair"},
		"pool of one number": {func(r *recorder.Recording) {
			r.Segments[0].Extra = []recorder.Item{{Key: "segment_pool_id", Value: &recorder.List{Items: []any{1}}}}
		}, "pool that is no pair"},
		"settings that are a word": {func(r *recorder.Recording) { r.Extra = []recorder.Item{{Key: "allocator_settings", Value: "none"}} }, "allocator_settings that are no dictionary"},
		"annotation of no stage": {func(r *recorder.Recording) {
			r.Annotations = append(r.Annotations, recorder.Annotation{Stage: "MIDDLE", Name: "x"})
		}, "annotation whose stage is neither"},
		"device that is a list": {func(r *recorder.Recording) {
			r.Segments[0].Extra = []recorder.Item{{Key: "device", Value: &recorder.List{Items: []any{1}}}}
		}, "number that is no integer"},
		"action that is a number": {func(r *recorder.Recording) { r.Traces[0][1].Extra = []recorder.Item{{Key: "action", Value: 3}} }, "text that is no string"},
		"a state that isn't":      {func(r *recorder.Recording) { r.Segments[0].Blocks[0].State = "melting" }, "block in an unknown state"},
		"a device below zero":     {func(r *recorder.Recording) { r.Segments[0].Device = -3 }, "device ordinal"},
		"a path that is no UTF-8": {func(r *recorder.Recording) { r.Traces[0][0].Stack.Frames[0].File = "/home/jos\xed\xb3\xa9/a.py" }, "not UTF-8"},
		"stack that is text":      {func(r *recorder.Recording) { r.Traces[0][1].Extra = []recorder.Item{{Key: "frames", Value: "main"}} }, "stack that is no list"},
		"frame that is a number": {func(r *recorder.Recording) {
			r.Traces[0][1].Extra = []recorder.Item{{Key: "frames", Value: &recorder.List{Items: []any{3}}}}
		}, "frame that is neither"},
		"segments that are a word": {func(r *recorder.Recording) { r.Extra = []recorder.Item{{Key: "segments", Value: "none"}} }, "segments that are no list"},
		"a segment that is a word": {func(r *recorder.Recording) {
			r.Extra = []recorder.Item{{Key: "segments", Value: &recorder.List{Items: []any{"x"}}}}
		}, "segment that is no dictionary"},
		"traces that are a word": {func(r *recorder.Recording) { r.Extra = []recorder.Item{{Key: "device_traces", Value: "none"}} }, "device_traces that are no list"},
		"a trace that is a word": {func(r *recorder.Recording) {
			r.Extra = []recorder.Item{{Key: "device_traces", Value: &recorder.List{Items: []any{"x"}}}}
		}, "trace that is no list"},
		"an event that is a word": {func(r *recorder.Recording) {
			r.Extra = []recorder.Item{{Key: "device_traces", Value: &recorder.List{Items: []any{&recorder.List{Items: []any{"x"}}}}}}
		}, "trace entry that is no event"},
		"blocks that are words": {func(r *recorder.Recording) {
			r.Segments[0].Extra = []recorder.Item{{Key: "blocks", Value: &recorder.List{Items: []any{"x"}}}}
		}, "block that is no dictionary"},
		"annotations that are none": {func(r *recorder.Recording) {
			r.Extra = []recorder.Item{{Key: "external_annotations", Value: &recorder.List{Items: []any{1}}}}
		}, "annotation that is no dictionary"},
	} {
		t.Run(name, func(t *testing.T) {
			s := both(t, changed(test.change))
			if len(s.Damage) != 1 || !strings.Contains(s.Damage[0], test.want) || !strings.Contains(s.Damage[0], "offset") {
				t.Errorf("damage %q, want %q", s.Damage, test.want)
			}
		})
	}
}

// Sizes that may be left out may be None, too: that isn't 0.
func TestSizesThatAreNone(t *testing.T) {
	none := func(key string) []recorder.Item { return []recorder.Item{{Key: key, Value: nil}} }
	s := both(t, changed(func(r *recorder.Recording) {
		r.Segments[0].Extra = none("active_size")
		r.Segments[0].Blocks[0].Extra = none("requested_size")
		r.Traces[0] = append(r.Traces[0], recorder.Event{Action: "oom", Size: 512, Extra: none("device_free")})
	}))
	d := &s.Devices[0]
	if g := &d.Segments[0]; g.Active != -1 || g.Blocks[0].Requested != -1 || d.OOMs[0].DeviceFree != -1 || len(s.Damage) > 0 {
		t.Errorf("%s", dump(s))
	}
}

// Of two equal keys Python keeps the last.
func TestEqualKeys(t *testing.T) {
	s := both(t, changed(func(r *recorder.Recording) {
		r.Traces[0][1].Extra = []recorder.Item{{Key: "size", Value: 200}, {Key: "addr", Value: 0x10}}
		r.Extra = []recorder.Item{{Key: "segments", Value: &recorder.List{}}}
	}))
	if e := &s.Devices[0].Events; e.Size[1] != 200 || e.Address[1] != 0x10 || len(s.Devices[0].Segments) != 0 || len(s.Damage) > 0 {
		t.Errorf("%s", dump(s))
	}
}

// A file cut off anywhere is one error; with Partial it is what came before the cut.
func TestTruncation(t *testing.T) {
	t.Parallel()
	run := recorder.Simulate(recorder.Program{Seed: 3, Events: 12, Skip: 3, Depth: 2})
	for i, style := range []recorder.Style{{Era: recorder.V2_15, Protocol: 4}, {Era: recorder.V2_5, Protocol: 2}, {Era: recorder.V2_5}, {Era: recorder.V2_15, JIT: true}} {
		t.Run(fmt.Sprintf("%+v", style), func(t *testing.T) {
			step := []int{1, 3, 7, 7}[i]
			file := run.Recording.Dump(style)
			whole, err := open(file, snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			longest := 0
			for n := 0; n < len(file); n += step {
				if _, err := open(file[:n], snapshot.Options{}); err == nil || strings.Contains(err.Error(), "STOP") {
					t.Fatalf("%d of %d bytes: %v", n, len(file), err)
				}
				s, err := open(file[:n], snapshot.Options{Partial: true})
				if err != nil {
					wantError(t, err, "")
					continue
				}
				if s.Cut != int64(n) {
					t.Fatalf("%d bytes: cut at %d", n, s.Cut)
				}
				if d := s.Device(0); d != nil {
					longest = max(longest, checkPrefix(t, n, s, whole))
				}
			}
			if want := whole.Devices[0].Events.Len(); longest != want {
				t.Errorf("at most %d events were read of %d", longest, want)
			}
		})
	}
}

// checkPrefix checks that a cut file's events are the first ones of the whole.
func checkPrefix(t *testing.T, n int, cut, whole *snapshot.Snapshot) int {
	t.Helper()
	if len(cut.Damage) > 0 {
		t.Fatalf("%d bytes: damage %q", n, cut.Damage)
	}
	a, b := &cut.Devices[0].Events, &whole.Devices[0].Events
	for i := range a.Len() {
		if a.Action[i] != b.Action[i] || a.Address[i] != b.Address[i] || a.Size[i] != b.Size[i] || a.TimeOf(i) != b.TimeOf(i) {
			t.Fatalf("%d bytes: event %d is %d %#x %d", n, i, a.Action[i], a.Address[i], a.Size[i])
		}
	}
	if len(cut.Devices[0].Segments) > len(whole.Devices[0].Segments) {
		t.Fatalf("%d bytes: %d segments", n, len(cut.Devices[0].Segments))
	}
	return a.Len()
}

// A file that isn't there is told as the system tells it.
func TestMissingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing.pickle")
	if _, err := snapshot.Open(name, snapshot.Options{}); !errors.Is(err, fs.ErrNotExist) || err.Error() != name+": no such file or directory" {
		t.Errorf("%v", err)
	}
}
