package gpus

import (
	"strings"
	"testing"
)

// TestTable: each device is found by its own names, and has all that a program may ask it for.
func TestTable(t *testing.T) {
	for _, g := range All() {
		for _, name := range append([]string{g.Name, strings.ToLower(g.Name), strings.TrimSuffix(g.Name, "GB"), g.Device}, g.aliases...) {
			if found, err := Find(name); err != nil || found.Name != g.Name && found.Device != g.Device {
				t.Errorf("%s: %s, %v", name, found.Name, err)
			}
		}
		if g.Capacity < 8<<30 || g.Context < 100<<20 || g.Major < 7 || g.Major > 12 || g.Minor > 9 || g.SMs < 40 || g.L2 < 4<<20 {
			t.Errorf("%s: %+v", g.Name, g)
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, want, err string
		capacity        int64 // 0: the table's
	}{
		{"a100-40", "A100 40GB", "", 0},
		{"NVIDIA A100 40GB", "A100 40GB", "", 0},
		{"4090", "RTX 4090 24GB", "", 0},
		{"H100", "H100 80GB", "", 0},
		{"A10", "A10 24GB", "", 0},
		{"A10G", "A10G 24GB", "", 0},
		{"NVIDIA A10G", "A10G 24GB", "", 0},
		{"L4", "L4 24GB", "", 0},
		{"24GiB", "24GiB", "", 24 << 30},
		{"80 GiB", "80 GiB", "", 80 << 30},
		{"A100", "", `could be "A100 40GB" or "A100 80GB"`, 0},
		{"", "", "neither a size", 0},
		{strings.Repeat("x", 1000), "", "xxx…", 0},
	} {
		g, err := Find(c.name)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || len(err.Error()) > 500 {
				t.Errorf("%.20q: %v", c.name, err)
			}
		case err != nil || g.Name != c.want || c.capacity > 0 && g.Capacity != c.capacity:
			t.Errorf("%q: %+v, %v", c.name, g, err)
		case g.Major == 0 || g.Device == "":
			t.Errorf("%q has no properties: %+v", c.name, g)
		}
	}
}

// TestWorkspaces: PyTorch's rule by compute capability.
func TestWorkspaces(t *testing.T) {
	for name, large := range map[string]bool{"A100 40GB": false, "L4": false, "H100": true, "B200": true, "RTX 5090": true} {
		if g, err := Find(name); err != nil || g.LargeWorkspaces() != large {
			t.Errorf("%s: %v, %v", name, g.LargeWorkspaces(), err)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  int // devices, -1: an error
	}{{nil, 4}, {[]string{"all"}, len(All())}, {[]string{"a100-40", "H200"}, 2}, {[]string{"T4", "nothing"}, -1}} {
		if got, err := Named(c.names); (err != nil) != (c.want < 0) || err == nil && len(got) != c.want {
			t.Errorf("%q: %d devices, %v; want %d", c.names, len(got), err, c.want)
		}
	}
}
