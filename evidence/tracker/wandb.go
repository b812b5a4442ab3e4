package tracker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/internal/limit"
	"github.com/vramscope/vramscope/internal/pattern"
)

// isWandb tells W&B's transaction log, a log of LevelDB's form behind a head of
// seven bytes (wandb/sdk/internal/datastore.py).
func isWandb(_ string, head []byte) bool { return bytes.HasPrefix(head, []byte(":W&B\xe1\xbe")) }

const (
	wandbHead  = 7
	wandbBlock = 32 << 10
	recordHead = 7 // checksum, length, type
)

// The types of LevelDB's pieces of a record.
const (
	wholePiece = 1 + iota
	firstPiece
	middlePiece
	lastPiece
)

// readWandb reads the records of a run. A run that was killed leaves a last one cut.
func readWandb(r *run, in io.Reader) error {
	block := make([]byte, wandbBlock)
	var record []byte
	skip, long := wandbHead, false
	for offset := int64(0); ; skip = 0 {
		n, err := io.ReadFull(in, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("offset %d: %w", offset, err)
		}
		for kind, piece := range pieces(block[min(skip, n):n]) {
			if kind == wholePiece || kind == firstPiece {
				record, long = record[:0], false
			}
			if long = long || len(record)+len(piece) > maxRecord; !long { // console output, tables
				record = append(record, piece...)
			}
			if !long && (kind == wholePiece || kind == lastPiece) && fields(record, r.wandbRecord) != nil {
				return fmt.Errorf("offset %d: a record that is no message", offset)
			}
		}
		if offset += int64(n); n < wandbBlock {
			return nil
		}
	}
}

// pieces are those of a block, whose end is filled up, or cut.
func pieces(rest []byte) iter.Seq2[byte, []byte] {
	return func(take func(kind byte, piece []byte) bool) {
		for len(rest) >= recordHead && rest[6] != 0 {
			size := recordHead + int(binary.LittleEndian.Uint16(rest[4:]))
			if size > len(rest) || !take(rest[6], rest[recordHead:size]) {
				return
			}
			rest = rest[size:]
		}
	}
}

// The numbers of the fields of a record (wandb/proto/wandb_internal.proto).
const (
	historyField     = 2
	outputField      = 4
	configField      = 5
	statsField       = 7
	rawOutputField   = 13
	runField         = 17
	exitField        = 18
	environmentField = 26
)

// wandbRecord takes what a record is of.
func (r *run) wandbRecord(f field) {
	switch f.number {
	case historyField:
		r.wandbHistory(f.bytes)
	case configField:
		r.wandbConfig(f.bytes)
	case runField:
		r.wandbConfig(part(f.bytes, 4).bytes) // its configuration at the start
	case statsField:
		r.wandbStats(f.bytes)
	case outputField, rawOutputField: // 3 is what the program printed
		if r.console != nil {
			_, _ = r.console.Write(part(f.bytes, 3).bytes)
		}
	case exitField: // 1 is the code, of which 0 isn't written
		r.ended = ending.OfCode(int64(int32(part(f.bytes, 1).value)))
	case environmentField:
		r.wandbEnvironment(f.bytes)
	}
}

// part is a message's last field of a number, the zero value without one.
func part(message []byte, number int) (found field) {
	_ = fields(message, func(f field) {
		if f.number == number {
			found = f
		}
	})
	return found
}

// text is the text of a field as far as it is kept.
func (f field) text() string { return string(f.bytes[:min(len(f.bytes), maxText)]) }

// wandbEnvironment takes the command and the GPUs: 5 are arguments, 6 is the
// program, 18 the GPU's name, 19 how many there are, 24 and 26 each one.
func (r *run) wandbEnvironment(message []byte) {
	var args []string
	program, gpu := "", 0
	_ = fields(message, func(f field) {
		text := f.text()
		switch f.number {
		case 5:
			if len(args) < 256 {
				args = append(args, text)
			}
		case 6:
			program = text
		case 18:
			if text != "" {
				r.p.GPU = &text
			}
		case 19:
			if n := int64(f.value); n > 0 && n < 1<<20 {
				r.p.GPUs = &n
			}
		case 24, 26:
			name, total := part(f.bytes, 1).text(), part(f.bytes, 2).value
			if total >= 1<<52 {
				total = 0
			}
			if r.reading(gpu, -1, int64(total), -1, evidence.Stamp{}); r.gpus[gpu] != nil && name != "" {
				r.gpus[gpu].Name = &name
			}
			gpu++
		}
	})
	r.command(program, args)
}

// item is a key and a value in JSON: 1 is the key, 2 its parts where it is nested, 16
// the value, or 5 and 6 a number.
func item(message []byte) (key string, value []byte) {
	var parts []string
	_ = fields(message, func(f field) {
		switch f.number {
		case 1:
			key = f.text()
		case 2:
			if len(parts) < maxDepth {
				parts = append(parts, f.text())
			}
		case 5:
			value = strconv.AppendInt(nil, int64(f.value), 10)
		case 6:
			value = strconv.AppendFloat(nil, f.double(), 'g', -1, 64)
		case 16:
			value = f.bytes
		}
	})
	if key == "" {
		key = strings.Join(parts, ".")
	}
	return key, value
}

func (r *run) wandbHistory(message []byte) {
	step := int64(-1)
	type pair struct {
		key   string
		value float64
	}
	var pairs []pair
	_ = fields(message, func(f field) {
		switch {
		case f.number == 1 && f.bytes != nil && len(pairs) < 4096:
			key, value := item(f.bytes)
			if v, err := strconv.ParseFloat(string(value), 64); err == nil {
				pairs = append(pairs, pair{key, v})
			}
		case f.number == 2 && f.bytes != nil:
			step = int64(part(f.bytes, 1).value)
		}
	})
	for _, p := range pairs {
		if p.key == "_step" && step < 0 && p.value >= 0 && p.value < 1<<50 {
			step = int64(p.value)
		}
	}
	for _, p := range pairs {
		if step >= 0 {
			r.scalar(step, p.key, p.value)
		}
	}
}

func (r *run) wandbConfig(message []byte) {
	_ = fields(message, func(f field) {
		if f.number != 1 || f.bytes == nil {
			return
		}
		key, value := item(f.bytes)
		if key != "" && key != "_wandb" && limit.Check(limit.Setting, value) == nil && json.Valid(value) {
			r.flat(key, value, 0)
		}
	})
}

// wandbStats takes the readings of GPUs: gpu.0.memoryAllocatedBytes, gpu.0.gpu.
func (r *run) wandbStats(message []byte) {
	var at evidence.Stamp
	used, busy := map[int]int64{}, map[int]float32{}
	_ = fields(message, func(f field) {
		switch {
		case f.number == 2 && f.bytes != nil:
			if seconds := int64(part(f.bytes, 1).value); seconds > 0 && seconds < 1<<33 {
				at = evidence.ZonedStamp(seconds*1e9 + int64(part(f.bytes, 2).value))
			}
		case f.number == 3 && f.bytes != nil:
			key, value := item(f.bytes)
			v, err := strconv.ParseFloat(string(value), 64)
			m := ofGPU().FindStringSubmatch(key)
			if m == nil || err != nil || v < 0 || v > 1<<52 {
				return
			}
			if gpu, _ := strconv.Atoi(m[1]); m[2] == "gpu" {
				busy[gpu] = float32(v)
			} else {
				used[gpu] = int64(v)
			}
		}
	})
	for _, gpu := range slices.Sorted(maps.Keys(used)) {
		utilization, known := busy[gpu]
		if !known {
			utilization = -1
		}
		r.reading(gpu, used[gpu], -1, utilization, at)
	}
}

var ofGPU = pattern.Of(`^gpu\.(\d{1,2})\.(memoryAllocatedBytes|gpu)$`) // reading takes those below maxGPUs
