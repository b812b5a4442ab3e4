package simulate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		text, device string
		count        int
		err          string
	}{
		{"A100 40GB", "name=NVIDIA A100-SXM4-40GB;cc=8.0;sms=108;l2=41943040;total=42294640640;context=482344960;count=1;other=0", 1, ""},
		{"h100:8", "name=NVIDIA H100 80GB HBM3;cc=9.0;sms=132;l2=52428800;total=84932952064;context=643825664;count=8;other=0", 8, ""},
		{"24GiB", "name=NVIDIA H100 80GB HBM3;cc=9.0;sms=132;l2=52428800;total=25769803776;context=643825664;count=1;other=0", 1, ""},
		{"A100", "", 0, "give the whole name"},
		{"A100 40GB:0", "", 0, "how many GPUs there are, 1 to 16"},
		{"A100 40GB:17", "", 0, "how many GPUs there are, 1 to 16"},
		{"A100 40GB:x", "", 0, "how many GPUs"},
		{"MI300X", "", 0, "CUDA alone"},
		{"", "", 0, "neither a size"},
	} {
		s, err := Read(c.text)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err != nil || s.Device() != c.device || s.Count != c.count || s.Steps != 3 || s.Sizes != "even" {
			t.Errorf("%q: %v, %+v\n%s", c.text, err, s, s.Device())
		}
	}
}

func TestCheckNumbers(t *testing.T) {
	for _, c := range []struct {
		change func(*Setting)
		ok     bool
	}{
		{func(*Setting) {}, true},
		{func(s *Setting) { s.Sizes = "0.25" }, true},
		{func(s *Setting) { s.Sizes = "1.5" }, false},
		{func(s *Setting) { s.Sizes = "some" }, false},
		{func(s *Setting) { s.World, s.Rank = 512, 3 }, true},
		{func(s *Setting) { s.World, s.Rank = 512, 512 }, false},
		{func(s *Setting) { s.Rank = 1 }, false},
		{func(s *Setting) { s.World = -1 }, false},
		{func(s *Setting) { s.World, s.Count = 8, 8 }, false},
	} {
		s, err := Read("A100 40GB")
		if err != nil {
			t.Fatal(err)
		}
		c.change(s)
		if err := s.CheckNumbers(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestEnvironment: what the user has set stays, behind the library or before what is usual.
func TestEnvironment(t *testing.T) {
	s, err := Read("A100 40GB")
	if err != nil {
		t.Fatal(err)
	}
	s.World, s.Rank, s.NoWeights = 512, 3, true
	had := map[string]string{"LD_PRELOAD": "/mine.so", "LD_LIBRARY_PATH": "", "PYTHONHASHSEED": "7"}
	got := map[string]string{}
	for _, v := range s.Environment("/lib/x.so", "/cache", "/run/account-%p", func(name string) (string, bool) {
		value, ok := had[name]
		return value, ok
	}) {
		if _, twice := got[v.Name]; twice {
			t.Errorf("%s is set twice", v.Name)
		}
		got[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"LD_PRELOAD": "/lib/x.so:/mine.so", "LD_LIBRARY_PATH": "/lib", variableDevice: s.Device(), variableAccount: "/run/account-%p",
		variableBooks:      "/run/books",
		"TRITON_CACHE_DIR": "/cache/triton", "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor", "RANK": "3", "WORLD_SIZE": "512",
		"LOCAL_RANK": "0", variableOptions: "gpu=A100 40GB,major=8,minor=0,steps=3,assume=even,weights=0,world=512,rank=3",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, not %q", name, got[name], want)
		}
	}
	if _, set := got["PYTHONHASHSEED"]; set {
		t.Error("the user's PYTHONHASHSEED is overwritten")
	}
}

// TestMachines: what can't be is refused in a line that says what to do.
func TestMachines(t *testing.T) {
	none, gpu := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(gpu, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(gpu, "dev/nvidia0"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine Machine
		says    string // "": it can be
	}{
		{Machine{"linux", "amd64", none}, ""},
		{Machine{"linux", "arm64", none}, ""},
		{Machine{"linux", "riscv64", none}, "Linux x86-64 and aarch64 alone"},
		{Machine{"darwin", "arm64", none}, "container"},
		{Machine{"windows", "amd64", none}, "WSL2"},
		{Machine{"linux", "amd64", gpu}, "has a GPU (/dev/nvidia0)"},
	} {
		err := c.machine.Check()
		var refusal *Refusal
		switch {
		case c.says == "" && err != nil, c.says != "" && (!errors.As(err, &refusal) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v", c.machine, err)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("%+v: more than a line: %v", c.machine, err)
		}
	}
}

// TestTogether: of the same line the process with most bytes is told, and not without end.
func TestTogether(t *testing.T) {
	one := []Assumption{{What: "nonzero", File: "a.py", Line: 1, Bytes: 5}, {What: "a condition", File: "a.py", Line: 2}}
	all := Together(one, []Assumption{{What: "nonzero", File: "a.py", Line: 1, Bytes: 9}, {What: "nonzero", File: "b.py", Line: 1, Bytes: 7}})
	if len(all) != 3 || all[0].Bytes != 9 || all[1].File != "b.py" || all[2].Line != 2 {
		t.Errorf("%+v", all)
	}
	for i := range 10 * maxAssumptions {
		all = Together(all, []Assumption{{File: "c.py", Line: i}})
	}
	if len(all) != maxAssumptions {
		t.Errorf("%d", len(all))
	}
}
