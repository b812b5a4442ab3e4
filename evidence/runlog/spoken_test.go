package runlog

import (
	"strings"
	"testing"
)

// TestSpoken: phrases that speak of a failure, and some that do so beside words by which nothing failed.
func TestSpoken(t *testing.T) {
	for _, line := range []string{
		"RuntimeError: out of memory",
		"2024-05-01 ERROR worker 3: out-of-memory in the forward pass",
		"Exception: OutOfMemoryError",
		"the fourth batch OOMed during backward",
		"we ran out of GPU memory at step 12",
		"The job ran out of CUDA memory",
		"ERROR: out of VRAM while decoding",
		"ERROR: out of device memory",
		"Ran out of HBM on chip 0",
		"ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 524288000",
		"ERROR failure to allocate a tensor",
		"error: unable to allocate backend buffer",
		"llama_new_context: unable to create CUDA buffer: allocation refused",
		"ERROR: cannot allocate the key-value cache",
		"could not allocate 4.00 GiB of GPU memory",
		"The engine couldn't allocate its buffer",
		"synapse: device memory allocation failed",
		"hipMalloc: alloc failed on device 1",
		"device allocation failure",
		"ERROR: insufficient memory for this batch",
		"ERROR: insufficient GPU memory",
		"ERROR: insufficient device memory",
		"RuntimeError: not enough memory for the image",
		"ERROR: not enough GPU memory to load the model",
		"Not enough VRAM for this resolution",
		"not enough device memory",
		"fatal: GPU memory exhausted",
	} {
		if r := parse(line); len(r.OOMs) != 1 || !r.OOMs[0].Unclear || r.OOMs[0].Quote != line {
			t.Errorf("%q: %+v", line, r.OOMs)
		}
	}
	for _, line := range []string{
		"|            CUDA OOMs: 2            |        cudaMalloc retries: 1         |",
		"OOM: 0",
		"oom_retries 3",
		"oom-killer score",
		"oom=False",
		`if "out of memory" in str(e):`,
		"if 'out of memory' in str(e):",
		"the OOM killer is off",
		"oom score 300",
		"OOM: none",
		"oom: false",
		"CUDA out of memory errors are common on small GPUs",
		`{"oom": true, "rc": 1}`,
		"{'oom': True}",
		"Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB. The caller indicates that " +
			"this is not a failure, but may mean",
		"try setting max_split_size_mb to avoid fragmentation after OOM",
		"    except torch.cuda.OutOfMemoryError:",
		"    raise OutOfMemoryError()",
		"from torch.cuda import OutOfMemoryError",
		"print('| WARNING: ran out of memory, retrying batch')",
		"logger.warning('ran out of memory')",
		"return isinstance(e, torch.cuda.OutOfMemoryError)",
		"# out of memory is caught below",
		"OutOfMemoryError: out of resource: triton_mm Required: 131072 Hardware limit:101376",
		"LMCache WARNING: Failed to allocate memory for tensor because no memory is available",
		"the classroom has room for 30", "loss 2.1 zoom 3", "We ran out of time", "[pool] bloom filter",
		"nccl_oom_check: true", "echo --oom", "the step does not OOM", "(which does not raise OOM)", "with this it doesn't OOM",
		"all ranks: no OOM", "the small model never OOMs", "it trains without OOM", "use less of it to avoid OOM", "a cap to prevent OOM",
		"emptying the cache solves the OOM issue", "this fixes the OOM", "Fixed an out-of-memory error in the loader", "a guard against OOM",
		"a longer context may OOM", "large images can OOM", "it could OOM later", "it would OOM", "a batch of 8 will OOM",
		"a high value may cause OOM", "a high value may lead to OOM", "in case of OOM lower the batch", "if OOM, lower the batch",
		"lower it if you run into OOM", "If you encounter OOM lower the batch", "An article about running out of memory on a GPU.",
		"RESOURCE_EXHAUSTED means out of memory in JAX", "the risk of OOM", "to reduce OOM", "to handle OOM", "ooms=0, train_wall=10",
		"memory guard on, will reduce the batch size on OOM", "Batch size 64 did not run out of memory", "ooms: 0",
		"what a CUDA out of memory error is", "  --skip-on-oom   skip a batch when the GPU runs out of memory"} {
		if r := parse(line); len(r.OOMs) > 0 {
			t.Errorf("%q: %+v", line, r.OOMs)
		}
	}
}

// TestSpokenAllTheSame: words that deny something else deny no failure.
func TestSpokenAllTheSame(t *testing.T) {
	for _, line := range []string{"the run could not go on after OOM", "worker 3 can't recover from OOM", "Training did not start due to OOM",
		"The process may have run out of memory", "could not go on: out of memory", "it is not the data, we got OOM",
		"the loader died. This may be because the system is out of memory", "ran OOM if that helps anybody", "No luck. OOM again"} {
		if r := parse(line); len(r.OOMs)+len(r.HostFailures) != 1 {
			t.Errorf("%q: %+v", line, r.OOMs)
		}
	}
}

// TestSpokenGivesWay: a message of a known form, and a failure on the host, say more.
func TestSpokenGivesWay(t *testing.T) {
	const spoken = "we got OOM again\n"
	for _, text := range []string{spoken + "RuntimeError: " + message, spoken + "RuntimeError: CUDA error: out of memory",
		spoken + "slurmstepd: error: Detected 1 oom_kill event in StepId=12345.batch."} {
		r := parse(text)
		if len(r.OOMs)+len(r.HostFailures) != 1 || len(r.OOMs) == 1 && r.OOMs[0].Unclear {
			t.Errorf("%q: %+v %+v", text, r.OOMs, r.HostFailures)
		}
	}
	table := "|       PyTorch CUDA memory summary, device ID 0       |\n|     CUDA OOMs: %s     |     cudaMalloc retries: 1     |"
	for n, want := range map[string]int{"0": 0, "1": 1} {
		if r := parse(spoken + strings.Replace(table, "%s", n, 1)); len(r.OOMs) != want {
			t.Errorf("beside a counter of %s: %+v", n, r.OOMs)
		}
	}
	if r := parse("Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding."); !r.OOMs[0].WentOn {
		t.Error("a failure that was recovered from")
	}
}

// TestHeadless: figures of a message without its first words, wherever it is cut.
func TestHeadless(t *testing.T) {
	for _, c := range []struct {
		text                         string
		asked, capacity, free, alloc int64
		backend                      string
	}{
		{"Tried to allocate 216.00 MiB (GPU 0; 8.00 GiB total capacity; 512.00 MiB already allocated; 24.00 MiB free; 1.00 GiB reserved in total by PyTorch)",
			216 << 20, 8 << 30, 24 << 20, 512 << 20, ""},
		{"> Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 48.00 GiB of\n> which 1.50 GiB is free. Of the\n> allocated memory 44.00 GiB is allocated by PyTorch, and 512.00 MiB is\n> reserved by PyTorch but unallocated.",
			5 << 29, 48 << 30, 3 << 29, 44 << 30, ""},
		{"(NPU 3; 60.00 GiB total capacity; 50.00 GiB already allocated; 1.00 GiB free; 57.00 GiB reserved in total by PyTorch)",
			unknown, 60 << 30, 1 << 30, 50 << 30, "NPU"},
		{"... GPU 2 has a total capacity of 24.00 GiB of which 1.00 GiB is free", unknown, 24 << 30, 1 << 30, unknown, ""},
	} {
		r := parse(c.text + "\n")
		if len(r.OOMs) != 1 {
			t.Errorf("%q: %+v", c.text, r.OOMs)
			continue
		}
		m := r.OOMs[0]
		for i, f := range []*int64{m.RequestedBytes, m.CapacityBytes, m.DeviceFreeBytes, m.AllocatedBytes} {
			if want := []int64{c.asked, c.capacity, c.free, c.alloc}[i]; f == nil && want != unknown || f != nil && *f != want {
				t.Errorf("%q: figure %d is %v, want %d", c.text, i, f, want)
			}
		}
		if m.Backend != c.backend {
			t.Errorf("%q: backend %q", c.text, m.Backend)
		}
	}
}
