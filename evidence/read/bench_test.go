package read

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// benchLogs are the shapes a large log has: nearly all lines of one form.
func benchLogs() map[string][]byte {
	shapes := map[string]func(i int) string{
		"noise": func(i int) string {
			return fmt.Sprintf("2026-01-02 03:04:05,%03d INFO worker %d: fetched shard %d of the data set from cache, 4096 "+
				"samples\n", i%1000, i%8, i)
		},
		"steps": func(i int) string {
			return fmt.Sprintf("step %05d/99999 (%.2f%%) | loss: %.6f | lrm: 1.00 | dt: %.2fms | tok/sec: 813,175 | mfu: "+
				"50.82 | total time: 1.42m\n", i, float64(i)/1000, 9-float64(i)/1e5, 640+float64(i%17))
		},
		"colours": func(i int) string {
			return fmt.Sprintf("[rank0]:[titan] 2026-05-20 04:%02d:%02d,521 - root - INFO - \x1b[31mstep: %2d  \x1b[32mloss: "+
				"12.54421  \x1b[38;2;54;234;195mmemory: 160.86GiB(90.19%%)  \x1b[34mtps: 1,191\x1b[39m\n", i/60%60, i%60, i)
		},
		"csv": func(i int) string {
			if i == 0 {
				return "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
			}
			return fmt.Sprintf("2026/03/04 05:%02d:%02d.361, %d, NVIDIA H100 80GB HBM3, %d %%, %d MiB, 81559 MiB\n", i/60%60,
				i%60, i%8, i%100, 1000+i%70000)
		},
		"dicts": func(i int) string {
			return fmt.Sprintf("{'loss': %.4f, 'grad_norm': 0.186438649892807, 'learning_rate': 1.8485679463741622e-05, "+
				"'epoch': %.2f}\n", 2-float64(i)/1e6, float64(i)/100)
		},
	}
	logs := map[string][]byte{}
	for name, line := range shapes {
		var b bytes.Buffer
		for i := 0; b.Len() < 8<<20; i++ {
			b.WriteString(line(i))
		}
		logs[name] = b.Bytes()
	}
	logs["table"] = []byte(strings.Repeat(sampleTable, 8<<20/len(sampleTable)))
	return logs
}

const sampleTable = `Tue Mar  3 08:12:38 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.10                 Driver Version: 570.10         CUDA Version: 12.8     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                    0 |
| N/A   52C    P0            432W /  700W |   11125MiB /  81559MiB |     98%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            4711      C   python                                11000MiB |
+-----------------------------------------------------------------------------------------+
`

func BenchmarkRead(b *testing.B) {
	for name, log := range benchLogs() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Evidence(bytes.NewReader(log), name, 0); err != nil && name != "noise" {
					b.Fatal(err)
				}
			}
		})
	}
}
