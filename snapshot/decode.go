package snapshot

import (
	"errors"
	"io"

	"github.com/vramscope/vramscope/snapshot/input"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// Options bound and steer the reading of a snapshot.
type Options struct {
	// MaxMemory is how many bytes the decoder may use; 0: no limit.
	MaxMemory int64
	// Partial accepts a file that was cut off and uses what it still holds;
	// Snapshot.Cut says where it ended.
	Partial bool
	// Size is the number of bytes r will give, 0 when unknown. It only serves
	// to make room in time.
	Size int64
}

// Decode reads one uncompressed pickle. The error is an *Error.
func Decode(r io.Reader, o Options) (*Snapshot, error) {
	d := newDecoder(o)
	d.feed = input.NewAhead(r, o.Size)
	defer d.feed.Close()
	return d.decode()
}

// decodeWhole reads one uncompressed pickle that is at hand; passed, unless nil,
// is told now and then how much of it was read.
func decodeWhole(b []byte, passed func(p int), o Options) (*Snapshot, error) {
	o.Size = int64(len(b))
	d := newDecoder(o)
	d.whole, d.passed = b, passed
	return d.decode()
}

func (d *decoder) decode() (*Snapshot, error) {
	if err := d.fill(input.Margin); err != nil {
		return nil, err
	}
	if len(d.b) == 0 && d.torn {
		return nil, d.cut()
	}
	if len(d.b) == 0 {
		return nil, &Error{Offset: 0, Cause: "the file is empty", Err: ErrNotSnapshot,
			Advice: "The process probably died while it was dumping: dump again, before the memory runs out."}
	}
	if !looksLikePickle(d.b) {
		return nil, &Error{Offset: 0, Cause: "not a pickle", Err: ErrNotSnapshot}
	}
	v, err := d.run()
	cut := int64(-1)
	if errors.Is(err, ErrCut) && d.partial {
		cut = d.end()
		v, err = d.fold()
	}
	if err != nil {
		return nil, err
	}
	s, err := d.assemble(v)
	if err != nil {
		return nil, err
	}
	s.Cut = cut
	return s, nil
}

// looksLikePickle tells by the first bytes: PROTO, or what protocols 0 and 1
// begin a dictionary or list with.
func looksLikePickle(b []byte) bool {
	if b[0] == pickle.Proto {
		return true
	}
	if len(b) < 2 {
		return false
	}
	switch b[0] {
	case pickle.Mark:
		return b[1] == pickle.Dict || b[1] == pickle.List
	case pickle.EmptyDict, pickle.EmptyList:
		return b[1] == pickle.BinPut || b[1] == pickle.LongBinPut || b[1] == pickle.Stop || b[1] == pickle.Mark
	}
	return false
}
