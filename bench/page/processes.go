package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// settle is how long a browser is left alone before its memory is looked at.
const settle = 2 * time.Second

// usage is what the browser's processes have taken.
type usage struct {
	seconds float64 // of the processor
	bytes   int64   // of memory, what several share counted once
}

// used sums up the processes below this one, as Linux tells of them; of others nothing is known.
func used() (sum usage) {
	parents, stats := map[int]int{}, map[int][]string{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		stats[pid] = fields
	}
	for pid := range parents {
		up := parents[pid]
		for up > 1 && up != os.Getpid() {
			up = parents[up]
		}
		if up != os.Getpid() {
			continue
		}
		for _, ticks := range stats[pid][11:13] { // user and system, in hundredths
			n, _ := strconv.Atoi(ticks)
			sum.seconds += float64(n) / 100
		}
		sum.bytes += proportional(pid)
	}
	return sum
}

// proportional is the memory of a process, of shared pages its part.
func proportional(pid int) int64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}
