// Package gpus is the one table of devices: what a GPU of a name has, as CUDA tells it.
//
//	g, err := gpus.Find("a100-40")
package gpus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/units"
)

// GPU is a device and what of it can be used.
type GPU struct {
	Name     string
	Device   string // as torch.cuda.get_device_name prints it
	Capacity int64  // bytes that PyTorch sees as the total
	Context  int64  // what the CUDA context takes of it
	Major    int    // compute capability
	Minor    int
	SMs      int   // multiprocessors
	L2       int64 // bytes

	aliases []string // other names of it, which would fit several otherwise
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// table lists the devices with the total capacity that out-of-memory messages print, which is less than
// nvidia-smi's, which is not the name's.
var table = []GPU{
	{"T4 16GB", "Tesla T4", gibs(14.56), 307 * mib, 7, 5, 40, 4 * mib, nil},
	{"V100 16GB", "Tesla V100-SXM2-16GB", gibs(15.77), 307 * mib, 7, 0, 80, 6 * mib, nil},
	{"V100 32GB", "Tesla V100-SXM2-32GB", gibs(31.73), 307 * mib, 7, 0, 80, 6 * mib, nil},
	{"RTX 4070 12GB", "NVIDIA GeForce RTX 4070", gibs(11.57), 460 * mib, 8, 9, 46, 36 * mib, nil},
	{"RTX 3090 24GB", "NVIDIA GeForce RTX 3090", gibs(23.60), 307 * mib, 8, 6, 82, 6 * mib, nil},
	{"RTX 4090 24GB", "NVIDIA GeForce RTX 4090", gibs(23.52), 460 * mib, 8, 9, 128, 72 * mib, nil},
	{"RTX 5090 32GB", "NVIDIA GeForce RTX 5090", gibs(31.36), 614 * mib, 12, 0, 170, 96 * mib, nil},
	{"A10 24GB", "NVIDIA A10", gibs(22.03), 307 * mib, 8, 6, 72, 6 * mib, []string{"A10"}},
	{"A10G 24GB", "NVIDIA A10G", gibs(22.06), 307 * mib, 8, 6, 80, 6 * mib, []string{"A10G"}},
	{"L4 24GB", "NVIDIA L4", gibs(22.03), 460 * mib, 8, 9, 58, 48 * mib, []string{"L4"}},
	{"L40S 48GB", "NVIDIA L40S", gibs(44.34), 460 * mib, 8, 9, 142, 96 * mib, nil},
	{"RTX 6000 Ada 48GB", "NVIDIA RTX 6000 Ada Generation", 50865307648, 460 * mib, 8, 9, 142, 96 * mib, nil},
	{"A100 40GB", "NVIDIA A100-SXM4-40GB", gibs(39.39), 460 * mib, 8, 0, 108, 40 * mib, nil},
	{"A100 80GB", "NVIDIA A100-SXM4-80GB", gibs(79.14), 460 * mib, 8, 0, 108, 40 * mib, nil},
	{"H100 80GB", "NVIDIA H100 80GB HBM3", gibs(79.10), 614 * mib, 9, 0, 132, 50 * mib, nil},
	{"H200 141GB", "NVIDIA H200", gibs(139.72), 614 * mib, 9, 0, 132, 60 * mib, nil},
	{"B200 192GB", "NVIDIA B200", gibs(178.35), 614 * mib, 10, 0, 148, 132644864, nil},
	{"MI300X 192GB", "AMD Instinct MI300X", gibs(191.69), 614 * mib, 9, 4, 304, 4 * mib, nil},
}

func gibs(f float64) int64 { return int64(f * gib) }

// usual is the device whose properties a size alone stands for.
const usual = "H100 80GB"

// All is the table of known devices.
func All() []GPU { return append([]GPU(nil), table...) }

// Names are those of the known devices.
func Names() (names []string) {
	for _, g := range table {
		names = append(names, g.Name)
	}
	return names
}

// Usual is the device that is meant where none is named.
func Usual() GPU {
	return table[slices.IndexFunc(table, func(g GPU) bool { return g.Name == usual })]
}

// Named are the devices of some names, of which "all" stands for the table; without a name, a few sizes that people have.
func Named(names []string) (found []GPU, err error) {
	if len(names) == 0 {
		names = []string{"RTX 4090 24GB", "A100 40GB", "H100 80GB", "H200 141GB"}
	}
	for _, n := range names {
		if n == "all" {
			found = append(found, table...)
			continue
		}
		g, err := Find(n)
		if err != nil {
			return nil, err
		}
		found = append(found, g)
	}
	return found, nil
}

// LargeWorkspaces reports whether PyTorch gives cuBLAS the workspaces of compute capability 9.0 and newer.
func (g *GPU) LargeWorkspaces() bool { return g.Major >= 9 }

// Bfloat16 reports whether products of bfloat16 run on its matrix units, as they do from compute capability 8.0 on;
// of one that isn't known they do.
func (g *GPU) Bfloat16() bool { return g.Major >= 8 || g.Major == 0 || !g.NVIDIA() }

// NVIDIA reports whether it is driven by CUDA.
func (g *GPU) NVIDIA() bool { return !strings.HasPrefix(g.Device, "AMD ") }

// Find reads a device's name ("H100 80GB", "a100-40", "4090") or a size ("80GiB"), which is a GPU with an H100's properties.
func Find(s string) (GPU, error) {
	if n, err := units.Parse(s); err == nil && n >= mib { // 4090 is no size
		g := Usual()
		g.Name, g.Capacity = s, n
		return g, nil
	}
	want := squeeze(s)
	var hits []GPU
	for _, g := range table {
		name := squeeze(g.Name)
		if name == want || name == want+"gb" || squeeze(g.Device) == want ||
			slices.ContainsFunc(g.aliases, func(a string) bool { return squeeze(a) == want }) {
			return g, nil
		}
		if want != "" && strings.Contains(name, want) {
			hits = append(hits, g)
		}
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		var names []string
		for _, g := range hits {
			names = append(names, strconv.Quote(g.Name))
		}
		return GPU{}, fmt.Errorf("%q could be %s: give the whole name", cut.Bytes(s, longest), strings.Join(names, " or "))
	}
	var names []string
	for _, g := range table {
		names = append(names, g.Name)
	}
	return GPU{}, fmt.Errorf("%q is neither a size like 80GiB nor one of: %s", cut.Bytes(s, longest), strings.Join(names, ", "))
}

// longest is how much of a name that nobody knows is said again.
const longest = 40

func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(strings.TrimPrefix(strings.ToLower(s), "nvidia")))
}
