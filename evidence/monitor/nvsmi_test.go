package monitor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

func parse(text string) *Report {
	var p Parser
	for i, line := range bytes.Split([]byte(text), []byte("\n")) {
		p.Line(i+1, line)
	}
	return p.Finish()
}

func TestParseStamp(t *testing.T) {
	tests := []struct{ in, want string }{
		{"2026/07/14 09:00:44.579", "2026-07-14T09:00:44.579"},
		{"2026-07-14 09:00:44", "2026-07-14T09:00:44"},
		{"2026-07-14T09:00:44.579Z", "2026-07-14T09:00:44.579Z"},
		{"2026-07-14T09:00:44+02:00", "2026-07-14T07:00:44Z"},
		{"2024-02-29 23:59:59,5", "2024-02-29T23:59:59.500"},
		{"Tue Jul 14 09:00:44 2026", "2026-07-14T09:00:44"},
		{"Tue Jul 14 09:00:44 UTC 2026", "2026-07-14T09:00:44"},
		{"1762903990", "2025-11-11T23:33:10Z"},
		{"1762903990.25", "2025-11-11T23:33:10.250Z"},
		{"1762903990250", "2025-11-11T23:33:10.250Z"},
		{"04-03-2021 13:32:39", ""}, // April or March
		{"2026-13-01 00:00:00", ""},
		{"12.5", ""},
		{"", ""},
	}
	for _, test := range tests {
		s, ok := parseStamp([]byte(test.in))
		if s.String() != test.want || ok != (test.want != "") {
			t.Errorf("%q is %q (%t), want %q", test.in, s, ok, test.want)
		}
	}
}

func TestColumns(t *testing.T) {
	tests := []struct {
		name string
		want role
		unit float64
	}{
		{"memory.used [MiB]", usedMemory, mib},
		{"memory.reserved [MiB]", reservedMemory, mib},
		{"protected_memory.used [MiB]", other, mib},
		{"utilization.memory [%]", other, mib},
		{"utilization.gpu [%]", utilization, mib},
		{"power.draw [W]", power, mib},
		{"power.limit [W]", other, mib},
		{"power.management", other, mib},
		{"pci.bus_id", gpuBus, mib},
		{"platform.tray_index", other, mib},
		{"GPU", gpuIndex, mib},
		{"mem_used_gb", usedMemory, 1 << 30},
		{"gpu_mem_total_mb", totalMemory, mib},
		{"Memory Max", totalMemory, mib},
		{"vram_used_bytes", usedMemory, 1},
		{"gpu_memory_percent", other, mib},
		{"gpu_util_pct", utilization, mib},
		{"Power Used", power, mib},
		{"cpu_mem_used", other, mib},
		{"time (s)", elapsed, mib},
	}
	if n := testing.AllocsPerRun(10, func() { roleOfWords([]string{"learning"}) }); n > 0 {
		t.Errorf("a name that tells nothing takes %g allocations", n)
	}
	for _, test := range tests {
		c := columnOf([]byte(test.name))
		if c.role != test.want || c.unit != test.unit && test.want != other {
			t.Errorf("%q is %d in units of %g, want %d of %g", test.name, c.role, c.unit, test.want, test.unit)
		}
	}
}

// TestBareCounts: figures without units are memory only where they can be nothing
// else; a percentage, a temperature or an index is none.
func TestBareCounts(t *testing.T) {
	const time, uuid = "2024/05/01 12:00:00.123", "GPU-1111aaaa-2222-3333-4444-555555555555"
	for row, want := range map[string][]role{
		uuid + ", 40000, 81559":                     {gpuUUID, usedMemory, totalMemory},
		uuid + ", 81559, 40000":                     nil, // or a process and its memory
		uuid + ", 1234567, 41235":                   nil,
		uuid + ", 40001, 41919":                     nil, // in use and free, perhaps
		"1234567, /opt/bin/python, 41235 MiB":       {pid, processName, processMemory},
		"12345, 1000 MiB":                           {pid, processMemory},
		"0, 81920 MiB":                              {gpuIndex, totalMemory},
		time + ", 40000, 81920":                     {timestamp, usedMemory, totalMemory},
		time + ", 0, 81920, 40000":                  {timestamp, gpuIndex, totalMemory, usedMemory},
		time + ", 90, 40000":                        nil,
		time + ", NVIDIA H100 80GB HBM3, 40000, 35": nil,
	} {
		columns, ok := bareColumns(splitCells(nil, []byte(row), ','))
		var got []role
		for _, c := range columns {
			if ok {
				got = append(got, c.role)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", row, got, want)
		}
	}
}

// TestBareShapes: each shape is needed by its row.
func TestBareShapes(t *testing.T) {
	all := bareShapes
	defer func() { bareShapes = all }()
	for i := range all {
		cells := splitCells(nil, []byte(all[i].row), ',')
		bareShapes = all
		with, ok := bareColumns(cells)
		bareShapes = slices.Delete(slices.Clone(all), i, i+1)
		if without, okWithout := bareColumns(cells); ok != (all[i].roles != nil || all[i].find != nil) || ok == okWithout && slices.Equal(with, without) {
			t.Errorf("%q is read without its shape: %v", all[i].row, without)
		}
	}
}

// TestForms: a column alone with its header, and the date of a table behind a prefix.
func TestForms(t *testing.T) {
	table := func(prefix, date, used string) string {
		return prefix + date + "\n" + prefix + "| NVIDIA-SMI 550.54.15      Driver Version: 550.54.15    CUDA Version: 12.4 |\n" +
			prefix + "|   0  NVIDIA H100 80GB HBM3     On  |   00000000:01:00.0 Off |      0 |\n" +
			prefix + "| N/A   35C    P0     165W /  700W |  " + used + "MiB /  81559MiB |      0%   Default |\n" + prefix + "+----+\n"
	}
	gpustat := func(used string) string {
		return "node3                      Wed May  1 12:00:01 2024  550.54.15\n[0] NVIDIA A100 | 42°C,  30 %,  98 %,  298 / 400 W |  " + used + " / 81920 MB | me:python/77(900M)\n"
	}
	for name, x := range map[string]struct {
		text    string
		samples int
		first   string
	}{
		"a column alone":              {"memory.used [MiB]\n1000 MiB\n1001 MiB\n", 2, ""},
		"a column alone, no units":    {"memory.used [MiB]\n1000\n1001\n", 2, ""},
		"tables behind a rank":        {table("[rank0]: ", "Wed May  1 12:00:01 2024       ", "1000") + table("[rank0]: ", "Wed May  1 12:00:02 2024       ", "1001"), 2, "2024-05-01T12:00:01"},
		"gpustat":                     {gpustat("1000") + gpustat("1001"), 2, "2024-05-01T12:00:01"},
		"gpustat without its head":    {"[0] Tesla V100 | 42'C,  98 % |  1000 / 16384 MB |\n", 1, ""},
		"tables in a container's log": {table("2024-05-01T12:00:00.1Z stdout F ", "Wed May  1 12:00:01 2024", "1000"), 1, "2024-05-01T12:00:01"},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(x.text)
			if len(r.GPUs) != 1 || r.GPUs[0].Samples != x.samples || *r.GPUs[0].PeakUsedBytes < 1000<<20 {
				t.Fatalf("%+v", r.GPUs)
			}
			if first := r.GPUs[0].FirstTime; x.first != "" && (first == nil || first.String() != x.first) || x.first == "" && first != nil {
				t.Errorf("first reading at %v", first)
			}
		})
	}
	if r := parse("2024/05/01 12:00:00.123, 40000, 90\n"); r.Unnamed != 1 || len(r.GPUs) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestGpustat reads gpustat's processes in the forms of its options, and what is none of its lines.
func TestGpustat(t *testing.T) {
	for line, want := range map[string]string{
		"[0] NVIDIA A100-SXM4-80GB | 42°C,  30 %,  98 % (E:   0 %  D:   0 %),  298 / 400 W | 79012 / 81920 MB | lena:python/1204(60014M) bob(18980M)": "NVIDIA A100-SXM4-80GB 79012 81920 98 1204 python 60014;",
		"[0] Tesla V100 | 42'C,   0 % | 12 / 16384 MB | python/7(5M) a/b/8(6M)":                                                                       "Tesla V100 12 16384 0 7  5;8  6;",
		"[0] Tesla V100 | 42'C,  ?? % | 12 / 16384 MB |":                                                                                              "Tesla V100 12 16384 -1 ",
		"[0] step 3 | 42 C, 98 % | 3 / 10 MBit":                                                                                                       "",
		"[0] NVIDIA A100 | 42'C, 98 % | ?? / 81920 MB |":                                                                                              "",
		"[x] NVIDIA A100 | 42'C, 98 % | 1 / 81920 MB |":                                                                                               "",
	} {
		got := ""
		for _, g := range parse(line).GPUs {
			s := g.Series.Samples[0]
			got += fmt.Sprintf("%s %d %d %v ", evidence.Or(g.Name, ""), s.UsedBytes>>20, evidence.Or(g.TotalBytes, -1)>>20, s.UtilizationPercent)
			for _, p := range g.Processes {
				got += fmt.Sprintf("%d %s %d;", p.PID, evidence.Or(p.Name, ""), evidence.Or(p.PeakUsedBytes, -1)>>20)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestProcessBound: what a stream may make the parser remember doesn't grow with
// its GPUs.
func TestProcessBound(t *testing.T) {
	var p Parser
	p.Line(1, []byte("index, pid, used_gpu_memory [MiB]"))
	for i := range 2 * maxProcesses {
		p.Line(2+i, fmt.Appendf(nil, "%d, %d, 5 MiB", i%4, 1000+i))
	}
	found := 0
	for _, g := range p.Finish().GPUs {
		found += len(g.Processes)
	}
	if found != maxProcesses {
		t.Errorf("%d processes kept", found)
	}
}

func TestSeriesAndProcesses(t *testing.T) {
	r := parse(`timestamp, index, memory.used [MiB], memory.total [MiB], utilization.gpu [%], power.draw [W]
2026/03/04 05:06:07.100, 0, 100 MiB, 8192 MiB, 10 %, 55.5 W
2026/03/04 05:06:08.100, 0, 300 MiB, 8192 MiB, [N/A], [N/A]
index, pid, process_name, used_gpu_memory [MiB]
0, 77, python, 90 MiB
0, 77, python, 80 MiB`)
	g := r.GPUs[0]
	want := []evidence.Sample{{UsedBytes: 100 << 20, UtilizationPercent: 10}, {UsedBytes: 300 << 20, UtilizationPercent: -1}}
	for i, s := range g.Series.Samples {
		s.At = evidence.Stamp{}
		if s != want[i] {
			t.Errorf("sample %d is %+v, want %+v", i, s, want[i])
		}
	}
	if p := g.Processes[0]; *p.PeakUsedBytes != 90<<20 {
		t.Errorf("process %+v", p)
	}
	if d := g.Series.Samples[1].At.Nanoseconds() - g.Series.Samples[0].At.Nanoseconds(); d != 1e9 {
		t.Errorf("%d ns between samples", d)
	}
}

// TestProcessOfNothing takes 0 MiB for what it is: not known.
func TestProcessOfNothing(t *testing.T) {
	r := parse("index, pid, process_name, used_gpu_memory [MiB]\n0, 77, python, 0 MiB\n0, 78, python, 0 MiB\n0, 78, python, 600 MiB\n")
	for i, want := range []int64{Unknown, 600 << 20} {
		if p := r.GPUs[0].Processes[i]; evidence.Or(p.PeakUsedBytes, Unknown) != want {
			t.Errorf("process %d: %v, want %d", p.PID, p.PeakUsedBytes, want)
		}
	}
}

// TestForeignLines puts a table between the lines of other writers.
func TestForeignLines(t *testing.T) {
	table := `Tue Mar  3 08:12:38 2026
| NVIDIA-SMI 570.10   Driver Version: 570.10   CUDA Version: 12.8 |
|   0  NVIDIA L4      On  | 00000000:01:00.0 Off |              0 |
| N/A   52C    P0    30W /  72W |  1024MiB / 23034MiB |  9%  Default |`
	r := parse(strings.ReplaceAll(table, "\n", "\nstep 3 | loss 2.5 | 9.00MiB / 10MiB |\n"))
	if len(r.GPUs) != 1 || *r.GPUs[0].PeakUsedBytes != 1024<<20 || r.Rows[Table] != 1 {
		t.Errorf("%+v", r)
	}
	var others []int
	p := Parser{}
	for i, line := range strings.Split(table+"\nCUDA out of memory\nstep 3 | loss 2.5", "\n") {
		if !p.Line(i+1, []byte("trainer-1  | "+line)) {
			others = append(others, i)
		}
	}
	if !slices.Equal(others, []int{0, 4, 5}) {
		t.Errorf("lines %v are no table's", others)
	}
	if r := parse("|   0  NVIDIA L4      On  | 00000000:01:00.0 Off |\n| N/A 52C P0 30W / 72W | 1024MiB / 23034MiB |"); len(r.GPUs) != 0 {
		t.Errorf("rows without the table's head are %+v", r.GPUs)
	}
}

func TestHostileInput(t *testing.T) {
	inputs := map[string]string{
		"a quote that never closes": "index, name, memory.used [MiB]\n0, \"x, 5 MiB\n" + strings.Repeat("1, y, 6 MiB\n", 50),
		"very many GPUs":            "uuid, memory.used [MiB]\n" + manyRows(20000),
		"very deep XML":             "<nvidia_smi_log>\n<gpu id=\"1\">\n" + strings.Repeat("<a>", 100_000),
		"half a tag":                "<nvidia_smi_log",
		"a process without a GPU":   "==============NVSMI LOG==============\n    Processes\n        Process ID : 5\n",
		"absurd numbers":            "index, memory.used [MiB]\n99999999999999999999, 999999999999999999999 MiB\n",
		"dmon of nothing":           "# gpu pwr gtemp sm mem\n\n#\n- - - - -\n",
		"very many chips":           Forms[NPUSMI].Example + "\n" + manyChips(2*maxChips),
	}
	for name, input := range inputs {
		t.Run(name, func(t *testing.T) {
			var p Parser
			for line := range strings.SplitSeq(input, "\n") {
				p.Line(1, []byte(line))
			}
			chips := len(p.oneRow[NPUSMI].chips)
			if r := p.Finish(); len(r.GPUs) > maxUnits || chips > maxChips || name == "very many chips" && chips < maxChips {
				t.Errorf("%d GPUs, %d chips", len(r.GPUs), chips)
			}
		})
	}
}

func manyRows(n int) string {
	var b strings.Builder
	for i := 0; i < n; i++ {
		b.WriteString("GPU-")
		b.WriteString(strings.Repeat("x", i%50))
		b.WriteByte(byte('a' + i%26))
		b.WriteString(", 5 MiB\n")
	}
	return b.String()
}

func manyChips(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "| %d     Ascend910 | OK           | 150.0     40                0    / 0             |\n"+
			"| %d     0         | 0000:9D:00.0 | 50        0    / 0          4000 / 65536         |\n", i%64, i/64)
	}
	return b.String()
}

func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"timestamp, index, name, memory.used [MiB], memory.total [MiB]\n2026/03/04 05:06:07.100, 0, NVIDIA L4, 100 MiB, 8192 MiB\n",
		"2026/03/04 05:06:07.100, 0, 1500, 24576, 17\n12345, python, 5000 MiB, GPU-6a1b\n",
		"Tue Mar  3 08:12:38 2026\n| NVIDIA-SMI 570.10 |\n|   0  NVIDIA L4  On  | 00000000:01:00.0 Off | 0 |\n| N/A 52C P0 30W / 72W | 1024MiB / 23034MiB | 9% Default |\n| Processes: |\n|    0   N/A  N/A  77  C  python  90MiB |\n",
		"# gpu    fb   sm  pwr\n# Idx    MB    %    W\n    0   239    6   70\n",
		"# gpu  pid  type  sm  mem  command\n    0  77  C  -  -  a b\n",
		"#gpu,,,,,,,,mClk,pClk\n0,,,,,,,,,\n",
		"| NVIDIA-SMI 570.10 |\n|   0  NVIDIA L4  On  | 00000000:01:00.0 Off | 0 |\n| N/A 52C P0 30W / 72W | 1024MiB / 23034MiB | 9% Default |\n| MIG devices: |\n|  0  1  0  0  |  39900MiB / 40192MiB | 42 0 | 3 0 |\n| Processes: |\n| GPU GI CI |\n|  0  1  0  77  C  python  90MiB |\n| No running processes found |\n",
		"==============NVSMI LOG==============\nTimestamp : Wed Mar  4 05:06:07 2026\nGPU 00000000:01:00.0\n    FB Memory Usage\n        Used : 5 MiB\n    Processes\n        Process ID : 5\n            Name : x\n",
		"<nvidia_smi_log><gpu id=\"0:1.0\"><fb_memory_usage><used>5 MiB</used></fb_memory_usage><processes><process_info><pid>5</pid></process_info></processes></gpu></nvidia_smi_log>",
		"Time     GPU%   Mem Used   Mem Total\n     0.5    9.0       1361       8192\n",
		"#Entity   GPUTL   FBUSD   FBTTL\nID\nGPU 0     98      61440   81920\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-1\"} 61440\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 1\n",
		"| AMD-SMI 25.3.0 |\n| 0:5.0 MI3 | 0 W|\n| 0 0 7 | 9 %  1/8 MB|\n| Processes:     |\n| 0 7 py 2 MB 8 GB|\n",
		"│ NVITOP 1.4 │\n│ 0 A │ 0:7:0.0 │ 0 │\n│ N/A 2W / 4W │ 6GiB / 8GiB │ 9% │\n│ Processes: │\n│ GPU PID USER GPU-MEM TIME COMMAND │\n│ 0 77 C me 5GiB 1.5 days python │\n",
		"GPU[0]\t: VRAM Total Memory (B): 8\nGPU[0]\t: VRAM Total Used Memory (B): 7\nDevice VRAM% GPU%\n0 2 0x7 2W 9% 9%\nGPU: 0\n  TOTAL_VRAM: 9 MB\n  USED_VRAM: 8 MB\n",
		"12000 MiB\n12001 MiB\n| N/A 42C P0 298W / 400W | 60000MiB / 81920MiB | 98% Default |\n",
		"[0] NVIDIA A100 | 42'C,  98 %,  298 / 400 W | 79012 / 81920 MB | me:python/12044(60014M)\n",
		"elapsed_sec,gpu_util_pct,mem_used_mb,power_w\n0.1,5,400,\"26.11\n0\"\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := parse(string(data))
		for i, g := range r.GPUs {
			if i > 0 && r.GPUs[i-1].GPU >= g.GPU {
				t.Fatalf("GPU %d after %d", g.GPU, r.GPUs[i-1].GPU)
			}
			if evidence.Or(g.PeakUsedBytes, 0) < 0 || evidence.Or(g.TotalBytes, 0) < 0 || g.Samples < 0 || len(g.Series.Samples) > 2048 {
				t.Fatalf("%+v", g)
			}
		}
	})
}

// TestVersions: the driver's version and CUDA's stand in the heads of the table and of -q.
func TestVersions(t *testing.T) {
	const table = "| NVIDIA-SMI 570.10    Driver Version: 570.10.2    CUDA Version: 12.8 |\n" +
		"|   0  NVIDIA H100 80GB HBM3      On  | 00000000:18:00.0 Off |          0 |\n" +
		"| N/A   31C    P0     70W /  700W |   1024MiB / 81559MiB |      0%      Default |\n"
	const listing = "==============NVSMI LOG==============\n\nTimestamp : Wed Feb 26 01:50:18 2025\n" +
		"Driver Version                            : 570.10.2\nCUDA Version                              : 12.8\n\n" +
		"Attached GPUs                             : 1\nGPU 00000000:18:00.0\n    Product Name : NVIDIA H100\n" +
		"    FB Memory Usage\n        Total : 81559 MiB\n        Used : 1024 MiB\n"
	for name, text := range map[string]string{"table": table, "listing": listing} {
		if g := parse(text).GPUs; len(g) != 1 || g[0].Driver != "570.10.2" || g[0].CUDA != "12.8" {
			t.Errorf("%s: %+v", name, g)
		}
	}
}
