package solve

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	vrun "github.com/vramscope/vramscope/run"
	"github.com/vramscope/vramscope/simulate"
)

// told is what a recorder leaves of a process; DUMPS stands for its dumps, OOMS for how often it ran out of
// memory.
const told = `printf '{"pid":7,"torch":"2.9.1","ooms":OOMS,"dumps":[DUMPS],"notes":[],` +
	`"memory_stats":{"0":{"allocated_bytes.all.peak":3000000,"reserved_bytes.all.peak":4194304}},` +
	`"simulated":{"devices":[{"peak_bytes":6291456,"refused":OOMS}],"uncounted":{"convolutions, forward":2},` +
	`"assumptions":[{"what":"nonzero","file":"a.py","line":3,"bytes":8}]}}' > "$VRAMSCOPE_RUN/.hook/processes/7.json"; `

// TestRun tells what a program took of the GPU, what it lacked, and when it failed by itself.
func TestRun(t *testing.T) {
	if err := simulate.Here.Check(); err != nil || runtime.GOOS != "linux" {
		t.Skip(err)
	}
	const full = `echo 'Traceback (most recent call last):
  File "train.py", line 3, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which ` +
		`1.50 GiB is free.' >&2; exit 1`
	const one = `{"file":"a.pickle","why":"exit"}`
	for name, c := range map[string]struct {
		dumps     string
		ooms, end string
		fits      bool
		lacks     string
		fails     string // the error's end
	}{
		"fits":            {one, "0", "exit 0", true, "", ""},
		"no room to dump": {"", "0", "exit 0", true, "", ""},
		"lacks":           {one, "1", full, false, "tried to allocate 2.00 GiB, with 1.50 GiB free on the device", ""},
		"fails":           {one, "0", "exit 3", false, "", vrun.LogFile},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := simulate.Read("24GiB")
			if err != nil {
				t.Fatal(err)
			}
			library := filepath.Join(t.TempDir(), "none.so") // a shell needs none
			got, err := Run(&vrun.Options{Dir: filepath.Join(t.TempDir(), "run"), Simulated: s, Library: library,
				Command: []string{"sh", "-c", strings.NewReplacer("OOMS", c.ooms, "DUMPS", c.dumps).Replace(told) + c.end}})
			var failed *Failed
			if c.fails != "" {
				if !errors.As(err, &failed) || !strings.HasSuffix(err.Error(), c.fails) || !strings.Contains(failed.Ending, "3") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			spare := int64(24<<30) - s.Context - 6291456 // the device held more than PyTorch reserved
			if got.Allocated != 3000000 || got.Reserved != 4194304 || got.Capacity != 24<<30 || got.Spare != spare ||
				got.Fits != c.fits || got.Lacks != c.lacks {
				t.Errorf("%+v", got)
			}
			if got.Torch != "2.9.1" || len(got.Simulated.Assumptions) != 1 || got.Simulated.Uncounted["convolutions, forward"] != 2 {
				t.Errorf("%+v", got.Simulated)
			}
			if _, err := os.Stat(filepath.Join(got.Dir, vrun.RecordFile)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, o := range []vrun.Options{{}, {Command: []string{"true"}}, {Command: []string{"true"}, Simulated: &simulate.Setting{Sizes: "x"}}} {
		if _, err := Run(&o); err == nil {
			t.Errorf("%+v runs", o)
		}
	}
}
