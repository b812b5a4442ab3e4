package snapshot

import (
	"errors"
	"io"

	"github.com/vramscope/vramscope/snapshot/input"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// Input is an opened file, stream or object of a store that may hold a snapshot.
type Input struct{ *input.Input }

// OpenInput opens a file. Its digest is worked out while it is read, on another
// core where there is one.
func OpenInput(name string) (*Input, error) { return opened(input.Open(name)) }

// ReadInput takes a stream, such as standard input.
func ReadInput(name string, r io.Reader) (*Input, error) { return opened(input.Read(name, r)) }

// FarInput takes an object of a store, which can be read from any position on.
// It closes r with the input.
func FarInput(name string, r io.ReadSeekCloser) (*Input, error) { return opened(input.Far(name, r)) }

func opened(in *input.Input, err error) (*Input, error) {
	if err != nil {
		return nil, err
	}
	return &Input{in}, nil
}

// Open reads a snapshot from a file, compressed or not.
func Open(name string, o Options) (*Snapshot, error) {
	in, err := OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	in.Undigested = true
	return in.Snapshot(o)
}

// Snapshot decodes the input. The error is an *Error with the file's name.
func (in *Input) Snapshot(o Options) (*Snapshot, error) {
	s, err := in.decode(o)
	if errors.Is(err, errShape) && !in.Once() {
		s, err = in.odd(o, err)
	}
	var e *Error
	if errors.As(err, &e) {
		e.File = in.Name
	}
	return s, err
}

// decode reads with the decoder for what PyTorch writes.
func (in *Input) decode(o Options) (s *Snapshot, err error) {
	whole, err := in.Whole(func(b []byte, passed func(p int)) (err error) {
		s, err = decodeWhole(b, passed, o)
		return err
	})
	if whole {
		return s, err
	}
	r, total, err := in.Content()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	o.Size = total
	return Decode(r, o)
}

// odd reads what the decoder has refused for its layout.
func (in *Input) odd(o Options, why error) (*Snapshot, error) {
	r, _, err := in.Content()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	limit := int64(1 << 30)
	if o.MaxMemory > 0 {
		limit = min(limit, o.MaxMemory/4)
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, &Error{Offset: int64(len(b)), Cause: err.Error()}
	}
	if int64(len(b)) > limit {
		return nil, why
	}
	return decodeOdd(b, o.MaxMemory)
}

// decodeOdd reads a pickle of an odd layout by writing it anew. It refuses one whose
// objects would take more bytes than limit, when that isn't 0.
func decodeOdd(b []byte, limit int64) (*Snapshot, error) {
	cost, err := pickle.Scan(b, pickle.Forbidden)
	if err != nil {
		return nil, err
	}
	if limit > 0 && cost > limit {
		return nil, tooMuch(0, limit)
	}
	plain, err := pickle.Normalize(b)
	if err != nil {
		return nil, err
	}
	d := newDecoder(Options{Size: int64(len(plain))})
	d.whole, d.place = plain, int64(len(b))
	s, err := d.decode()
	if e := (*Error)(nil); errors.As(err, &e) {
		if e.Offset = -1; errors.Is(err, errShape) {
			e.Cause = "one list is used as two tables"
		}
	}
	return s, err
}
