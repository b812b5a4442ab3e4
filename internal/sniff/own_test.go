package sniff

import "testing"

// TestIsReport: a report is one from its beginning to its end; a job's log into
// which one was printed stays a log.
func TestIsReport(t *testing.T) {
	report := "74.51 GiB at the peak, in step(); 80.02 GiB on the device with reserve and context\n  llama, 30 layers\n\n" +
		"By phase         peak         end          largest\n  forward          50.76 GiB    50.73 GiB  weights 14.90 GiB\n\n" +
		"Note: a Llama-like decoder is assumed.\nNote: and more.\n"
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"a report", report, true},
		{"one of which only the beginning is looked at", report[:len(report)-20], true},
		{"a log that begins with one", report + "step 1 loss 2.5\nstep 2 loss 2.4\n", false},
		{"a log that ends with one", "step 1 loss 2.5\n\nstep 2 loss 2.4\nstep 3 loss 2.4\n" + report, false},
		{"a page", "<!DOCTYPE html><p>", true},
		{"a document", `{"schema": "vramscope.budget/1"}`, true},
		{"labels", `{"schema": "vramscope.labels/1"}`, false},
		{"a log", "step 1 loss 2.5\n", false},
	} {
		if got := IsReport([]byte(c.text)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
