package batch

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/store"
)

const (
	// baseCost is what any run takes, and perByte what each byte of its files
	// adds: a recording with short stacks, which is the worst, takes 2.6 with all
	// that is drawn of it.
	baseCost, perByte = 24 << 20, 3
	// restShare is the part of the other files that stays while the largest is
	// looked at.
	restShare = 8
	// usualRatio is how far pickles compress, where a container doesn't say.
	usualRatio = 12
)

// cost is about how many bytes of memory the analysis of a run needs. A hostile
// file may need more: the decoder, which keeps to MaxMemory, finds out.
func cost(ctx context.Context, run Run, stores *store.Pool) int64 {
	var largest, all int64
	for _, name := range run.Files {
		n := plainSize(ctx, name, stores)
		all += n
		largest = max(largest, n)
	}
	return baseCost + perByte*largest + (all-largest)/restShare // recordings are held one after another
}

// plainSize is the size of what a file holds, uncompressed, as far as its
// container tells.
func plainSize(ctx context.Context, name string, stores *store.Pool) int64 {
	f, err := stores.Read(ctx, name)
	if err != nil {
		return 0
	}
	defer f.Close()
	size := f.Size
	head := make([]byte, min(size, zstd.HeaderMaxSize))
	if _, err := io.ReadFull(f, head); err != nil || len(head) < 4 {
		return size
	}
	switch sniff.Compression(head) {
	case "gzip": // the last four bytes are the size modulo 4 GiB, of the last member
		var last [4]byte
		if _, err := f.ReadAt(last[:], size-4); err != nil || size > 256<<20 {
			return size * usualRatio
		}
		return max(int64(binary.LittleEndian.Uint32(last[:])), size)
	case "zstd":
		var h zstd.Header
		err := h.Decode(head)
		if err == nil && h.Skippable { // the content's frame comes after it, or they are many
			n, _ := f.ReadAt(head, 8+int64(h.SkippableSize))
			err = h.Decode(head[:n])
		}
		if err == nil && h.HasFCS && h.FrameContentSize < 1<<50 {
			return max(int64(h.FrameContentSize), size)
		}
		return size * usualRatio
	case "zip":
		z, err := zip.NewReader(f, size)
		if err != nil {
			break
		}
		if files := sniff.Files(z); len(files) == 1 && files[0].UncompressedSize64 < 1<<50 {
			return max(int64(files[0].UncompressedSize64), size)
		}
	}
	return size
}
