package logs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
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

// watched is the report on what a monitor saw of GPUs, and on nothing else.
func watched(gpus ...evidence.GPU) *report.Document {
	ev := evidence.New()
	for i := range gpus {
		gpus[i].Source = 1
	}
	ev.GPUs = gpus
	return added(ev)
}

// readings are a GPU of 100 GiB, a reading a second.
func readings(count int, at func(i int) evidence.Sample) evidence.GPU {
	g := evidence.GPU{TotalBytes: new(100 * gib), PeakUsedBytes: new(int64(0)), Samples: count}
	for i := range count {
		s := at(i)
		g.Series.Add(s)
		*g.PeakUsedBytes = max(*g.PeakUsedBytes, s.UsedBytes)
	}
	return g
}

// TestFull: from 97 % on a GPU counts as full, or a part of it that MIG made, but not where a
// recording tells more, or where nobody who is listed holds it.
func TestFull(t *testing.T) {
	of := func(used, total int64) evidence.GPU {
		return evidence.GPU{PeakUsedBytes: evidence.Known(used), TotalBytes: evidence.Known(total)}
	}
	instance := func(used, total int64) evidence.GPU {
		return evidence.GPU{Instances: []evidence.Instance{{GI: 3, PeakUsedBytes: used, TotalBytes: total}}}
	}
	unlisted := of(100*gib, 100*gib)
	unlisted.UnlistedBytes = 100 * gib
	for _, test := range []struct {
		name string
		gpu  evidence.GPU
		want bool
	}{
		{"97 of 100", of(97*gib, 100*gib), true}, {"a byte less", of(97*gib-1, 100*gib), false},
		{"more than there is", of(101*gib, 100*gib), true}, {"without the size", of(97*gib, -1), false},
		{"of nothing", of(0, 0), false}, {"without what is used", of(-1, 100*gib), false}, {"held by nobody", unlisted, false},
		{"97 of an instance's 100", instance(97*gib, 100*gib), true}, {"a byte less of it", instance(97*gib-1, 100*gib), false},
		{"an instance of unknown size", instance(97*gib, -1), false}, {"one that shows no use", instance(-1, 100*gib), false},
	} {
		if f := found(watched(test.gpu), "gpu_full"); (f != nil) != test.want || f != nil && f.Severity != report.Warning {
			t.Errorf("%s: %+v", test.name, f)
		}
		ev := evidence.New()
		ev.GPUs = []evidence.GPU{test.gpu}
		if f := found(added(ev, report.Device{}), "gpu_full"); f != nil {
			t.Errorf("%s, beside a recording: %+v", test.name, f)
		}
	}
}

// TestUnlistedAmount: a tenth of the GPU, and a GiB, is worth a word.
func TestUnlistedAmount(t *testing.T) {
	for _, test := range []struct {
		total, unlisted int64
		want            bool
	}{{100 * gib, 10 * gib, true}, {100 * gib, 10*gib - 1, false}, {5 * gib, gib, true}, {5 * gib, gib - 1, false},
		{-1, gib, true}, {-1, gib - 1, false}} {
		g := evidence.GPU{GPU: 2, TotalBytes: evidence.Known(test.total), UnlistedBytes: test.unlisted}
		f := found(watched(g), "outside_pytorch")
		if (f != nil) != test.want || f != nil && (f.Severity != report.Warning || !strings.Contains(f.Title, "GPU 2")) {
			t.Errorf("%+v: %+v", test, f)
		}
	}
}

// TestSharing: programs that hold a twentieth of a GPU each, and a GiB, share it, unless together
// they hold more than it has, or came one after the other.
func TestSharing(t *testing.T) {
	process := func(pid int, bytes int64) evidence.Process {
		return evidence.Process{PID: pid, PeakUsedBytes: evidence.Known(bytes), Instance: -1}
	}
	at := func(p evidence.Process, first, last int) evidence.Process { p.First, p.Last = first, last; return p }
	on := func(p evidence.Process, instance int) evidence.Process { p.Instance = instance; return p }
	many := func(n int) (list []evidence.Process) {
		for i := range n {
			list = append(list, process(i+1, 5*gib))
		}
		return list
	}
	for _, test := range []struct {
		name  string
		total int64
		list  []evidence.Process
		want  int // programs that share it
	}{
		{"one", 100 * gib, many(1), 0}, {"two", 100 * gib, many(2), 2},
		{"one with a byte less than a twentieth", 100 * gib, []evidence.Process{process(1, 5*gib), process(2, 5*gib-1)}, 0},
		{"two with a GiB of a small GPU", 4 * gib, []evidence.Process{process(1, gib), process(2, gib)}, 2},
		{"one with less", 4 * gib, []evidence.Process{process(1, gib), process(2, gib-1)}, 0},
		{"two of a GPU of unknown size", -1, []evidence.Process{process(1, gib), process(2, 500*gib)}, 2},
		{"two with a tenth more than all", 100 * gib, []evidence.Process{process(1, 55*gib), process(2, 55*gib)}, 2},
		{"two with more", 100 * gib, []evidence.Process{process(1, 55*gib), process(2, 55*gib+1)}, 0},
		{"one without a figure", 100 * gib, []evidence.Process{process(1, 5*gib), process(2, -1)}, 0},
		{"in turn", 100 * gib, []evidence.Process{at(process(1, 5*gib), 1, 3), at(process(2, 5*gib), 4, 9)}, 0},
		{"in the same moment", 100 * gib, []evidence.Process{at(process(1, 5*gib), 1, 3), at(process(2, 5*gib), 3, 9)}, 2},
		{"on two instances", 100 * gib, []evidence.Process{on(process(1, 5*gib), 1), on(process(2, 5*gib), 2)}, 0},
		{"on one", 100 * gib, []evidence.Process{on(process(1, 5*gib), 0), on(process(2, 5*gib), 0)}, 2},
		{"eight", 100 * gib, many(8), 8}, {"ten", 100 * gib, many(10), 10},
	} {
		f := found(watched(evidence.GPU{TotalBytes: evidence.Known(test.total), Processes: test.list}), "outside_pytorch")
		if (f != nil) != (test.want > 0) {
			t.Errorf("%s: %+v", test.name, f)
			continue
		}
		if f == nil {
			continue
		}
		if lines := min(test.want, 9); !strings.HasPrefix(f.Title, fmt.Sprintf("%d programs share ", test.want)) ||
			len(f.Evidence) != lines || strings.HasPrefix(f.Evidence[lines-1], "and ") != (test.want > 8) {
			t.Errorf("%s: %s, %q", test.name, f.Title, f.Evidence)
		}
		if strings.Contains(f.Title, "MIG instance 0 ") != (test.name == "on one") {
			t.Errorf("%s: %s", test.name, f.Title)
		}
		ev := evidence.New()
		ev.GPUs = []evidence.GPU{{TotalBytes: evidence.Known(test.total), Processes: test.list}}
		if f := found(added(ev, report.Device{}), "outside_pytorch"); f != nil {
			t.Errorf("%s, beside a recording: %+v", test.name, f)
		}
	}
}

// TestStrays: what a process holds on a GPU beside its own is a bare context from 64 MiB up to a GiB.
func TestStrays(t *testing.T) {
	process := func(pid int, bytes int64) evidence.Process {
		return evidence.Process{PID: pid, PeakUsedBytes: evidence.Known(bytes), Instance: -1}
	}
	for _, test := range []struct {
		name     string
		there    []evidence.Process // on GPU 0; processes 1 and 2 hold 20 GiB of GPU 1
		severity report.Severity
		saves    int64
	}{
		{"none", nil, "", 0},
		{"one", []evidence.Process{process(1, 64*mib)}, report.Info, 64 * mib},
		{"a desktop's", []evidence.Process{process(1, 64*mib-1)}, "", 0},
		{"a large one", []evidence.Process{process(1, gib-1)}, report.Info, gib - 1},
		{"one that works there, too", []evidence.Process{process(1, gib)}, "", 0},
		{"two", []evidence.Process{process(1, 500*mib), process(2, 300*mib)}, report.Warning, 800 * mib},
		{"one that is nowhere else", []evidence.Process{process(9, 500*mib)}, "", 0},
		{"one without a figure", []evidence.Process{process(1, -1)}, "", 0},
	} {
		f := found(watched(evidence.GPU{GPU: 0, Processes: test.there},
			evidence.GPU{GPU: 1, Processes: []evidence.Process{process(1, 20*gib), process(2, 20*gib)}},
			evidence.GPU{GPU: 2}), "outside_pytorch")
		if f != nil && strings.Contains(f.Title, "share") {
			f = nil
		}
		if (f != nil) != (test.severity != "") ||
			f != nil && (f.Severity != test.severity || *f.SavesBytes != test.saves || !strings.Contains(f.Title, "on GPU 0 ")) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}

// TestIdle: held, with nothing computed in half of the readings, and twenty of them.
func TestIdle(t *testing.T) {
	for _, test := range []struct {
		name        string
		held, still int   // readings with memory held, and those of them that compute nothing
		bytes       int64 // held
		want        bool
	}{
		{"half of twenty", 20, 10, 10 * gib, true}, {"half of nineteen", 19, 19, 10 * gib, false},
		{"less than half", 20, 9, 10 * gib, false}, {"less than a tenth held", 20, 20, 10*gib - 1, false},
	} {
		g := readings(test.held+30, func(i int) evidence.Sample {
			switch {
			case i >= test.held:
				return evidence.Sample{UsedBytes: gib} // idle, with nothing held
			case i < test.still:
				return evidence.Sample{UsedBytes: test.bytes}
			}
			return evidence.Sample{UsedBytes: test.bytes, UtilizationPercent: 90}
		})
		if f := found(watched(g), "gpu_idle"); (f != nil) != test.want {
			t.Errorf("%s: %+v", test.name, f)
		}
		g.TotalBytes = nil
		if f := found(watched(g), "gpu_idle"); f != nil {
			t.Errorf("%s of a GPU of unknown size: %+v", test.name, f)
		}
	}
	unknown := readings(40, func(int) evidence.Sample { return evidence.Sample{UsedBytes: 50 * gib, UtilizationPercent: -1} })
	if f := found(watched(unknown), "gpu_idle"); f != nil {
		t.Errorf("without utilisation: %+v", f)
	}
}

// TestMayBeLoading: what grows for less than two minutes, from less than half, may be loading.
func TestMayBeLoading(t *testing.T) {
	for _, test := range []struct {
		name    string
		first   int64 // byte of the readings, which end at 60 GiB
		seconds int   // from the first to the last, 0: no time is told
		count   int
		want    report.Severity
	}{
		{"from half", 30 * gib, 119, 100, report.Warning}, {"from less", 30*gib - 1, 119, 100, report.Info},
		{"for two minutes", 10 * gib, 120, 100, report.Warning},
		{"a reading a second, as it seems", 10 * gib, 0, 119, report.Info},
		{"two minutes of those", 10 * gib, 0, 120, report.Warning},
	} {
		g := readings(test.count, func(i int) evidence.Sample {
			return evidence.Sample{UsedBytes: test.first + (60*gib-test.first)*int64(i)/int64(test.count-1),
				UtilizationPercent: 90}
		})
		if test.seconds > 0 {
			first, last := evidence.LocalStamp(1e15), evidence.LocalStamp(1e15+int64(test.seconds)*1e9)
			g.FirstTime, g.LastTime = &first, &last
		}
		f := found(watched(g), "memory_grows")
		if f == nil || f.Severity != test.want || strings.Contains(f.Evidence[0], " from ") != (test.seconds > 0) {
			t.Errorf("%s: %+v", test.name, f)
		}
	}
}

// TestWatchedFacts: what was seen, where nothing is wrong with it, GPU by GPU.
func TestWatchedFacts(t *testing.T) {
	name := "trainer"
	used := func(gpu int, bytes int64) evidence.GPU {
		return evidence.GPU{GPU: gpu, Samples: 2, PeakUsedBytes: evidence.Known(bytes), TotalBytes: new(100 * gib)}
	}
	instances := func(n int) evidence.GPU {
		g := evidence.GPU{GPU: 1}
		for i := range n {
			g.Instances = append(g.Instances, evidence.Instance{GI: 7 + i, PeakUsedBytes: gib * int64(i), TotalBytes: 10 * gib})
		}
		return g
	}
	held := func(bytes ...int64) evidence.GPU {
		g := evidence.GPU{GPU: 3}
		for i, b := range bytes {
			g.Processes = append(g.Processes, evidence.Process{PID: 40 + i, Name: &name, PeakUsedBytes: evidence.Known(b),
				Instance: -1})
		}
		return g
	}
	partition := used(0, 50*gib)
	partition.Partition = "CPX"
	for _, test := range []struct {
		name string
		gpus []evidence.GPU
		want []string // in this order
		not  string
	}{
		{"one", []evidence.GPU{used(4, 50*gib)}, []string{"GPU 4 ", "50.00 GiB of 100.00 GiB"}, "GPU 0"},
		{"four", []evidence.GPU{used(0, gib), used(1, 2*gib), used(2, 3*gib), used(3, 4*gib)},
			[]string{"1.00 GiB", "2.00 GiB", "2 more GPUs"}, "3.00 GiB"},
		{"a partition", []evidence.GPU{partition, partition}, []string{"CPX", "GPU 0"}, ""},
		{"two instances", []evidence.GPU{instances(2)}, []string{"instance 7", "0 B of 10.00 GiB", "instance 8", "1.00 GiB"},
			"more"},
		{"four instances", []evidence.GPU{instances(4)}, []string{"instance 10", "3.00 GiB of"}, "more"},
		{"six instances", []evidence.GPU{instances(6)}, []string{"instance 10", "2 more instances"}, "instance 11"},
		{"processes without the GPU's own", []evidence.GPU{held(gib/4, gib/2, -1)}, []string{"process 41 (trainer)",
			"512.00 MiB"},
			"process 40"},
		{"processes, the first of which holds most", []evidence.GPU{held(gib/2, gib/2, gib/4)}, []string{"process 40",
			"512.00 MiB"},
			"process 41"},
		{"processes without figures", []evidence.GPU{held(-1, -1)}, []string{"GPU 3", "2 processes"}, "process 40"},
		{"two of which nothing is known", []evidence.GPU{{GPU: 0}, {GPU: 1}}, []string{"2 GPUs without"}, "GPU 1"},
	} {
		text := watched(test.gpus...).Verdict.Text
		for at, rest := 0, text; at < len(test.want); at++ {
			_, after, ok := strings.Cut(rest, test.want[at])
			if !ok || test.not != "" && strings.Contains(text, test.not) {
				t.Errorf("%s: %s", test.name, text)
				break
			}
			rest = after
		}
	}
}
