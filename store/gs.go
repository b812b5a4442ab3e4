//go:build gs

package store

import (
	"context"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
)

// openGS opens a bucket of Google Cloud Storage with the machine's default
// credentials; ?anonymous=true reads a public one without.
func openGS(ctx context.Context, bucket string, params url.Values) (*blob.Bucket, error) {
	anonymous := params.Get("anonymous") == "true"
	params.Del("anonymous")
	for name := range params {
		return nil, &Error{Cause: "unknown query parameter " + name}
	}
	client := gcp.NewAnonymousHTTPClient(gcp.DefaultTransport())
	if !anonymous {
		credentials, err := gcp.DefaultCredentials(ctx)
		if err != nil {
			return nil, err
		}
		if client, err = gcp.NewHTTPClient(gcp.DefaultTransport(), gcp.CredentialsTokenSource(credentials)); err != nil {
			return nil, err
		}
	}
	return gcsblob.OpenBucket(ctx, client, bucket, nil)
}
