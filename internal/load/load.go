// Package load opens whatever a user names and tells by content what it is.
package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

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

// Run is all that was given about one run.
type Run struct {
	Sources  []diagnose.Source
	Evidence *evidence.Evidence

	inputs []*snapshot.Input
}

// Close lets go of the files. Digests that weren't asked for are waited for.
func (r *Run) Close() {
	for _, in := range r.inputs {
		in.Close()
	}
}

// Options steer the reading.
type Options struct {
	Stdin     io.Reader
	MaxMemory int64 // bytes, 0: no limit
	Partial   bool
	// Lenient passes over what is of no known kind among the named files, and
	// notes what is broken, as is done within a directory.
	Lenient bool
}

// maxFiles bounds the files of a run's directory that are looked at.
const maxFiles = 10_000

// Open reads the named files, directories and "-" for standard input. Files
// named one by one must be usable; of a directory, what is of no known kind is
// passed over.
func Open(names []string, o Options) (*Run, error) {
	run := &Run{Evidence: evidence.New()}
	err := run.addAll(names, o)
	if err == nil {
		err = run.check()
	}
	if err != nil {
		run.Close()
		return nil, err
	}
	return run, nil
}

func (r *Run) addAll(names []string, o Options) error {
	if o.Lenient {
		return r.leniently("these files", slices.Values(names), o)
	}
	for _, name := range names {
		if err := r.add(name, o); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) add(name string, o Options) error {
	if name == "-" {
		in, err := snapshot.ReadInput("standard input", o.Stdin)
		if err != nil {
			return err
		}
		return r.read(in, o)
	}
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return r.directory(name, o)
	}
	in, err := snapshot.OpenInput(name)
	if err != nil {
		return err
	}
	r.inputs = append(r.inputs, in)
	return r.read(in, o)
}

// directory reads what it can of the files below a folder, in order of their names.
func (r *Run) directory(name string, o Options) error {
	var walked error
	err := r.leniently(name, func(yield func(string) bool) {
		seen := 0
		walked = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			if seen++; seen > maxFiles {
				return fmt.Errorf("%s: more than %d files", name, maxFiles)
			}
			if !yield(path) {
				return fs.SkipAll
			}
			return nil
		})
	}, o)
	if walked != nil {
		return walked
	}
	return err
}

// leniently reads what it can of some files: those of no known kind are passed
// over, those that are broken are noted as long as there are others.
func (r *Run) leniently(where string, files iter.Seq[string], o Options) error {
	before := len(r.Sources)
	var failed []error
	var broken []diagnose.Source
	for path := range files {
		in, err := snapshot.OpenInput(path)
		if err == nil {
			if err = r.read(in, o); err == nil {
				r.inputs = append(r.inputs, in)
				continue
			}
			in.Close()
		}
		var e *snapshot.Error
		if errors.As(err, &e) && !errors.Is(err, snapshot.ErrNotSnapshot) && !errors.Is(err, errUnknown) {
			failed = append(failed, err)
			broken = append(broken, diagnose.Source{Path: path, Kind: KindSnapshot, Failed: err.Error()})
		}
	}
	if len(r.Sources) == before {
		if failed != nil {
			return failed[0]
		}
		return &snapshot.Error{File: where, Offset: -1, Err: ErrNothing, Cause: "no recording, log or trace in this directory",
			Advice: "Give the directory of one run, or its files."}
	}
	r.Sources = append(r.Sources, broken...)
	return nil
}

// ErrNothing is wrapped by errors about files of which none is of a known kind.
var ErrNothing = errors.New("nothing known")

// errUnknown is for input of no known kind.
var errUnknown = errors.New("of no known kind")

// read takes one input in.
func (r *Run) read(in *snapshot.Input, o Options) error {
	source := diagnose.Source{Path: in.Name}
	s, err := in.Snapshot(snapshot.Options{MaxMemory: o.MaxMemory, Partial: o.Partial})
	switch {
	case err == nil:
		source.Kind, source.Snapshot = KindSnapshot, s
	case !errors.Is(err, snapshot.ErrNotSnapshot) && !isArchive(in, err):
		return err
	default:
		if source.Kind, source.Contains, err = r.other(in, err); err != nil {
			return err
		}
	}
	source.Digest = in.Digest
	r.Sources = append(r.Sources, source)
	return nil
}

// isArchive tells whether the error is about a zip of several files, which a
// checkpoint is.
func isArchive(in *snapshot.Input, err error) bool {
	return in.Compression == "zip" && in.IsCheckpoint()
}

// other recognises what isn't a snapshot.
func (r *Run) other(in *snapshot.Input, why error) (kind string, contains []string, err error) {
	if in.Compression == "zip" && in.IsCheckpoint() {
		return KindCheckpoint, nil, nil
	}
	c, total, err := in.Content()
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	b := bufio.NewReaderSize(c, 64<<10)
	head, err := b.Peek(64 << 10)
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

// looksBinary tells data from text: text has no NUL bytes unless it is UTF-16.
func looksBinary(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return false
	}
	return bytes.IndexByte(head[:min(len(head), 4096)], 0) >= 0
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

// check refuses a run of nothing but accessories.
func (r *Run) check() error {
	for _, s := range r.Sources {
		if s.Kind != KindConfig && s.Kind != KindCheckpoint && s.Kind != KindLabels {
			return nil
		}
	}
	if len(r.Sources) == 0 {
		return errors.New("nothing to analyse: give a snapshot, a log or a run's directory")
	}
	what := map[string]string{KindConfig: "a model's configuration", KindCheckpoint: "a checkpoint", KindLabels: "a labels file"}[r.Sources[0].Kind]
	return &snapshot.Error{File: r.Sources[0].Path, Offset: -1, Cause: "is " + what + ": an analysis needs a recording beside it",
		Advice: "Give the snapshot too; `vramscope record` prints how to make one."}
}

// HasDevice tells whether any snapshot of the run knows a device.
func (r *Run) HasDevice(ordinal int) bool {
	for _, s := range r.Sources {
		if s.Snapshot != nil && s.Snapshot.Device(ordinal) != nil {
			return true
		}
	}
	return false
}

// DeviceList names the devices of the run's snapshots.
func (r *Run) DeviceList() string {
	list := ""
	for _, s := range r.Sources {
		if s.Snapshot == nil {
			continue
		}
		for _, d := range s.Snapshot.Devices {
			list += fmt.Sprintf(", %d", d.Ordinal)
		}
	}
	if list == "" {
		return "no device"
	}
	return "device " + list[2:]
}
