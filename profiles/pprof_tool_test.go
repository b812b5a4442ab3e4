package profiles

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
)

// tool is pprof itself, as `go tool pprof` runs it, on a profile in memory.
type tool struct {
	*flag.FlagSet
	p      *profile.Profile
	args   []string
	out    bytes.Buffer
	said   bytes.Buffer
	served map[string]http.Handler
}

func (x *tool) StringList(name, def, usage string) *[]*string {
	return &[]*string{x.String(name, def, usage)}
}
func (x *tool) ExtraUsage() string   { return "" }
func (x *tool) AddExtraUsage(string) {}
func (x *tool) Parse(func()) []string {
	if err := x.FlagSet.Parse(x.args); err != nil {
		return nil
	}
	return []string{"profile"}
}
func (x *tool) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return x.p.Copy(), "", nil
}
func (x *tool) Open(string) (io.WriteCloser, error)     { return x, nil }
func (x *tool) Write(b []byte) (int, error)             { return x.out.Write(b) }
func (x *tool) Close() error                            { return nil }
func (x *tool) ReadLine(string) (string, error)         { return "", io.EOF }
func (x *tool) Print(a ...any)                          { fmt.Fprintln(&x.said, a...) }
func (x *tool) PrintErr(a ...any)                       { fmt.Fprintln(&x.said, a...) }
func (x *tool) IsTerminal() bool                        { return false }
func (x *tool) WantBrowser() bool                       { return false }
func (x *tool) SetAutoComplete(func(string) string)     {}
func (x *tool) serve(args *driver.HTTPServerArgs) error { x.served = args.Handlers; return nil }

// pprofTool runs pprof with flags.
func pprofTool(t *testing.T, p *profile.Profile, flags ...string) *tool {
	t.Helper()
	x := &tool{FlagSet: flag.NewFlagSet("pprof", flag.ContinueOnError), p: p, args: flags}
	if err := driver.PProf(&driver.Options{Writer: x, Flagset: x, Fetch: x, UI: x, HTTPServer: x.serve}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%v: %v\n%s", flags, err, x.said.String())
	}
	return x
}

// TestPprofTool opens a profile as its readers will: totals to the byte,
// and labels that can be asked for.
func TestPprofTool(t *testing.T) {
	r := recording(t, "qwen_vocab_oom__05b/snapshot_named.pickle.gz")
	p := pprofOf(t, r, Peak)
	total := fmt.Sprintf("of %dB total", r.Devices[0].Timeline.Peaks.Allocated.Bytes)
	for _, c := range []struct {
		flags string
		wants []string
	}{
		{"-top", []string{"Type: inuse_space", total, "modeling_qwen2.forward", "aten::_log_softmax"}},
		{"-top -sample_index=inuse_space", []string{total}},
		{"-top -sample_index=inuse_objects", []string{"of 332b total"}},
		{"-top -sample_index=alloc_space", []string{"Type: alloc_space"}},
		{"-top -cum -tagroot=category", []string{" logits\n", " weights\n", " activations\n"}},
		{"-top -tagfocus=category=logits", []string{"loss_utils.ForCausalLMLoss"}},
		{"-top -tagfocus=step=0:3", []string{"loss_utils.ForCausalLMLoss"}},
		{"-tags", []string{"category: Total", "phase: Total", "step: Total", "confidence: Total", "bytes: Total", "device: Total"}},
		{"-traces", []string{"category:  logits"}},
		{"-comments", []string{"device 0, at the peak of allocated memory"}},
		{"-dot -tagroot=category,phase", []string{"digraph"}},
	} {
		x := pprofTool(t, p, append(strings.Fields(c.flags), "-unit=b", "-nodefraction=0", "-output=memory")...)
		for _, want := range c.wants {
			if !strings.Contains(x.out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.flags, want, x.out.String())
			}
		}
	}
}

// TestPprofPages asks for the pages that pprof serves.
func TestPprofPages(t *testing.T) {
	x := pprofTool(t, pprofOf(t, recording(t, small), Peak), "-http=localhost:1")
	for _, path := range []string{"/top", "/flamegraph", "/peek"} {
		page := httptest.NewRecorder()
		handler := x.served[path]
		if handler == nil {
			t.Fatalf("no page %s among %d", path, len(x.served))
		}
		handler.ServeHTTP(page, httptest.NewRequest("GET", path, nil))
		if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "adam._init_group") {
			t.Errorf("%s: %d\n%.500s", path, page.Code, page.Body.String())
		}
	}
}
