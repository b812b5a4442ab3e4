//go:build !s3

package store_test

import (
	"context"
	"testing"

	"github.com/vramscope/vramscope/store"
)

// TestWithoutS3 says how to get it, whatever is asked of a bucket.
func TestWithoutS3(t *testing.T) {
	const want = "s3://team/x: this program was built without S3\nBuild it with `go build -tags s3 ./cmd/vramscope`."
	if _, err := store.Open(context.Background(), "s3://team/x?region=eu-west-1"); err == nil || err.Error() != want {
		t.Errorf("error is %v", err)
	}
	var pool store.Pool
	defer pool.Close()
	if _, err := pool.Read(context.Background(), "s3://team/x/a.pickle"); err == nil {
		t.Error("an object was read")
	}
}
