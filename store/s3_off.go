//go:build !s3

package store

import (
	"context"
	"net/url"
)

// openS3 is left out: Amazon's client makes the program a quarter larger.
func openS3(context.Context, string, url.Values) (backend, error) {
	return nil, &Error{Cause: "this program was built without S3",
		Advice: "Build it with `go build -tags s3 ./cmd/vramscope`."}
}

func s3Kind(error) error { return nil }

func s3Cause(error) (cause, advice string) { return "", "" }
