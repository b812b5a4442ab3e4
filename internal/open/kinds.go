package open

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/evidence/tracker"
	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

// Kinds that are told apart here; the other evidence's are evidence's own.
const (
	KindSnapshot   = "snapshot"
	KindConfig     = "model_config"
	KindCheckpoint = "checkpoint_header"
	KindLabels     = "labels"
	KindRunRecord  = "run_record"
)

// read takes one input in. A recording that can be read again is only looked
// at: it is decoded when it is needed.
func (r *Run) read(in *snapshot.Input, o Options, lenient bool) error {
	options := snapshot.Options{MaxMemory: o.MaxMemory, Partial: o.Partial}
	head, err := in.Head(sniff.HeadBytes)
	recorded := err == nil && sniff.IsRecording(head)
	if recorded && in.Rereadable() {
		r.addRecording(in, options, lenient)
		return nil
	}
	if (lenient || o.several) && err == nil && sniff.IsReport(head) {
		in.Discard()
		return unknown(in.Name, head, nil)
	}
	source := diagnose.Source{Path: in.Name, Optional: lenient}
	source.Kind, source.Contains, err = r.kindOf(in, head, options, &source)
	if err != nil {
		in.Discard()
		if lenient && !recorded && len(head) > 0 && head[0] == sniff.PickleMark && !sniff.IsCutPickle(in.Name, head) {
			return unknown(in.Name, head, nil) // some other pickle
		}
		return err
	}
	if lenient && source.Kind == KindCheckpoint {
		in.Discard() // may be larger than all recordings together, and serves nothing
		return nothingIn(in.Name, "a checkpoint", "`vramscope budget --model` says what it needs.")
	}
	if source.Kind == KindCheckpoint {
		source.Notes = append(source.Notes, "not used: only --model FILE reads a checkpoint's header")
	}
	r.inputs = append(r.inputs, in)
	source.Digest = in.Digest
	r.Sources = append(r.Sources, source)
	return nil
}

// kindOf recognises an input that is read at once.
func (r *Run) kindOf(in *snapshot.Input, head []byte, o snapshot.Options, source *diagnose.Source) (kind string,
	contains []string, err error) {
	if in.Compression == "zip" && in.IsCheckpoint() || sniff.IsSafetensors(head, 0) {
		return KindCheckpoint, nil, nil
	}
	s, err := in.Snapshot(o)
	switch {
	case err == nil:
		source.Snapshot = s
		return KindSnapshot, nil, nil
	case len(head) == 0 && in.Compression != "" && errors.Is(err, snapshot.ErrCut) && !sniff.CalledRecording(in.Name):
		return "", nil, &snapshot.Error{File: in.Name, Offset: 0, Err: errText, Cause: "the file ends in the middle of its " +
			in.Compression + " data: nothing of it can be read"}
	case !errors.Is(err, snapshot.ErrNotSnapshot):
		return "", nil, err
	}
	return r.other(in, err, o.Partial, source)
}

// other recognises what isn't a snapshot.
func (r *Run) other(in *snapshot.Input, why error, partial bool, source *diagnose.Source) (kind string, contains []string,
	err error) {
	c, total, err := in.Content()
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	b := bufio.NewReaderSize(c, sniff.HeadBytes)
	head, err := b.Peek(sniff.HeadBytes)
	if len(head) == 0 {
		if !sniff.CalledRecording(in.Name) {
			why = &snapshot.Error{File: in.Name, Offset: 0, Err: snapshot.ErrNotSnapshot, Cause: emptyFile,
				Advice: "The program wrote nothing, or wrote elsewhere: give what it printed."}
		}
		return "", nil, why
	}
	if unreadable(err) {
		return "", nil, &snapshot.Error{File: in.Name, Offset: int64(len(head)), Cause: err.Error()}
	}
	if sniff.IsSafetensors(head, total) {
		return KindCheckpoint, nil, nil
	}
	if sniff.IsBinary(head) && tracker.Recognise(in.Name, head) == nil {
		return "", nil, unknown(in.Name, head, why)
	}
	head = bytes.Clone(head) // reading on writes over it
	if r.recipeIn(in, head) {
		return KindRecipe, nil, nil
	}
	if source.Optional && sniff.CalledSettings(path.Base(in.Name)) {
		return "", nil, unknown(in.Name, head, why)
	}
	kinds, found, err := read.Evidence(b, in.Name, len(r.Sources))
	switch {
	case err == nil:
		r.Evidence.Add(found)
		for _, log := range found.Logs {
			if log.Dropped > 0 {
				source.Notes = append(source.Notes,
					fmt.Sprintf("%s of its messages and summaries aren't told: there are too many", units.Count(log.Dropped)))
			}
		}
		return kinds[0], kinds, nil
	case errors.Is(err, read.ErrOtherJSON):
		switch sniff.AccessoryOf(head) {
		case sniff.Config:
			return KindConfig, nil, nil
		case sniff.Labels:
			return KindLabels, nil, nil
		}
	case !errors.Is(err, read.ErrNothingKnown):
		cut := &snapshot.Error{File: in.Name, Offset: -1, Cause: strings.TrimPrefix(strings.TrimPrefix(err.Error(), in.Name+": "),
			"kineto: ")}
		switch {
		case unreadable(err):
		case kinds == nil && in.Compression == "":
			cut.Err = errUnknown // JSON that ends before it says what it is
		case kinds == nil:
			cut.Err = errText
		case !partial && !source.Optional:
			cut.Advice = "It was cut off or is damaged: read what is there with --partial."
		default: // beside others, too: what is there says more than a line on why it was left out
			r.Evidence.Add(found)
			source.Cut = cut.Cause
			return kinds[0], kinds, nil
		}
		return "", nil, cut
	}
	return "", nil, unknown(in.Name, head, err)
}

// unreadable tells that a file can't be got at from one that is cut or damaged.
func unreadable(err error) bool {
	var disk *fs.PathError
	var far *store.Error
	return errors.Is(err, snapshot.ErrUnread) || errors.As(err, &disk) || errors.As(err, &far)
}

// unknown is the error for input that nothing can be made of, with its beginning.
func unknown(name string, head []byte, why error) error {
	var e *snapshot.Error
	if errors.As(why, &e) && e.Cause != "not a pickle" {
		return why
	}
	if errors.Is(why, read.ErrUnnamed) {
		return &snapshot.Error{File: name, Offset: 0, Err: errUnknown,
			Cause:  "rows without header or units, as nvidia-smi prints them: which figure is which GPU's memory can't be told",
			Advice: "Keep the header: nvidia-smi --query-gpu=timestamp,index,memory.used,memory.total --format=csv -l 1"}
	}
	what, instead := sniff.Describe(head)
	return nothingIn(name, what, instead)
}

const nothingToAnalyse = ": nothing to analyse in it"

// nothingIn is that error for a file that is something else.
func nothingIn(name, what, instead string) error {
	return &snapshot.Error{File: name, Offset: 0, Err: errUnknown, Advice: instead, Cause: what + nothingToAnalyse}
}
