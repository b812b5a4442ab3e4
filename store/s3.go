package store

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// openS3 opens a bucket of Amazon S3 or of a store that speaks its protocol,
// named by ?endpoint= or AWS_ENDPOINT_URL_S3, with the credentials that AWS's
// own tools would use.
func openS3(ctx context.Context, bucket string, params url.Values) (*blob.Bucket, error) {
	// The client's log is of warnings about objects without checksums and
	// places without credentials; what matters comes back as an error.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	flags := map[string]bool{"anonymous": false, "disable_https": false, "use_path_style": true}
	for name := range params {
		value := params.Get(name)
		switch name {
		case "region":
			options = append(options, config.WithRegion(value))
		case "profile":
			options = append(options, config.WithSharedConfigProfile(value))
		case "endpoint":
		default:
			if _, ok := flags[name]; !ok {
				return nil, &Error{Cause: fmt.Sprintf("unknown query parameter %q", name)}
			}
			b, err := strconv.ParseBool(value)
			if err != nil {
				return nil, &Error{Cause: "parameter " + name + " is neither true nor false"}
			}
			flags[name] = b
		}
	}
	if flags["anonymous"] {
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // as AWS's command line does; other stores don't mind
	}
	var checksums aws.RequestChecksumCalculation
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.EndpointOptions.DisableHTTPS = flags["disable_https"]
		if endpoint := params.Get("endpoint"); endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		if o.BaseEndpoint != nil {
			// Stores of others: buckets are seldom hosts, and checksums beyond
			// the protocol's first version are often refused.
			o.UsePathStyle = flags["use_path_style"]
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
		checksums = o.RequestChecksumCalculation
	})
	return s3blob.OpenBucket(ctx, client, bucket, &s3blob.Options{RequestChecksumCalculation: checksums})
}
