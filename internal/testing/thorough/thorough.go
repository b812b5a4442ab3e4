// Package thorough keeps tests that take long from a developer's every run.
package thorough

import (
	"os"
	"testing"
)

// Flag is the variable that has such tests run; CI, which sets its own, always does.
const Flag = "VRAMSCOPE_THOROUGH"

// Only skips a test that takes seconds of a browser or more, unless somebody asks for it.
func Only(t testing.TB) {
	t.Helper()
	if os.Getenv(Flag) == "" && os.Getenv("CI") != "true" {
		t.Skip(Flag + "=1 runs this, as CI does")
	}
}
