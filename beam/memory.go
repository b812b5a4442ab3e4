package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ownMemory is how many bytes this process may use: the container's limit or
// the machine's memory; 0 when neither can be told.
func ownMemory() int64 {
	machine := machineMemory()
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

func machineMemory() int64 {
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
