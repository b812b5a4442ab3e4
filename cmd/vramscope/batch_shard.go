package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/batch"
)

// shard is one of several equal parts of a batch.
type shard struct{ index, count uint64 }

// maxShards is more than any cluster has.
const maxShards = 1 << 20

func parseShard(text string) (shard, error) {
	if text == "" {
		return shard{0, 1}, nil
	}
	first, second, ok := strings.Cut(text, "/")
	i, err := strconv.ParseUint(first, 10, 32)
	n, err2 := strconv.ParseUint(second, 10, 32)
	if !ok || err != nil || err2 != nil || n == 0 || n > maxShards || i >= n {
		return shard{}, fmt.Errorf("--shard %q: I/N, the parts being 0/N to N-1/N", text)
	}
	return shard{i, n}, nil
}

// of are the runs of this part. Which part a run belongs to hangs on its place
// alone, so that a run which comes or goes moves no other.
func (s shard) of(runs []batch.Run) []batch.Run {
	if s.count == 1 {
		return runs
	}
	var mine []batch.Run
	for _, r := range runs {
		sum := sha256.Sum256([]byte(r.Place))
		if binary.BigEndian.Uint64(sum[:])%s.count == s.index {
			mine = append(mine, r)
		}
	}
	return mine
}

// buildOf tells this program from any other version: by the release, or by the
// program itself where there is none.
func buildOf() (string, error) {
	if version != "devel" {
		return version, nil
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
