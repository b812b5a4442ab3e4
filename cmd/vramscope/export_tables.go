package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/dataset"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/whole"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
	"github.com/vramscope/vramscope/timeline"
)

// exportTables are the tables that can be exported: a recording's facts, and
// what its report says. A batch's categories are another table of that name.
func exportTables() []*dataset.Table {
	return append(dataset.RecordingTables(), slices.DeleteFunc(dataset.RunTables(), func(t *dataset.Table) bool {
		return t == dataset.RunCategories
	})...)
}

func tableHelp() string {
	var names []string
	for _, t := range exportTables() {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ") + ", or all of them"
}

// tables are those that --table names.
func (f *exportFlags) tables(cmd *cobra.Command) ([]*dataset.Table, error) {
	if _, local := store.Path(f.output); !local && f.toFolder() {
		return nil, fmt.Errorf("-o %s: only a folder of this machine can be filled with tables; name the file to write one "+
			"--table there", store.Show(f.output))
	}
	if f.table == "all" {
		if !f.toFolder() {
			return nil, fmt.Errorf("--table all: name a folder with -o DIR/")
		}
		if _, ok := dataset.FormatNamed(strings.TrimPrefix(ending(f.output), ".")); ok {
			return nil, fmt.Errorf("--table all -o %s: several tables go into a folder, and this is a file's name; write -o %s/",
				f.output, strings.TrimSuffix(f.output, ending(f.output)))
		}
		return exportTables(), nil
	}
	for _, t := range exportTables() {
		if t.Name != f.table {
			continue
		}
		if cmd.Flags().Changed("at-event") && t != dataset.Segments && t != dataset.Blocks {
			return nil, fmt.Errorf("--at-event is for the tables segments and blocks")
		}
		return []*dataset.Table{t}, nil
	}
	if f.table == "" {
		return nil, fmt.Errorf("export: --table is missing: %s\n  A whole recording wants --format or a name: -o FILE.pb.gz, "+
			"FILE.pftrace or FILE.speedscope.json", tableHelp())
	}
	return nil, fmt.Errorf("--table %q: %s", f.table, tableHelp())
}

// toFolder reports whether -o names a folder.
func (f *exportFlags) toFolder() bool {
	if f.output == "" {
		return false
	}
	name, _ := store.Path(f.output) // a URL is no file that is there
	st, err := os.Stat(name)
	return err == nil && st.IsDir() || strings.HasSuffix(name, "/") || f.table == "all" && os.IsNotExist(err)
}

// exported is a recording whose tables are asked for, each at most once.
type exported struct {
	name     string // redacted when that is asked for
	snapshot *snapshot.Snapshot
	view     *frames.View
	devices  []exportedDevice
	holders  func(*timeline.Timeline) ([]classify.Holder, error) // nil: nobody recorded them
	report   func() (*report.Document, error)
}

// exportedDevice is one GPU; its event is the moment of segments and blocks.
type exportedDevice struct {
	timeline *timeline.Timeline
	classes  func() *classify.Classification
	event    int
}

// exported reads a recording.
func (f *exportFlags) exported(cmd *cobra.Command, name string) (*exported, error) {
	s, config, err := f.recording(cmd, name)
	if err != nil {
		return nil, err
	}
	o := diagnose.Options{Tool: "vramscope " + versionString()}
	if o.Capacity, err = capacityOf(f.gpu); err != nil {
		return nil, err
	}
	if config != nil {
		o.Theory = compare.Untold(config)
	}
	holders := open.HoldersBeside(name)
	var size int64 // as far as it is a file
	if st, err := os.Stat(name); err == nil {
		size = st.Size()
	}
	if f.redact {
		r := newRedactor()
		r.Snapshot(s)
		f.names.redact(r)
		holders = open.RedactHolders(r, holders, name)
		name = r.Input(name)
	}
	x := &exported{name: name, snapshot: s, view: frames.New(s), holders: holders}
	if f.device >= 0 {
		o.Device = &f.device
	}
	x.report = sync.OnceValues(func() (*report.Document, error) {
		return diagnose.Run([]diagnose.Source{{Path: name, Kind: open.KindSnapshot, Snapshot: s,
			Made: x.made, Holders: holders, Digest: func() (string, int64) { return "", size }}}, evidence.New(), o)
	})
	for i := range s.Devices {
		d := &s.Devices[i]
		if f.device >= 0 && d.Ordinal != f.device {
			continue
		}
		event := d.Events.Len() - 1
		if cmd.Flags().Changed("at-event") {
			if f.atEvent > event || f.atEvent < 0 {
				return nil, fmt.Errorf("--at-event %d: device %d has events 0 to %d", f.atEvent, d.Ordinal, event)
			}
			event = f.atEvent
		}
		t := timeline.New(s, d)
		classes := sync.OnceValue(func() *classify.Classification { return classify.New(t, f.names.options(t)) })
		x.devices = append(x.devices, exportedDevice{t, classes, event})
	}
	return x, nil
}

// made is what was made of a device for its tables.
func (x *exported) made(d *snapshot.Device) (*timeline.Timeline, *classify.Classification) {
	i := slices.IndexFunc(x.devices, func(e exportedDevice) bool { return e.timeline.Device == d })
	return x.devices[i].timeline, x.devices[i].classes()
}

// garbage is how much of it may add up while tables are written, in bytes.
const garbage = 128 << 20

// boundGarbage keeps what was written from adding up to as much as a long
// recording. It gives what undoes that.
func boundGarbage() func() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := debug.SetGCPercent(int(min(100, max(10, garbage*100/(m.HeapAlloc+1)))))
	return func() { debug.SetGCPercent(before) }
}

// table writes one table.
func (x *exported) table(w io.Writer, format dataset.Format, t *dataset.Table) error {
	if slices.Contains(dataset.RunTables(), t) {
		doc, err := x.report()
		if err != nil {
			return err
		}
		a, err := dataset.NewAppender(w, format, t)
		if err != nil {
			return err
		}
		if err := a.Document(x.name, doc); err != nil {
			return err
		}
		return a.Close()
	}
	sink, err := dataset.NewSink(w, format, t)
	if err != nil {
		return err
	}
	for _, d := range x.devices {
		r, err := x.recording(&d, t)
		if err != nil {
			return err
		}
		if err := r.Write(sink, t, d.event); err != nil {
			return err
		}
		if t == dataset.Stacks || t == dataset.Host {
			break // the same for all
		}
	}
	return sink.Close()
}

// recording is what a table is made of.
func (x *exported) recording(d *exportedDevice, t *dataset.Table) (r dataset.Recording, err error) {
	r = dataset.Recording{Timeline: d.timeline, View: x.view}
	if t == dataset.Allocations || t == dataset.Blocks || t == dataset.Categories {
		r.Classes = d.classes()
	}
	if x.holders != nil && (t == dataset.Allocations || t == dataset.Holders) {
		r.Holders, err = x.holders(d.timeline)
	}
	return r, err
}

// folder writes tables into a folder, all or none: they take their names when
// the last is written.
func (x *exported) folder(dir string, format dataset.Format, tables []*dataset.Table) error {
	dir, _ = store.Path(dir)
	unmake, err := makeFolder(dir)
	if err != nil {
		return fmt.Errorf("%s: can't be made: %w", dir, err)
	}
	defer unmake()
	work, err := os.MkdirTemp(dir, ".export-*")
	if err != nil {
		return fmt.Errorf("%s: can't be written: %w", dir, err)
	}
	defer os.RemoveAll(work)
	defer whole.RemoveOnSignal(work)()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0)) // the longest come first
	for _, t := range tables {
		g.Go(func() error {
			return whole.Write(filepath.Join(work, t.Name+"."+format.String()), func(w io.Writer) error {
				return x.table(w, format,
					t)
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, t := range tables {
		name := t.Name + "." + format.String()
		if err := os.Rename(filepath.Join(work, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	return nil
}

// makeFolder makes a folder and those that it lies in. unmake removes those that
// nothing was put into.
func makeFolder(dir string) (unmake func(), err error) {
	var made []string // the innermost first
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); !os.IsNotExist(err) || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	unmake = func() {
		for _, d := range made {
			_ = os.Remove(d) // fails where something is in it
		}
	}
	if err = os.MkdirAll(dir, 0o755); err != nil {
		unmake()
	}
	return unmake, err
}
