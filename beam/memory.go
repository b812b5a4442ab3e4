package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/batch"
)

// ownMemory is how many bytes this process may use: the container's limit or
// the machine's memory; 0 when neither can be told.
func ownMemory() int64 {
	machine := batch.MachineMemory()
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
