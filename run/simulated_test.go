package run

import "testing"

// TestLacks says of a failed try what was asked for and what was free, as PyTorch does.
func TestLacks(t *testing.T) {
	const said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 MiB. GPU 0 has a total capacity of " +
		"23.52 GiB of which 72.44 MiB is free. Including non-PyTorch memory"
	for log, want := range map[string]string{
		"": "",
		"Traceback (most recent call last):\n  File\nValueError: x\n": "",
		"Traceback (most recent call last):\n  File\n" + said + "\n":  "tried to allocate 384.00 MiB, with 72.44 MiB free on the device",
		"Traceback (most recent call last):\n  File\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n": "" +
			"tried to allocate 2.00 GiB.",
	} {
		if got := (&Result{raised: exception(log)}).Lacks(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
