package tracker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/vramscope/vramscope/internal/limit"
)

// maxRecord is the longest record that is looked into; pictures and graphs are longer.
const maxRecord = 4 << 20

// isEvents tells TensorBoard's event files by their first record, which has the
// format's version: "brain.Event:2".
func isEvents(_ string, head []byte) bool {
	return len(head) > 24 && binary.LittleEndian.Uint64(head) < 256 && bytes.Contains(head[:min(len(head), 64)],
		[]byte("brain.Event:"))
}

// readEvents reads records of TensorFlow's form: length, its checksum, data, its
// checksum. A file that a program still writes to may end within one.
func readEvents(r *run, in io.Reader) error {
	var offset int64
	var head [12]byte
	var data []byte
	for {
		n, err := io.ReadFull(in, head[:])
		offset += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("offset %d: %w", offset, err)
		}
		size := binary.LittleEndian.Uint64(head[:])
		if size > 1<<40 {
			return fmt.Errorf("offset %d: a record of %d bytes", offset, size)
		}
		if size > maxRecord {
			skipped, err := io.CopyN(io.Discard, in, int64(size)+4)
			if offset += skipped; err != nil {
				return nil
			}
			continue
		}
		if uint64(cap(data)) < size+4 {
			data = make([]byte, size+4)
		}
		data = data[:size+4]
		n, err = io.ReadFull(in, data)
		if offset += int64(n); err != nil {
			return nil
		}
		if fields(data[:size], r.eventField()) != nil {
			return fmt.Errorf("offset %d: a record that is no event", offset-int64(n))
		}
	}
}

// eventField takes the fields of an event: 2 is its step, of which 0 isn't written, 5 a summary.
func (r *run) eventField() func(field) {
	step := int64(0)
	return func(f field) {
		switch f.number {
		case 2:
			step = int64(f.value)
		case 5:
			r.summary(max(step, 0), f.bytes)
		}
	}
}

// summary takes the values of one: 1 is the tag, 2 a number, 8 a tensor.
func (r *run) summary(step int64, message []byte) {
	_ = fields(message, func(f field) {
		if f.number != 1 || f.bytes == nil {
			return
		}
		tag, value, found := "", 0.0, false
		_ = fields(f.bytes, func(f field) {
			switch {
			case f.number == 1:
				tag = string(f.bytes[:min(len(f.bytes), maxText)])
			case f.number == 2 && f.bytes == nil:
				value, found = f.float(), true
			case f.number == 8 && f.bytes != nil:
				if value, found = tensorOf(f.bytes); !found {
					r.written(tag, f.bytes)
				}
			}
		})
		if found && tag != "" && step >= 0 {
			r.scalar(step, tag, value)
		}
	})
}

// written takes the settings that a text holds, which a tensor's field 8 is: JSON, as the Trainer
// writes its arguments and the model's, or a table of names and values.
func (r *run) written(tag string, message []byte) {
	_ = fields(message, func(f field) {
		if f.number != 8 || limit.Check(limit.Setting, f.bytes) != nil {
			return
		}
		name, _, _ := strings.Cut(tag, "/")
		text := bytes.TrimSpace(f.bytes)
		if json.Valid(text) && len(text) > 0 && text[0] == '{' {
			r.flat(name, text, 0)
			return
		}
		for line := range bytes.Lines(text) {
			if cells := strings.Split(string(line), "|"); len(cells) >= 4 {
				r.Set(name+"."+strings.TrimSpace(cells[1]), cells[2])
			}
		}
	})
}

// tensorOf is the only number of a tensor: 4 are its bytes, 5 floats, 6 doubles.
func tensorOf(message []byte) (value float64, ok bool) {
	_ = fields(message, func(f field) {
		switch {
		case (f.number == 4 || f.number == 5) && len(f.bytes) == 4:
			value, ok = float64(math.Float32frombits(binary.LittleEndian.Uint32(f.bytes))), true
		case (f.number == 4 || f.number == 6) && len(f.bytes) == 8:
			value, ok = math.Float64frombits(binary.LittleEndian.Uint64(f.bytes)), true
		case f.number == 5 && f.bytes == nil:
			value, ok = f.float(), true
		case f.number == 6 && f.bytes == nil:
			value, ok = f.double(), true
		}
	})
	return value, ok
}
