package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/report"
)

// TestGPUsAlone judges what nvidia-smi saw without anything else.
func TestGPUsAlone(t *testing.T) {
	csv := func(rows int, row func(i int) string) string {
		return "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n" +
			logtext.Steps(rows, func(i int) string {
				return fmt.Sprintf("2026/03/04 05:%02d:%02d.000, 0, %s, 81559 MiB", i/60, i%60, row(i))
			})
	}
	tests := []struct{ name, text, id, says string }{
		{"full", csv(40, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", min(81000, 10000+9000*i)) }), "gpu_full",
			"79.10 GiB of 79.65 GiB"},
		{"grows to the end", csv(400, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", 20000+100*i) }), "memory_grows",
			"GPU 0"},
		{"grows for a minute only", csv(60, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", 40000+200*i) }),
			"memory_grows", "GPU 0"},
		{"loads", csv(60, func(i int) string { return fmt.Sprintf("90 %%, %d MiB", 500+400*i) }), "memory_grows", "GPU 0"},
		{"held for nothing", csv(60, func(i int) string { return fmt.Sprintf("%d %%, 40000 MiB", 90*(i%4/3)) }), "gpu_idle",
			"75 %"},
		{"shared", logtext.SMI(30000, "100 12000", "200 17000"), "outside_pytorch", "2 programs share GPU 0"},
		{"used by nobody that is listed", strings.Replace(logtext.SMI(79000), "|=====",
			"|  No running processes found                                                             |\n|=====", 1),
			"outside_pytorch", "77.15 GiB were in use on GPU 0, and nvidia-smi listed no process"},
		{"little used by nobody", strings.Replace(logtext.SMI(900), "|=====",
			"|  No running processes found                                                             |\n|=====", 1), "", ""},
		{"an instance of MIG that is full", migTable(39900, 39880, 5080), "gpu_full",
			"MIG instance 1 of GPU 0 was full: 38.96 GiB of 39.25 GiB"},
		{"programs on an instance each", migTable(20000, 19000, 5080), "", ""},
		{"programs on one instance", migTable(20000, 12000, 5080, 6000), "outside_pytorch",
			"2 programs share MIG instance 1 of GPU 0"},
		{"ranks that came to the wrong GPU", strayTable(), "outside_pytorch",
			"2 processes that work on other GPUs hold a CUDA context on GPU 0 as well: 1.20 GiB"},
		{"a healthy run", csv(100, func(i int) string { return fmt.Sprintf("97 %%, %d MiB", min(60000, 20000*i)) }), "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "gpu.csv", text: test.text})
			if test.id == "" {
				if len(doc.Findings) > 0 {
					t.Fatalf("found %+v", doc.Findings)
				}
				return
			}
			if f := found(doc, test.id); f == nil || !strings.Contains(f.Title, test.says) {
				t.Fatalf("found %+v, want %s that says %q", doc.Findings, test.id, test.says)
			} else if test.id == "memory_grows" && (f.Severity == report.Info) != (test.name == "loads") {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestUnlisted warns of memory that nobody listed holds, but not where it may be the run's own.
func TestUnlisted(t *testing.T) {
	table := strings.Replace(logtext.SMI(79000), "|=====",
		"|  No running processes found                                                             |\n|=====", 1)
	for text, want := range map[string]report.Severity{strings.Replace(table, "     98%", "      0%", 1): report.Warning,
		table: report.Info} {
		if f := found(judged(t, input{name: "smi.txt", text: text}), "outside_pytorch"); f == nil || f.Severity != want ||
			!strings.Contains(*f.Fix, "fuser -v /dev/nvidia*") {
			t.Errorf("%+v", f)
		}
	}
}

// TestJobsInTurn: jobs that used a GPU one after the other don't share it, and a
// larger one after a smaller is no growth.
func TestJobsInTurn(t *testing.T) {
	for _, test := range []struct {
		name, text string
		share      bool
	}{
		{"in turn", strings.Repeat(logtext.SMI(20500, "4711 20000"), 2) + logtext.SMI(30500, "5822 30000"), false},
		{"at once", logtext.SMI(20500, "4711 20000") + logtext.SMI(50500, "4711 20000", "5822 30000"), true},
	} {
		f := found(judged(t, input{name: "smi.txt", text: test.text}), "outside_pytorch")
		if (f != nil) != test.share {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
	var dmon strings.Builder
	dmon.WriteString("# gpu     sm     fb\n# Idx      %      MB\n")
	for job := range 8 {
		for range 5 {
			fmt.Fprintf(&dmon, "    0     90  %d\n", 20000+3000*job)
		}
		dmon.WriteString("    0      0      3\n")
	}
	if f := found(judged(t, input{name: "dmon.txt", text: dmon.String()}), "memory_grows"); f != nil {
		t.Errorf("jobs that grow from one to the next: %+v", f)
	}
}

// TestReadings says of GPUs without a finding no more than was read.
func TestReadings(t *testing.T) {
	csv := func(columns string, rows ...string) string {
		return "index, " + columns + "\n" + strings.Join(rows, "\n") + "\n"
	}
	const used = "memory.used [MiB], memory.total [MiB]"
	tests := []struct{ name, text, says string }{
		{"one reading", logtext.SMI(0), "GPU 0 used 0 B of 79.65 GiB in nvidia-smi's only reading"},
		{"several", csv(used, "0, 1024 MiB, 8192 MiB", "0, 2048 MiB, 8192 MiB"), "GPU 0 used at most 2.00 GiB of 8.00 GiB"},
		{"three GPUs", csv(used, "0, 1024 MiB, 8192 MiB", "1, 1024 MiB, 8192 MiB", "2, 1024 MiB, 8192 MiB"),
			"GPU 0 used 1.00 GiB of 8.00 GiB in nvidia-smi's only reading; GPU 1 used 1.00 GiB of 8.00 GiB in nvidia-smi's " +
				"only reading; 1 more GPU in nvidia-smi"},
		{"no memory", csv("power.draw [W]", "0, 90.0 W", "1, 80.0 W", "2, 80.0 W"),
			"3 GPUs without a figure for their memory (--query-gpu=memory.used shows it)"},
		{"rocm-smi's table", "Device  Node  IDs  Temp  Power  SCLK  Fan  PwrCap  VRAM%  GPU%\n=======\n0  2  0x74a1,  28851  " +
			"41.0°C  142.0W  132Mhz  0%  750.0W  91%  99%\n======\n",
			"GPU 0 without a figure for its memory (rocm-smi --showmeminfo vram shows it)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if text := judged(t, input{name: "gpu.csv", text: test.text}).Verdict.Text; text != "No failure found: "+
				test.says {
				t.Errorf("verdict %q", text)
			}
		})
	}
}

// migTable is a GPU in two instances: what is used of the first, and the processes
// on the first, on the second, and on the first again.
func migTable(used int, processes ...int) string {
	text := strings.Replace(logtext.SMI(int64(used+5100)), "| Processes:",
		fmt.Sprintf(`| MIG devices:                                                                            |
|  0    1   0   0  |           %dMiB / 40192MiB    | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 65535MiB    |           |                       |
|  0    5   0   1  |            5100MiB / 19968MiB    | 28      0 |  2   0    1    0    0 |
|                  |               0MiB / 32767MiB    |           |                       |
+-----------------------------------------------------------------------------------------+
| Processes:`, used), 1)
	for i, mib := range processes {
		text += fmt.Sprintf("|    0    %d    0      %10d      C   python                            %7dMiB |\n",
			[...]int{1, 5, 1}[i], 100+i, mib)
	}
	return text
}

// strayTable are the processes of three ranks, all of which were on GPU 0.
func strayTable() string {
	text := logtext.SMI(30000, "100 20000", "101 614", "102 614")
	for gpu := 1; gpu < 3; gpu++ {
		row := fmt.Sprintf("|    %d   N/A  N/A      %10d      C   python                            %7dMiB |\n+----", gpu,
			100+gpu, 20000)
		at := strings.LastIndex(text, "+----")
		at = strings.LastIndex(text[:at], "\n") + 1
		text = text[:at] + row + text[at+len("+----"):]
	}
	return text
}
