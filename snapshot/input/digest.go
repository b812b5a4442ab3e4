package input

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// digest is what tells a file from another.
type digest struct {
	sum   string // SHA-256, hexadecimal
	bytes int64  // as given, before decompression
}

// beginDigest starts working out a file's digest on another core, unless that
// was done before: it takes as long as decoding.
func (in *Input) beginDigest() {
	if in.Undigested {
		return
	}
	if in.far != nil {
		in.far.wanted = true
	}
	if in.file == nil {
		return
	}
	in.begun.Do(func() {
		go func() {
			if in.Sum != nil {
				if sum := in.Sum(in.Name, in.size()); sum != "" {
					in.digest <- digest{sum, in.size()}
					return
				}
			}
			in.digest <- digestFile(in.file, in.size())
		}()
	})
}

// Digest is the SHA-256 and the number of bytes of the input as given, before
// decompression. Of a stream it is that of what was read. sum is empty where
// the file was left Undigested.
func (in *Input) Digest() (sum string, bytes int64) {
	if in.far != nil {
		sum, bytes = in.far.digest()
		in.failed.passed(in.far.failed)
		return sum, bytes
	}
	if in.sum == nil && in.hash != nil {
		_, _ = io.Copy(io.Discard, in.rest)
		in.sum = &digest{hex.EncodeToString(in.hash.Sum(nil)), in.read}
	}
	if in.sum == nil && in.Undigested && in.file != nil {
		return "", in.size()
	}
	if in.sum == nil {
		in.beginDigest()
		d := <-in.digest
		in.sum = &d
	}
	return in.sum.sum, in.sum.bytes
}

// digestFile reads a file of a size by itself: the decoder is faster. Of what
// can't be read to its end there is no sum.
func digestFile(f *os.File, size int64) digest {
	hash := sha256.New()
	n, err := io.CopyBuffer(hash, io.NewSectionReader(f, 0, 1<<62), make([]byte, 128<<10))
	if err != nil || n < size {
		return digest{"", size}
	}
	return digest{hex.EncodeToString(hash.Sum(nil)), n}
}
