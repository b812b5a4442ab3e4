package read

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostList takes Ray's list of what processes hold on the host for no GPU's.
func TestHostList(t *testing.T) {
	const list = "step 1 loss 2.5\nTop 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n2232\t141.20\tray::RayTrainWorker\n900\t12.10\tpython\n"
	if _, ev, err := Evidence(strings.NewReader(list), "x.log", 0); err != nil || len(ev.GPUs) > 0 {
		t.Errorf("%+v, %v", ev, err)
	}
	const apps = "pid, process_name, used_memory [MiB]\n4711, python, 20000 MiB\n"
	if _, ev, err := Evidence(strings.NewReader(apps), "x.csv", 0); err != nil || len(ev.GPUs) != 1 {
		t.Errorf("%+v, %v", ev, err)
	}
}

// TestOneStepOnTwoLines joins what DeepSpeed says of a step: its rate first, what it held below.
func TestOneStepOnTwoLines(t *testing.T) {
	var b strings.Builder
	for i := 10; i <= 100; i += 10 {
		fmt.Fprintf(&b, "[2026-11-27 22:00:%02d,010] [INFO] [logging.py:128:log_dist] [Rank 0] step=%d, skipped=0, lr=[1e-05]\n", i%60, i)
		fmt.Fprintf(&b, "[2026-11-27 22:00:%02d,011] [INFO] [timer.py:264:stop] epoch=0/micro_step=%d/global_step=%d, "+
			"CurrSamplesPerSec=85.4, MemAllocated=%dGB, MaxMemAllocated=%dGB\n", i%60, 8*i, i, 20+i/10, 30+i/10)
	}
	_, ev, err := Evidence(strings.NewReader(b.String()), "x.log", 0)
	if err != nil || ev.Steps[0].Count != 10 {
		t.Fatalf("%+v, %v", ev.Steps, err)
	}
	for i, s := range ev.Steps[0].Curve {
		if want := int64(31+i) << 30; s.AllocatedBytes != want {
			t.Errorf("step %d held %d, want %d", s.Number, s.AllocatedBytes, want)
		}
	}
}

// TestRanksOfOneStep keeps the rank that held most.
func TestRanksOfOneStep(t *testing.T) {
	var b strings.Builder
	for i := range 20 {
		for _, rank := range []int{i % 3, (i + 1) % 3, (i + 2) % 3} {
			fmt.Fprintf(&b, "[rank%d]: step %d loss 2.5 mem %d GiB\n", rank, i, 10+rank)
		}
	}
	_, ev, err := Evidence(strings.NewReader(b.String()), "x.log", 0)
	if err != nil || ev.Steps[0].Count != 20 {
		t.Fatalf("%+v, %v", ev.Steps, err)
	}
	for _, s := range ev.Steps[0].Curve {
		if s.AllocatedBytes != 12<<30 {
			t.Errorf("step %d held %d", s.Number, s.AllocatedBytes)
		}
	}
}
