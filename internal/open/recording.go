package open

import (
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/snapshot"
)

// recording is a file that is decoded when it is needed, perhaps more than
// once. Of all files of a run, only the last one decoded is kept open: its
// digest may still be being worked out while the recording is judged.
type recording struct {
	run     *Run
	path    string
	options snapshot.Options
	in      *snapshot.Input // nil: not open
	sum     string
	bytes   int64
	known   bool // sum and bytes are
}

// addRecording takes in a file that was only looked at. The first one is left
// open for those who have only one.
func (r *Run) addRecording(in *snapshot.Input, o snapshot.Options, optional bool) {
	x := &recording{run: r, path: in.Name, options: o}
	if r.opened == nil {
		x.in, r.opened = in, x
	} else {
		in.Close()
	}
	r.Sources = append(r.Sources, diagnose.Source{Path: in.Name, Kind: KindSnapshot, Optional: optional, Open: x.open,
		Digest: x.digest})
}

func (x *recording) open() (*snapshot.Snapshot, error) {
	if x.run.opened != x {
		x.run.opened.settle()
		x.run.opened = x
	}
	if x.in == nil {
		in, err := x.run.files.input(x.path)
		if err != nil {
			return nil, err
		}
		x.in = in
	}
	s, err := x.in.Snapshot(x.options)
	return s, x.run.files.wholly(x.in, err)
}

// settle takes the digest and closes the file.
func (x *recording) settle() {
	if x == nil || x.in == nil {
		return
	}
	x.in.Close()
	if sum, bytes := x.in.Digest(); sum != "" {
		x.sum, x.bytes, x.known = sum, bytes, true
	}
	_ = x.run.files.wholly(x.in, nil) // is noted
	x.in = nil
}

// digest is that of the file, which is read for it if it wasn't yet.
func (x *recording) digest() (sum string, bytes int64) {
	if !x.known && x.in == nil {
		x.in, _ = x.run.files.input(x.path)
	}
	if !x.known && x.in != nil {
		x.sum, x.bytes = x.in.Digest()
		x.known = true
	}
	x.settle()
	return x.sum, x.bytes
}
