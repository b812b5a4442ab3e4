package main

import (
	"fmt"
	"strconv"
	"strings"
)

// maxShards is more than any cluster has.
const maxShards = 1 << 20

// parseShard reads I/N; "" is the only part of one.
func parseShard(text string) (index, count int, err error) {
	if text == "" {
		return 0, 1, nil
	}
	first, second, ok := strings.Cut(text, "/")
	i, err := strconv.ParseUint(first, 10, 32)
	n, err2 := strconv.ParseUint(second, 10, 32)
	if !ok || err != nil || err2 != nil || n == 0 || n > maxShards || i >= n {
		return 0, 0, fmt.Errorf("--shard %q: I/N, the parts being 0/N to N-1/N", text)
	}
	return int(i), int(n), nil
}
