package store

import (
	"context"
	"net/url"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	gcaws "gocloud.dev/aws"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// openS3 opens a bucket of Amazon S3 or of a store that speaks its protocol,
// named by ?endpoint= or AWS_ENDPOINT_URL_S3. Beside what gocloud.dev/aws
// takes there are use_path_style and disable_https.
func openS3(ctx context.Context, bucket string, params url.Values) (*blob.Bucket, error) {
	flag := func(name string, otherwise bool) (bool, error) {
		v := params.Get(name)
		if params.Del(name); v == "" {
			return otherwise, nil
		}
		b, err := strconv.ParseBool(v)
		if err != nil {
			return false, &Error{Cause: "parameter " + name + " is neither true nor false"}
		}
		return b, nil
	}
	plain, err := flag("disable_https", false)
	if err != nil {
		return nil, err
	}
	pathStyle, err := flag("use_path_style", true)
	if err != nil {
		return nil, err
	}
	cfg, err := gcaws.V2ConfigFromURLParams(ctx, params)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // as AWS's command line does; other stores don't mind
	}
	var checksums aws.RequestChecksumCalculation
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.EndpointOptions.DisableHTTPS = plain
		o.DisableLogOutputChecksumValidationSkipped = true // a warning for every object that was stored without
		if o.BaseEndpoint != nil {
			// Stores of others: buckets are seldom hosts, and checksums beyond
			// the protocol's first version are often refused.
			o.UsePathStyle = pathStyle
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
		checksums = o.RequestChecksumCalculation
	})
	return s3blob.OpenBucket(ctx, client, bucket, &s3blob.Options{RequestChecksumCalculation: checksums})
}
