package oom_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence/read"
	"github.com/vramscope/vramscope/report"
)

// judge judges the only message of a log.
func judge(t *testing.T, log string) oom.Failure {
	t.Helper()
	_, found, err := read.Evidence(strings.NewReader(log), "train.log", 0)
	if err != nil || len(found.OOMMessages) != 1 {
		t.Fatalf("%v, %+v", err, found)
	}
	return oom.Judge(&found.OOMMessages[0])
}

// TestFragmentationOfMessage claims no saving that only a replay could tell.
func TestFragmentationOfMessage(t *testing.T) {
	f := judge(t, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.53 "+
		"GiB. GPU 0 has a total capacity of 79.10 GiB of which 1004.94 MiB is free. "+
		"Including non-PyTorch memory, this process has 78.12 GiB memory in use. Of the allocated memory 53.47 GiB is "+
		"allocated by PyTorch, and 24.14 GiB is reserved by PyTorch but unallocated.\n")
	if f.Cause != report.Fragmentation || f.Saves != 0 || !strings.Contains(f.Change(), "up to 24.14 GiB") {
		t.Errorf("%+v: %s", f, f.Change())
	}
}

// TestToolsOfTheMaker sends nobody with an AMD GPU to nvidia-smi.
func TestToolsOfTheMaker(t *testing.T) {
	for backend, want := range map[string]string{
		"HIP":  "Find the other processes with rocm-smi --showpids and stop them, or move to a free GPU (HIP_VISIBLE_DEVICES)",
		"CUDA": "Find the other processes with nvidia-smi and stop them, or move to a free GPU (CUDA_VISIBLE_DEVICES)",
	} {
		f := judge(t, "torch.OutOfMemoryError: "+backend+
			" out of memory. Tried to allocate 978.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 630.00 MiB is "+
			"free. "+
			"Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.\n")
		if f.Change() != want {
			t.Errorf("%s: %s", backend, f.Change())
		}
	}
}
