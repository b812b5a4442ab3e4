package monitor

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/limit"
)

// ReadJSON reads what `gpustat --json`, `rocm-smi --showmeminfo vram --json` and
// `amd-smi metric --json` printed, once or again and again. When the stream breaks
// off, what was read up to there comes with the error.
func ReadJSON(r io.Reader) (*Report, error) {
	var p Parser
	in := limit.Reader(limit.Reading, r)
	d := json.NewDecoder(in)
	for {
		in.Next()
		var reading json.RawMessage
		if err := d.Decode(&reading); err == io.EOF {
			return p.Finish(), nil
		} else if err != nil {
			return p.Finish(), err
		}
		if !p.gpustatJSON(reading) && !p.rocmJSON(reading) {
			p.amdJSON(reading)
		}
	}
}

// gpustatJSON takes what `gpustat --json` prints, in MiB.
func (all *gathered) gpustatJSON(text []byte) bool {
	var reading struct {
		Time string `json:"query_time"`
		GPUs []struct {
			Index       int      `json:"index"`
			UUID        string   `json:"uuid"`
			Name        string   `json:"name"`
			Utilization *float64 `json:"utilization.gpu"`
			Used        *float64 `json:"memory.used"`
			Total       *float64 `json:"memory.total"`
			Processes   []struct {
				PID     int      `json:"pid"`
				Command string   `json:"command"`
				Used    *float64 `json:"gpu_memory_usage"`
			} `json:"processes"`
		} `json:"gpus"`
	}
	if json.Unmarshal(text, &reading) != nil {
		return false
	}
	at, _ := parseStamp([]byte(reading.Time))
	for i := range reading.GPUs {
		g := &reading.GPUs[i]
		if g.Index < 0 || g.Index > 1023 {
			continue
		}
		s := evidence.Sample{At: at, UsedBytes: bytesOf(g.Used), UtilizationPercent: figure(g.Utilization)}
		u := all.reading(Gpustat, g.Index, s, bytesOf(g.Total))
		u.name, u.ids[1] = g.Name, g.UUID
		for _, one := range g.Processes {
			if one.PID >= 0 {
				u.process(at, one.PID, []byte(one.Command), bytesOf(one.Used))
			}
		}
	}
	return len(reading.GPUs) > 0
}

// rocmJSON takes {"card0": {"VRAM Total Memory (B)": "206141652992", …}}.
func (all *gathered) rocmJSON(text []byte) bool {
	var cards map[string]map[string]any
	if json.Unmarshal(text, &cards) != nil {
		return false
	}
	var indices []int
	for name := range cards {
		number, ok := strings.CutPrefix(name, "card")
		if i, isIndex := gpuIn(number); ok && isIndex && strconv.Itoa(i) == number {
			indices = append(indices, i)
		}
	}
	slices.Sort(indices)
	found := false
	for _, i := range indices {
		card := cards["card"+strconv.Itoa(i)]
		used, _ := card["VRAM Total Used Memory (B)"].(string)
		total, _ := card["VRAM Total Memory (B)"].(string)
		if used != "" {
			s := evidence.Sample{UsedBytes: memory([]byte(used), 1), UtilizationPercent: -1}
			all.reading(RocmSMI, i, s, memory([]byte(total), 1))
			found = true
		}
	}
	return found
}

// amdJSON takes [{"gpu": 0, "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, …}}],
// which newer versions put into {"gpu_data": …}.
func (all *gathered) amdJSON(text []byte) {
	type figure struct {
		Value *float64 `json:"value"`
	}
	type gpu struct {
		Index  int `json:"gpu"`
		Memory struct {
			Total figure `json:"total_vram"`
			Used  figure `json:"used_vram"`
		} `json:"mem_usage"`
	}
	var list []gpu
	var whole struct {
		List []gpu `json:"gpu_data"`
	}
	if json.Unmarshal(text, &list) != nil && json.Unmarshal(text, &whole) == nil {
		list = whole.List
	}
	for _, g := range list {
		if used := bytesOf(g.Memory.Used.Value); g.Index >= 0 && g.Index < 1024 && used != Unknown {
			all.reading(AMDSMI, g.Index, evidence.Sample{UsedBytes: used, UtilizationPercent: -1}, bytesOf(g.Memory.Total.Value))
		}
	}
}

// bytesOf is a figure in MiB as bytes, Unknown where there is none that a GPU may have.
func bytesOf(v *float64) int64 {
	if v == nil || !(*v >= 0 && *v*mib < maxBytes) {
		return Unknown
	}
	return int64(math.Round(*v * mib))
}

func figure(v *float64) float32 {
	if v == nil {
		return -1
	}
	return float32(*v)
}
