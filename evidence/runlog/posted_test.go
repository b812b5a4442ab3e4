package runlog

import (
	"testing"

	"github.com/vramscope/vramscope/evidence"
)

// TestPosted: messages as people post them, cut, read from pictures, in the program's own words or only spoken of.
func TestPosted(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, test := range []struct {
		text               string
		asked, free, total int64
	}{
		{"...llocate 896.00 MiB. GPU 0 has a total capacty of 23.50 GiB of which 384.00 MiB is free.", 896 * mib, 384 * mib, 47 * gib / 2},
		{"RuntimeError: CUDA out of memory. Tried to al1ocate 2O.OO MiB (GPU O; 4.OO GiB total capacity; 3.42 GiB already " +
			"allocated; O bytes free; 3.48 GiB reserved in total by PyTorch)", 20 * mib, 0, 4 * gib},
		{"CUDA out of memory. Tried to allocate 2.00 GiB ... retrying with batch size 8\nstep 1 loss 2.5\nstep 2 loss 2.5", 2 * gib, -1, -1},
	} {
		r := parse(test.text)
		if len(r.OOMs) != 1 {
			t.Errorf("%q: %+v", test.text, r.OOMs)
			continue
		}
		m := &r.OOMs[0]
		if asked, free, total := evidence.Or(m.RequestedBytes, -1), evidence.Or(m.DeviceFreeBytes, -1), evidence.Or(m.CapacityBytes,
			-1); asked != test.asked || free != test.free || total != test.total {
			t.Errorf("%q: asked %d, free %d, of %d", test.text, asked, free, total)
		}
		if m.AfterStep >= 0 || test.free < 0 && r.Steps.Count != 2 {
			t.Errorf("%q: after step %d, of %d", test.text, m.AfterStep, r.Steps.Count)
		}
	}
	for _, text := range []string{
		`does anyone know whether "CUDA out of memory" can be caught in torch 2.9?`,
		"| `OOMKilled` (exit code 137) | the container passed its limit | raise it |",
	} {
		if r := parse(text); len(r.OOMs)+len(r.HostFailures)+r.Known > 0 {
			t.Errorf("%q: %+v, %+v", text, r.OOMs, r.HostFailures)
		}
	}
	for text, want := range map[string]evidence.How{
		"./run.sh: line 9: 40122 Killed                  python finetune.py --bf16":                    evidence.Killed,
		"RuntimeError: CUDA error: device-side assert triggered":                                       evidence.Failed,
		"[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE)": evidence.Failed,
		"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  Socket":    evidence.Failed,
		"The word Killed stands in a text\nand nothing ended":                                          "",
	} {
		if r := parse(text); r.Ending.How != want || r.IsTrainingLog() != (want != "") {
			t.Errorf("%q: %q, a log of a run: %t", text, r.Ending.How, r.IsTrainingLog())
		}
	}
}

// TestTraceBelowTensorFlow: a trace below a message that ends in the exhaustion itself is the message's.
func TestTraceBelowTensorFlow(t *testing.T) {
	r := parse("W op_kernel.cc:1844] OP_REQUIRES failed: RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[2,512] and type float " +
		"on /device:GPU:0 by allocator GPU_0_bfc\nTraceback (most recent call last):\n  File \"C:\\Users\\A B\\fit.py\", line 61, in <module>\n" +
		"    model.fit(ds)\ntensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:")
	if len(r.OOMs) != 1 || evidence.Or(r.OOMs[0].UserLine, 0) != 61 {
		t.Errorf("%+v", r.OOMs)
	}
}
