package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLean: what a browser loads holds nothing of tables, stores, servers and command lines.
func TestLean(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "../../cmd/web")
	list.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages := strings.Fields(string(out))
	own := func(p string) bool { return strings.HasPrefix(p, "github.com/vramscope/vramscope/") } // however they are split
	if others := slices.DeleteFunc(slices.Clone(packages), own); len(others) > 182 {
		t.Errorf("%d packages of others", len(others))
	}
	for _, p := range packages {
		for _, heavy := range []string{"net/http", "crypto/tls", "apache/arrow", "/aws-sdk", "gocloud.dev", "modelcontextprotocol", "spf13/cobra",
			"google/pprof", "vramscope/dataset", "/vramscope/batch"} {
			if strings.Contains(p, heavy) {
				t.Errorf("cmd/web imports %s", p)
			}
		}
	}
}

// TestDamagedOffersTheRest: a recording that was cut off can be read as far as it goes, by a button.
func TestDamagedOffersTheRest(t *testing.T) {
	whole, err := os.ReadFile("../../testdata/recordings/growing_list__step_cache/snapshot_all.pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.pickle.gz")
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	r := Answer(&Request{Inputs: []string{cut}}, Options{})
	if r.Offer != "partial" || r.Error == "" || strings.Contains(r.Advice, "--") {
		t.Errorf("%+v", r)
	}
	r = Answer(&Request{Inputs: []string{cut}, Partial: true}, Options{})
	if r.Error != "" || r.Verdict == "" || strings.Contains(r.Text, "more: -v") {
		t.Errorf("%+v", r)
	}
}

// TestTheVerdictStandsOnce: above the text, which goes on with what comes below it, whatever stands in its paragraph.
func TestTheVerdictStandsOnce(t *testing.T) {
	for _, name := range []string{"evidence/tracker/testdata/made", "evidence/tracker/testdata/made/tensorboard"} {
		r := Answer(&Request{Inputs: []string{"../../" + name}}, Options{})
		if begin := r.Verdict[:min(len(r.Verdict), 30)]; r.Error != "" || r.Text == "" || strings.Contains(r.Text, begin) {
			t.Errorf("%s: %q, then %q", name, r.Verdict, r.Text)
		}
	}
}
