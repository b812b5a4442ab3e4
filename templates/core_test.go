package templates_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestCore runs the tests of the script's parts that know no document.
func TestCore(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no node to run scripts with (Debian: apt-get install nodejs)")
	}
	if out, err := exec.Command(node, "--test", "test/core.test.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
