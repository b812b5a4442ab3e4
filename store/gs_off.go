//go:build !gs

package store

import (
	"context"
	"net/url"
)

// openGS is left out: Google's client would double the size of the program.
func openGS(context.Context, string, url.Values) (backend, error) {
	return nil, &Error{Cause: "this program was built without Google Cloud Storage",
		Advice: "Build it with `go build -tags gs ./cmd/vramscope`."}
}
