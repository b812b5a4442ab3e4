package batch

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// BuildOf tells this program from any other version, for Config.Build: by its
// release, or by the program itself where that is "devel".
func BuildOf(release string) (string, error) {
	if release != "devel" {
		return release, nil
	}
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "devel " + hex.EncodeToString(h.Sum(nil)), nil
}

// MachineMemory is how many bytes this process may use: the container's limit
// or the machine's memory, 0 when neither can be told.
func MachineMemory() int64 {
	machine := allMemory()
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (machine == 0 || n < machine) {
			return n // "max" is no number
		}
	}
	return machine
}

// allMemory is the machine's memory, whoever may use it.
func allMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
