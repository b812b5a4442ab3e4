package batch

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/evidence/tracker"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/store"
)

// fileKind is what a file may be, as far as its first bytes tell.
type fileKind uint8

// The kinds that matter for finding runs.
const (
	kindOther     fileKind = iota // nothing that is analysed
	kindRecording                 // a memory snapshot, or what has the name of one and is damaged
	kindPickle                    // a pickle of something else
	kindTracked                   // a tracker's: all of a folder are of one run
	kindText                      // a log, nvidia-smi output or a trace, perhaps
	kindAccessory                 // a model's configuration, a labels file or a framework's settings
	kindSilent                    // a log, it seems, in which nothing known stands
)

// kindOf tells what a file may be from its name, its first bytes (sniff.HeadBytes, or
// all of a shorter one) and its last bytes, which may be missing.
// The surest kind is tried first.
func kindOf(name string, head, tail []byte) fileKind {
	plain, packed, torn := uncompressed(head)
	named := sniff.CalledRecording(name)
	switch {
	case len(plain) == 0 && torn && !named:
		return kindText // perhaps: what it was, nobody can tell, and it must not vanish
	case len(plain) == 0 && named: // empty, or a container that can't be read
		return kindRecording // a failure to tell
	case len(plain) == 0:
		return silent(name)
	case sniff.IsRecording(plain), sniff.IsCutPickle(name, plain):
		return kindRecording
	case isPickle(plain):
		return kindPickle
	case named:
		return kindRecording
	case tracker.Recognise(name, plain) != nil:
		if strings.HasSuffix(name, ".csv") && path.Base(name) != "metrics.csv" {
			return kindText // one of several runs, perhaps
		}
		return kindTracked
	case sniff.IsBinary(plain), sniff.IsSafetensors(plain, 0), sniff.IsReport(plain), sniff.OtherFile(path.Base(name)):
		return kindOther
	case sniff.AccessoryOf(plain) != sniff.None, len(head) < sniff.HeadBytes && isRecipe(name, plain):
		return kindAccessory
	case sniff.CalledSettings(path.Base(name)):
		return kindOther
	case packed || sniff.IsUTF16(plain):
		return kindText
	case isEvidence(plain):
		return kindText
	case !telling().Match(plain) && !telling().Match(tail):
		return silent(name)
	case len(head) < sniff.HeadBytes && sniff.IsJSON(plain): // all of it was looked at
		return kindOther
	case len(head) < sniff.HeadBytes:
		return kindSilent
	}
	return kindText
}

// silent is the kind of a file that says nothing: its name may say that it should.
func silent(name string) fileKind {
	if sniff.CalledLog(name) {
		return kindSilent
	}
	return kindOther
}

// telling are words that text has which may say something of memory or steps
// further on than was looked at.
var telling = pattern.Of(`(?i)out of memory|nvidia-smi|nvsmi|memory\.(used|total|free)|used_gpu_memory|traceEvents|` +
	`memory summary|# gpu|\bloss\b|\bstep\b|\bepoch\b|\biter(ation)?\b|[0-9] ?[MG]i?B\b|\btorch|cuda`)

// isEvidence tells text whose beginning says something, as analyze reads it: it
// may do so in numbers alone.
func isEvidence(plain []byte) bool {
	kinds, _, _ := read.Evidence(bytes.NewReader(plain), "", 0)
	return len(kinds) > 0
}

// isRecipe says whether a file is a framework's own, which analyze reads.
func isRecipe(name string, plain []byte) bool {
	if !recipe.Candidate(name) || sniff.IsRunRecord(plain) {
		return false
	}
	_, err := recipe.Read(name, bytes.NewReader(plain))
	return err == nil
}

// uncompressed is the beginning of what a container holds, empty when that can't
// be read; torn when the container itself ends too early.
func uncompressed(head []byte) (plain []byte, packed, torn bool) {
	var r io.Reader
	switch sniff.Compression(head) {
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return nil, true, false
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(head), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, true, false
		}
		defer z.Close()
		r = z
	case "zip":
		return zipped(head), true, false
	default:
		return head, false, false
	}
	plain, err := io.ReadAll(io.LimitReader(r, sniff.HeadBytes))
	return plain, true, len(head) < sniff.HeadBytes && errors.Is(err, io.ErrUnexpectedEOF)
}

// zipped is the beginning of a zip's first file, without its directory, which
// lies at the end; a checkpoint, which is a zip of many files, gives nothing.
func zipped(head []byte) []byte {
	const fixed = 30
	for {
		if len(head) < fixed {
			return nil
		}
		end := fixed + int(binary.LittleEndian.Uint16(head[26:]))
		data := end + int(binary.LittleEndian.Uint16(head[28:]))
		if len(head) < data {
			return nil
		}
		name := string(head[fixed:end])
		if strings.HasSuffix(name, "/data.pkl") {
			return nil
		}
		if strings.HasSuffix(name, "/") && sniff.Compression(head[data:]) == "zip" { // a folder, which holds nothing itself
			head = head[data:]
			continue
		}
		method := binary.LittleEndian.Uint16(head[8:])
		body := head[data:]
		if method == zip.Store {
			return body
		}
		plain, _ := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), sniff.HeadBytes))
		return plain
	}
}

func isPickle(b []byte) bool { return len(b) > 1 && b[0] == sniff.PickleMark && b[1] >= 2 && b[1] <= 5 }

// sniffFile reads what kindOf needs of a file.
func sniffFile(ctx context.Context, name string, size int64, stores *store.Pool) (fileKind, error) {
	f, err := stores.Read(ctx, name)
	if err != nil {
		return kindOther, err
	}
	defer f.Close()
	head := make([]byte, min(size, sniff.HeadBytes))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return kindOther, err
	}
	var tail []byte
	if size > sniff.HeadBytes && head[0] != sniff.PickleMark {
		tail = make([]byte, min(size-sniff.HeadBytes, sniff.HeadBytes))
		if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
			return kindOther, err
		}
	}
	return kindOf(name, head[:n], tail), nil
}
