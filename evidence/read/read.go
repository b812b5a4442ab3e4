// Package read recognises what a run leaves behind besides snapshots (nvidia-smi
// output, logs, profiler traces) by content, never by name.
package read

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/evidence/monitor"
	"github.com/vramscope/vramscope/evidence/runlog"
	"github.com/vramscope/vramscope/evidence/trace"
	"github.com/vramscope/vramscope/evidence/tracker"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/sniff"
)

// ErrNothingKnown is wrapped by errors about text without a single line of a
// known form.
var ErrNothingKnown = errors.New("nothing known in it")

// ErrUnnamed is wrapped by such errors, too, where a little is known: rows as
// nvidia-smi prints them without header or units, of which it can't be told what they are.
var ErrUnnamed = fmt.Errorf("rows without header or units: %w", ErrNothingKnown)

// ErrOtherJSON is wrapped by errors about JSON that is neither a trace nor a
// timeline nor a notebook: a configuration or a labels file, perhaps.
var ErrOtherJSON = errors.New("JSON of another kind")

// peekBytes is how much of the beginning decides what a stream is.
const peekBytes = sniff.HeadBytes

// Evidence recognises a stream by its content and reads all evidence in it in one
// pass. The name is for errors only; source is the index of the input that the
// evidence will carry. Kinds come with the main one first. When the stream
// breaks off, what was read up to there comes with the error.
func Evidence(r io.Reader, name string, source int) (kinds []string, ev *evidence.Evidence, err error) {
	in, head, err := begin(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: offset 0: %w", name, err)
	}
	if form := tracker.Recognise(name, head); form != nil {
		kinds, ev, err := readTracked(in, form, name, source)
		if !errors.Is(err, ErrNothingKnown) || sniff.IsBinary(head) || len(head) == peekBytes {
			return kinds, ev, err
		}
		in = bytes.NewReader(head) // perhaps of another form
	}
	switch contentsOf(head) {
	case binaryData:
		return nil, nil, fmt.Errorf("%s: offset 0: binary data, neither text nor JSON: %w", name, ErrNothingKnown)
	case gpuData:
		return readGPUs(in, name, source)
	case jsonData:
		kinds, ev, err := readJSON(in, name, source)
		if errors.Is(err, ErrOtherJSON) && len(head) < peekBytes {
			if kinds, ev, ok := readRecord(head, name, source); ok {
				return kinds, ev, nil
			}
		}
		return kinds, ev, err
	case notebook:
		return readText(in, name, source, notebookLines)
	}
	return readText(in, name, source, textLines)
}

// begin is a stream as UTF-8, and its beginning, which may be where it breaks off.
func begin(r io.Reader) (in io.Reader, head []byte, err error) {
	b := bufio.NewReaderSize(r, peekBytes)
	head, err = b.Peek(peekBytes)
	if err != nil && err != io.EOF {
		if len(head) == 0 {
			return nil, nil, err
		}
		head = bytes.Clone(head)
		b = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head), broken{err}), peekBytes)
	}
	if order, is := detectUTF16(head); is {
		b = bufio.NewReaderSize(fromUTF16(b, order), peekBytes)
		head, _ = b.Peek(peekBytes)
	}
	return b, head, nil
}

// readRecord reads a launcher's, a logger's or a container's record of a failure, which is JSON, too, and so is
// memory_stats().
func readRecord(text []byte, name string, source int) (kinds []string, ev *evidence.Evidence, ok bool) {
	kinds, ev, err := readText(bytes.NewReader(text), name, source, textLines)
	return kinds, ev, err == nil && (len(ev.OOMMessages)+len(ev.MemorySummaries) > 0 ||
		len(ev.Logs) > 0 && len(ev.Logs[0].HostFailures) > 0)
}

// broken is the end of a stream that breaks off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func readJSON(r io.Reader, name string, source int) ([]string, *evidence.Evidence, error) {
	result, err := trace.Read(r)
	if errors.Is(err, trace.ErrNotTrace) && result.Trace == nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", name, ErrOtherJSON, err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	ev := evidence.New()
	switch {
	case result.Trace != nil:
		result.Trace.Source = source
		ev.Traces = append(ev.Traces, *result.Trace)
		return []string{evidence.KindTrace}, ev, err
	case result.Timeline != nil:
		result.Timeline.Source = source
		ev.Timelines = append(ev.Timelines, *result.Timeline)
		return []string{evidence.KindTimeline}, ev, err
	}
	return nil, nil, err
}

// readGPUs reads what gpustat, rocm-smi or amd-smi printed as JSON.
func readGPUs(r io.Reader, name string, source int) ([]string, *evidence.Evidence, error) {
	gpus, err := monitor.ReadJSON(r)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	if len(gpus.GPUs) == 0 {
		return nil, nil, cmp.Or(err, fmt.Errorf("%s: no GPU in it: %w", name, ErrNothingKnown))
	}
	var log runlog.Parser
	kinds, ev := together(gpus, log.Finish(), source)
	ev.Logs = nil
	return kinds, ev, err
}

// lineFunc takes one line, with its number in the file.
type lineFunc func(number int, line []byte)

func readText(r io.Reader, name string, source int, split func(io.Reader, lineFunc) error) ([]string, *evidence.Evidence, error) {
	var smi monitor.Parser
	var log runlog.Parser
	var plain []byte
	err := split(r, func(number int, line []byte) {
		if smi.Idle() && !startsTable(line) && log.Again(number, line) {
			return
		}
		shown := line[containerStamp(line):]
		if bytes.IndexByte(shown, 0x1b) >= 0 {
			plain = runlog.StripColours(plain[:0], shown)
			shown = plain
		}
		if !smi.Line(number, shown) {
			log.Line(number, line)
		}
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	gpus, report := smi.Finish(), log.Finish()
	kinds, ev := together(gpus, report, source)
	if len(kinds) == 0 {
		switch {
		case err != nil:
		case gpus.Unnamed > 0:
			err = fmt.Errorf("%s: %w", name, ErrUnnamed)
		default:
			err = fmt.Errorf("%s: no line of nvidia-smi, of a training log or of an out-of-memory message: %w", name,
				ErrNothingKnown)
		}
		return nil, nil, err
	}
	return kinds, ev, err
}

// startsTable tells lines that may belong to nvidia-smi's tables.
func startsTable(line []byte) bool {
	return len(line) == 0 || line[0] == '|' || line[0] == '+' || line[0] == '<' || line[0] == '#' || line[0] == '='
}

// containerStamp is the length of the time that container runtimes put before
// every line, 2025-11-26T14:35:15.701618164Z and a blank; 0 without.
func containerStamp(line []byte) int {
	if len(line) < 22 || line[10] != 'T' || line[19] != '.' {
		return 0
	}
	_, rest, ok := figures.DateTime(line)
	if text, zoned := bytes.CutPrefix(rest, []byte("Z ")); ok && zoned {
		return len(line) - len(text)
	}
	return 0
}

// contents is what the beginning of a stream looks like.
type contents uint8

const (
	textData contents = iota
	jsonData
	notebook
	gpuData
	binaryData
)

var (
	// {"key": or {}, not {'loss': …}, which Python prints
	startsObject = pattern.Of(`^\{\s*(?:["}]|$)`)
	startsList   = pattern.Of(`^\[\s*(?:$|\[\s*(?:[-\]\d]|$)|\{\s*(?:["}]|$))`)
)

// contentsOf tells JSON from logs whose lines begin with a brace or a bracket.
func contentsOf(head []byte) contents {
	body := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	keys := map[string]bool{}
	isObject := startsObject().Match(body)
	if isObject {
		keys = topKeys(body)
	}
	switch {
	case keys["cells"] || keys["nbformat"]:
		return notebook
	case isGPUData(keys, body):
		return gpuData
	case isObject && !jsonLines(body, keys), startsList().Match(body):
		return jsonData
	case len(body) > 0 && body[0] != '{' && sniff.IsBinary(head):
		return binaryData
	}
	return textData
}

// isGPUData tells what programs that watch GPUs print as JSON.
func isGPUData(keys map[string]bool, body []byte) bool {
	has := func(word string) bool { return bytes.Contains(body, []byte(word)) }
	return keys["gpus"] && has(`"memory.used"`) || (keys["card0"] || keys["card1"]) && has(`"VRAM Total Used Memory (B)"`) ||
		(keys["gpu_data"] || len(body) > 0 && body[0] == '[') && has(`"mem_usage"`) && has(`"used_vram"`)
}

// topKeys lists the keys of the outermost object as far as head shows them.
func topKeys(head []byte) map[string]bool {
	keys := map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(noNumber().ReplaceAll(head, []byte("${1}null"))))
	_, _ = d.Token()
	for d.More() {
		key, err := d.Token()
		name, isKey := key.(string)
		if err != nil || !isKey {
			break
		}
		keys[name] = true
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
	}
	return keys
}

// noNumber is what Python writes into JSON for figures that are none.
var noNumber = pattern.Of(`([:\[,]\s*)-?(?:NaN|Infinity)\b`)

// jsonLines tells a log of one object per line.
func jsonLines(body []byte, keys map[string]bool) bool {
	line, rest, ended := bytes.Cut(body, []byte("\n"))
	if !ended {
		return keys["loss"] && !keys["traceEvents"]
	}
	line, rest = bytes.TrimRight(line, " \r"), bytes.TrimLeft(rest, " \t\r\n")
	if len(line) < 2 || line[len(line)-1] != '}' {
		return false
	}
	return len(rest) == 0 && keys["loss"] || len(rest) > 0 && bytes.IndexByte([]byte("},]"), rest[0]) < 0
}
