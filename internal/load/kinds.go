package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/snapshot"
)

// Kinds that are told apart here; the other evidence's are evidence's own.
const (
	KindSnapshot   = "snapshot"
	KindConfig     = "model_config"
	KindCheckpoint = "checkpoint_header"
	KindLabels     = "labels"
)

// headBytes is how much of a file is looked at to tell what it is.
const headBytes = 64 << 10

// read takes one input in. A recording that can be read again is only looked
// at: it is decoded when it is needed.
func (r *Run) read(in *snapshot.Input, o Options, lenient bool) error {
	options := snapshot.Options{MaxMemory: o.MaxMemory, Partial: o.Partial}
	head, err := in.Head(headBytes)
	recorded := err == nil && looksLikeRecording(head)
	if recorded && in.Rereadable() {
		r.addRecording(in, options, lenient)
		return nil
	}
	if lenient && err == nil && isReport(head) {
		in.Close()
		return unknown(in.Name, nil)
	}
	source := diagnose.Source{Path: in.Name, Optional: lenient}
	source.Kind, source.Contains, err = r.kindOf(in, head, options, &source)
	if err != nil {
		in.Close()
		if lenient && !recorded && len(head) > 0 && head[0] == protocolMark {
			return unknown(in.Name, nil) // some other pickle
		}
		return err
	}
	if lenient && source.Kind == KindCheckpoint {
		in.Close() // may be larger than all recordings together, and serves nothing
		return unknown(in.Name, nil)
	}
	r.inputs = append(r.inputs, in)
	source.Digest = in.Digest
	r.Sources = append(r.Sources, source)
	return nil
}

// kindOf recognises an input that is read at once.
func (r *Run) kindOf(in *snapshot.Input, head []byte, o snapshot.Options, source *diagnose.Source) (kind string, contains []string, err error) {
	if in.Compression == "zip" && in.IsCheckpoint() || isSafetensors(head, 0) {
		return KindCheckpoint, nil, nil
	}
	s, err := in.Snapshot(o)
	switch {
	case err == nil:
		source.Snapshot = s
		return KindSnapshot, nil, nil
	case !errors.Is(err, snapshot.ErrNotSnapshot):
		return "", nil, err
	}
	return r.other(in, err)
}

// protocolMark begins a pickle of protocol 2 and later.
const protocolMark = 0x80

// recordingWords are the keys of which one stands near the beginning of every
// recording.
var recordingWords = [][]byte{[]byte("segments"), []byte("device_traces"), []byte("total_size"), []byte("segment_type"), []byte("external_annotations"),
	[]byte("allocator_settings"), []byte("active_size"), []byte("allocated_size")}

func looksLikeRecording(head []byte) bool {
	if len(head) == 0 || head[0] != protocolMark {
		return false
	}
	for _, w := range recordingWords {
		if bytes.Contains(head, w) {
			return true
		}
	}
	return false
}

// ownWords stand in every report for a terminal.
var ownWords = [][]byte{[]byte("what torch.cuda.max_memory_allocated() reports"), []byte("held from the driver")}

// isReport recognises what this program wrote, and pages at large.
func isReport(head []byte) bool {
	start := bytes.ToLower(bytes.TrimLeft(head[:min(len(head), 256)], "\xef\xbb\xbf \t\r\n"))
	switch {
	case bytes.HasPrefix(start, []byte("<!doctype html")), bytes.HasPrefix(start, []byte("<html")):
		return true
	case bytes.HasPrefix(start, []byte("{")):
		return bytes.Contains(start, []byte(`"vramscope.`)) && !bytes.Contains(start, []byte(`"vramscope.labels/`))
	}
	return bytes.Contains(head, ownWords[0]) && bytes.Contains(head, ownWords[1])
}

// other recognises what isn't a snapshot.
func (r *Run) other(in *snapshot.Input, why error) (kind string, contains []string, err error) {
	c, total, err := in.Content()
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	b := bufio.NewReaderSize(c, headBytes)
	head, err := b.Peek(headBytes)
	if len(head) == 0 {
		return "", nil, why // an empty file
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return "", nil, &snapshot.Error{File: in.Name, Offset: int64(len(head)), Cause: err.Error()}
	}
	if isSafetensors(head, total) {
		return KindCheckpoint, nil, nil
	}
	if looksBinary(head) {
		return "", nil, unknown(in.Name, why)
	}
	kinds, found, err := evidence.Read(b, in.Name, len(r.Sources))
	switch {
	case err == nil:
		r.Evidence.Add(found)
		return kinds[0], kinds, nil
	case errors.Is(err, evidence.ErrOtherJSON):
		if kind := jsonKind(head); kind != "" {
			return kind, nil, nil
		}
	}
	return "", nil, unknown(in.Name, err)
}

// unknown is the error for input that nothing can be made of.
func unknown(name string, why error) error {
	var e *snapshot.Error
	if errors.As(why, &e) && e.Cause != "not a pickle" {
		return why
	}
	return &snapshot.Error{File: name, Offset: 0, Err: errUnknown,
		Cause:  "neither a memory snapshot nor a log, nvidia-smi output or profiler trace that is known",
		Advice: "Give the file that torch.cuda.memory._dump_snapshot wrote; `vramscope record` prints how to make one."}
}

// looksBinary tells data from text by its control characters. NUL bytes alone
// are no sign: a log that was cut while a program went on writing is full of them.
func looksBinary(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return false
	}
	head = head[:min(len(head), 4096)]
	nul, control := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			nul++
		case c < 7, 13 < c && c < 27, 27 < c && c < 32:
			control++
		}
	}
	return nul > 0 && (control*50 > len(head) || nul == len(head))
}

// isSafetensors recognises the length of a JSON header and the header behind it.
func isSafetensors(head []byte, total int64) bool {
	if len(head) < 10 || head[8] != '{' {
		return false
	}
	n := binary.LittleEndian.Uint64(head)
	return n >= 2 && n < 1<<30 && (total == 0 || int64(n)+8 <= total)
}

// jsonKind tells configurations and labels apart by their keys.
func jsonKind(head []byte) string {
	keys := map[string]string{}
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() && len(keys) < 1000 {
		k, err := d.Token()
		if err != nil {
			break
		}
		var v json.RawMessage
		key, _ := k.(string)
		keys[key] = ""
		if err := d.Decode(&v); err != nil {
			break
		}
		keys[key] = string(v)
	}
	switch {
	case keys["schema"] == `"vramscope.labels/1"`:
		return KindLabels
	case has(keys, "model_type") || has(keys, "architectures") || has(keys, "hidden_size") || has(keys, "n_embd") || has(keys, "d_model"):
		return KindConfig
	}
	return ""
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }
