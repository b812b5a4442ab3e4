// Package release has what makes a release; its tests look at what can be looked at without making one.
package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../python/vramscope/__init__.py")
	found := regexp.MustCompile(`(?m)^__version__ = "([^"]+)"$`).FindSubmatch(text)
	if err != nil || found == nil {
		t.Fatalf("no version: %v", err)
	}
	return string(found[1])
}

// TestDescriptions: packagers' files name the version, and the checksum of each archive.
func TestDescriptions(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python")
	}
	out, number := t.TempDir(), version(t)
	sums := map[string]string{}
	for _, name := range []string{".tar.gz", "-linux-x86_64.tar.gz", "-linux-aarch64.tar.gz", "-macos-x86_64.tar.gz", "-macos-arm64.tar.gz", "-windows-amd64.zip"} {
		if err := os.WriteFile(filepath.Join(out, "vramscope-"+number+name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		sums[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}
	if said, err := exec.Command(python, "describe.py", out, number).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for file, of := range map[string][]string{"vramscope.rb": {"-linux-x86_64.tar.gz", "-linux-aarch64.tar.gz", "-macos-x86_64.tar.gz", "-macos-arm64.tar.gz"},
		"flake.nix": {"-linux-x86_64.tar.gz", "-linux-aarch64.tar.gz", "-macos-x86_64.tar.gz", "-macos-arm64.tar.gz"},
		"meta.yaml": {".tar.gz"}, "Containerfile": nil} {
		text, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Error(err)
			continue
		}
		if left := regexp.MustCompile(`@[A-Z0-9_]+@`).Find(text); left != nil || !strings.Contains(string(text), number) {
			t.Errorf("%s has %s, or no version", file, left)
		}
		for _, archive := range of {
			if !strings.Contains(string(text), sums[archive]) {
				t.Errorf("%s lacks the checksum of %s", file, archive)
			}
		}
	}
	// Of a platform that wasn't built nothing is described.
	other := t.TempDir()
	if said, err := exec.Command(python, "describe.py", other, number).CombinedOutput(); err != nil || !strings.Contains(string(said), "vramscope.rb: left out") {
		t.Errorf("%v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(other, "vramscope.rb")); err == nil {
		t.Error("a formula without checksums")
	}
}

// TestTheVersionIsSaidOnce: what else names it names the same, and the changes tell of it.
func TestTheVersionIsSaidOnce(t *testing.T) {
	number := version(t)
	for file, want := range map[string]string{"../CITATION.cff": "\nversion: " + number + "\n", "../CHANGELOG.md": "\n## " + number + "\n"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s doesn't say %q: %v", file, want, err)
		}
	}
}

// TestWorkflowsCallWhatIsThere: each script that a workflow runs exists, and each of its actions has a version.
func TestWorkflowsCallWhatIsThere(t *testing.T) {
	files, _ := filepath.Glob("../.github/workflows/*.yml")
	if len(files) < 2 {
		t.Fatal("no workflows")
	}
	for _, file := range append(files, "../.gitlab-ci.yml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range regexp.MustCompile(`(?m)(?:run: |- |" )((?:\.ci|release)/[a-z]+)`).FindAllSubmatch(text, -1) {
			if st, err := os.Stat("../" + string(script[1])); err != nil || st.Mode()&0o100 == 0 {
				t.Errorf("%s runs %s: %v", file, script[1], err)
			}
		}
		for _, action := range regexp.MustCompile(`uses: (\S+)`).FindAllSubmatch(text, -1) {
			if !strings.Contains(string(action[1]), "@") {
				t.Errorf("%s: %s has no version", file, action[1])
			}
		}
	}
}
