package filename

import (
	"fmt"
	"slices"
	"testing"
)

// TestParse: names as programs in the wild write them.
func TestParse(t *testing.T) {
	const none = Unknown
	for _, x := range []struct {
		path        string
		rank, local int
		node, world int
		doubtful    bool
		last        bool
		order       []int64
		stem        string
	}{
		{"rank3.pickle", 3, none, none, 0, false, false, nil, ""},
		{"rank_3.pickle", 3, none, none, 0, false, false, nil, ""},
		{"Rank-03.pkl.gz", 3, none, none, 0, false, false, nil, ""},
		{"snapshotRank3.pickle", 3, none, none, 0, false, false, nil, "snapshot"},
		{"rank0_memory_snapshot.pickle", 0, none, none, 0, false, false, nil, "memory_snapshot"},
		{"iteration_20/rank3_memory_snapshot.pickle", 3, none, none, 0, false, false, []int64{20}, "memory_snapshot"},
		{"memory_snapshot/iteration_12_exit/rank1_memory_snapshot.pickle", 1, none, none, 0, false, true, []int64{12}, "memory_snapshot/memory_snapshot"},
		{"memory_snapshot_rank0_step6.pkl", 0, none, none, 0, false, false, []int64{6}, "memory_snapshot"},
		{"oom_rank-5_snapshot.pickle", 5, none, none, 0, false, true, nil, "snapshot"},
		{"oom_memory_snapshot_rank7_step120.pkl", 7, none, none, 0, false, true, []int64{120}, "memory_snapshot"},
		{"memory_snapshot_rank2_t1737512345.25.pickle", 2, none, none, 0, false, false, []int64{1737512345250000}, "memory_snapshot"},
		{"rank_1.1754338790131393427.pt.trace.json", 1, none, none, 0, false, false, []int64{1754338790131393}, ""},
		{"gpu-box17_Jun_10_12_34_56.pickle", none, none, none, 0, false, false, []int64{960640496000000}, "gpu_box_17"},
		{"trn-node4_20240610_123456.pickle", none, none, 4, 0, false, false, []int64{1718022896000000}, "trn"},
		{"cuda-mem-snapshot_20240610-123456-789.pkl", none, none, none, 0, false, false, []int64{1718022896789000}, "cuda_mem_snapshot"},
		{"rank3of8.pickle", 3, none, none, 8, false, false, nil, "of_8"},
		{"global_rank_9.pickle", 9, none, none, 0, false, false, nil, "global"},
		{"node1_local_rank_3.pickle", none, 3, 1, 0, false, false, nil, "local"},
		{"node1/gpu3.pickle", none, 3, 1, 0, false, false, nil, ""},
		{"logs/run_x/attempt_0/3/stderr.log", none, 3, none, 0, false, false, nil, "logs/run_x/attempt_0/stderr"},
		{"dp_rank_2_tp_rank_1.pickle", none, none, none, 0, false, false, nil, "dp_rank_2_tp_rank_1"},
		{"snapshot_r3.pickle", 3, none, none, 0, true, false, nil, "snapshot"},
		{"deepseek-r1-snapshot.pickle", 1, none, none, 0, true, false, nil, "deepseek_snapshot"},
		{"lora_rank16.pickle", 16, none, none, 0, true, false, nil, "lora"},
		{"rank16_sweep/snapshot.pickle", 16, none, none, 0, true, false, nil, "sweep/snapshot"},
		{"fsdp2__llama_rank0/snapshot_all.pickle.gz", 0, none, none, 0, false, false, nil, "fsdp_2_llama/snapshot_all"},
		{"ranks8_snapshot.pickle", none, none, none, 0, false, false, nil, "ranks_8_snapshot"},
		{"crank3.pickle", none, none, none, 0, false, false, nil, "crank_3"},
		{"gpu_memory_snapshot-adam.pickle", none, none, none, 0, false, false, nil, "gpu_memory_snapshot_adam"},
		{"rank99999999999999999999.pickle", none, none, none, 0, false, false, nil, "rank_99999999999999999999"},
		{"snapshot_3.pickle", none, none, none, 0, false, false, nil, "snapshot_3"},
		{"pid9388-1-exit.pickle.gz", none, none, none, 0, false, true, []int64{1}, "pid_9388"},
		{"rank3-pid9388-0-oom.pickle.gz", 3, none, none, 0, false, true, []int64{0}, "pid_9388"},
		{`C:\runs\rank2\snapshot.pickle`, 2, none, none, 0, false, false, nil, "c/runs/snapshot"},
		{"", none, none, none, 0, false, false, nil, ""},
	} {
		t.Run(x.path, func(t *testing.T) {
			n := Parse(x.path)
			got := fmt.Sprint(n.Rank, n.Local, n.Node, n.World, n.Doubtful, n.Last, n.Order, n.Stem)
			if want := fmt.Sprint(x.rank, x.local, x.node, x.world, x.doubtful, x.last, x.order, x.stem); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestShape(t *testing.T) {
	a, b := Parse("runs/mem_0.pickle"), Parse("runs/mem_17.pickle")
	if a.Shape != b.Shape || !slices.Equal(b.Numbers, []int64{17}) {
		t.Errorf("%q %v, %q %v", a.Shape, a.Numbers, b.Shape, b.Numbers)
	}
}

func TestCompareOrdersDumps(t *testing.T) {
	names := []string{"iteration_9/rank0.pickle", "iteration_10/rank0.pickle", "iteration_10_exit/rank0.pickle", "iteration_100/rank0.pickle"}
	for i := range names[1:] {
		if Compare(Parse(names[i]), Parse(names[i+1])) >= 0 {
			t.Errorf("%s is not before %s", names[i], names[i+1])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"iteration_12_exit/rank1_memory_snapshot.pickle", "h_Jun_10_12_34_56.pickle", "t1737512345.1.pt", "rank", "rank0of", "r1/r2\\r3", "20240610T1234"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := Parse(s)
		if n.Rank >= maxRank || n.Rank < Unknown || n.Local < Unknown || n.Node < Unknown || n.World < 0 {
			t.Errorf("%q: %+v", s, n)
		}
	})
}

// TestWithoutEndings: those of files, not of folders, and never a whole name.
func TestWithoutEndings(t *testing.T) {
	for name, want := range map[string]string{"a.pickle.gz": "a", "d.log/A.JSONL.ZST": "d.log/A", "rank0.labels.json": "rank0", "v1.5.pt": "v1.5", ".log": ".log",
		"out.err": "out", "x.pt.trace.json": "x.pt.trace", "x.bin": "x.bin", "": ""} {
		if got := WithoutEndings(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if n := Parse("rank3.pt.trace.json"); n.Rank != 3 || n.Stem != "" {
		t.Errorf("%+v", n)
	}
}
