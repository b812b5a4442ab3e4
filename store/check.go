package store

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"hash"
	"io"
	"sync/atomic"
)

// check compares what is read of an object, from its beginning to its end, with the digest that the store told.
type check struct {
	want []byte
	size int64
	sum  hash.Hash
	upTo int64        // bytes that sum has seen
	meet *atomic.Bool // whether a digest of this store was right once
}

var errSpoilt = errors.New("other bytes came than the store's digest is of")

// newCheck is nil for an object without a digest.
func newCheck(c *content) *check {
	if len(c.md5) != md5.Size {
		return nil
	}
	return &check{want: c.md5, size: c.size, sum: md5.New(), meet: c.meet}
}

// saw takes bytes from an offset on; whole says that these were the last. What is read again, or behind a jump, isn't
// looked at.
func (c *check) saw(b []byte, offset int64) (whole bool) {
	if c == nil || offset > c.upTo || offset+int64(len(b)) <= c.upTo {
		return false
	}
	b = b[c.upTo-offset:]
	c.sum.Write(b)
	c.upTo += int64(len(b))
	return c.upTo == c.size
}

// differs says whether what came is other than what lies there. A tag that looks like a digest may be none, as some
// stores encrypt or compress: where none was right yet, a second reading then brings the same bytes as the first.
func (c *check) differs(ctx context.Context, p *Place, name string) error {
	first := c.sum.Sum(nil)
	if bytes.Equal(first, c.want) {
		c.meet.Store(true)
		return nil
	} else if c.meet.Load() {
		return errSpoilt
	}
	again, err := p.backend.open(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	defer again.Close()
	second := md5.New()
	if _, err := io.Copy(second, again); err != nil {
		return err
	}
	if !bytes.Equal(second.Sum(nil), first) {
		return errSpoilt
	}
	return nil
}
