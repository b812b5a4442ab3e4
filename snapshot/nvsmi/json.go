package nvsmi

import (
	"encoding/json"
	"io"
	"math"
)

// gpustatJSON is what `gpustat --json` prints, in MiB.
type gpustatJSON struct {
	Time string `json:"query_time"`
	GPUs []struct {
		Index       int      `json:"index"`
		UUID        string   `json:"uuid"`
		Name        string   `json:"name"`
		Utilization *float64 `json:"utilization.gpu"`
		Power       *float64 `json:"power.draw"`
		Used        *float64 `json:"memory.used"`
		Total       *float64 `json:"memory.total"`
		Processes   []struct {
			PID     int      `json:"pid"`
			Command string   `json:"command"`
			Used    *float64 `json:"gpu_memory_usage"`
		} `json:"processes"`
	} `json:"gpus"`
}

// ReadGpustat reads what `gpustat --json` printed, once or again and again. When
// the stream breaks off, what was read up to there comes with the error.
func ReadGpustat(r io.Reader) (*Report, error) {
	var p Parser
	d := json.NewDecoder(r)
	for {
		var reading gpustatJSON
		if err := d.Decode(&reading); err == io.EOF {
			return p.Finish(), nil
		} else if err != nil {
			return p.Finish(), err
		}
		at, _ := parseStamp([]byte(reading.Time))
		for i := range reading.GPUs {
			g := &reading.GPUs[i]
			if g.Index < 0 || g.Index > 1023 {
				continue
			}
			u := p.byIndex(Gpustat, g.Index)
			u.gpu.Name, u.ids[1] = g.Name, g.UUID
			u.read(Sample{At: at, UsedBytes: mebibytes(g.Used), UtilizationPercent: figure(g.Utilization), PowerWatts: figure(g.Power)}, mebibytes(g.Total))
			p.rows[Gpustat]++
			for _, one := range g.Processes {
				if one.PID >= 0 {
					u.process(at, one.PID, []byte(one.Command), mebibytes(one.Used))
				}
			}
		}
	}
}

// mebibytes is a figure in bytes, Unknown where there is none that a GPU may have.
func mebibytes(v *float64) int64 {
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
