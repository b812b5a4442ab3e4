// Package logtext writes, for tests, what programs and monitors print.
//
//	log := logtext.Steps(60, func(i int) string { return fmt.Sprintf("step %d loss 2.1", i) })
//	table := logtext.SMI(30000, "4711 20000")
package logtext

import (
	"fmt"
	"strings"
)

// Steps is a log with a line for each step.
func Steps(steps int, line func(i int) string) string {
	var b strings.Builder
	for i := range steps {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// SMI is nvidia-smi's table with processes given as "PID MIB".
func SMI(used int64, processes ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.10                 Driver Version: 570.10         CUDA Version: 12.8     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                    0 |
| N/A   52C    P0            432W /  700W | %7dMiB /  81559MiB |     98%%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
`, used)
	for _, p := range processes {
		var pid, mib int64
		fmt.Sscan(p, &pid, &mib)
		fmt.Fprintf(&b, "|    0   N/A  N/A      %10d      C   python                            %7dMiB |\n", pid, mib)
	}
	b.WriteString("+-----------------------------------------------------------------------------------------+\n")
	return b.String()
}
