//go:build s3

package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// s3Objects are those of a bucket whose names begin with a prefix.
type s3Objects struct {
	client  *s3.Client
	uploads *transfermanager.Client
	bucket  string
	prefix  string       // "" or with a slash at its end
	digests *atomic.Bool // a tag was the digest of what was read
	patience
}

// openS3 opens a bucket of Amazon S3 or of a store that speaks its protocol,
// named by ?endpoint= or AWS_ENDPOINT_URL_S3, with the credentials that AWS's
// own tools would use.
func openS3(ctx context.Context, bucket string, params url.Values) (backend, error) {
	// The client's log is of warnings about objects without checksums and
	// places without credentials; what matters comes back as an error.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	flags := map[string]bool{"anonymous": false, "disable_https": false, "use_path_style": true}
	silence := usualPatience
	for name := range params {
		value := params.Get(name)
		switch name {
		case "region":
			options = append(options, config.WithRegion(value))
		case "profile":
			options = append(options, config.WithSharedConfigProfile(value))
		case "endpoint":
		case "timeout":
			limit, err := time.ParseDuration(value)
			if err != nil || limit <= 0 {
				return nil, &Error{Cause: "parameter timeout is no length of time, such as 30s"}
			}
			silence = patience(limit)
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
	options = append(options, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(silence.limit)))
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1" // as AWS's command line does; other stores don't mind
	}
	var checksums aws.RequestChecksumCalculation
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.Retryer = &retryer{retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = cmp.Or(cfg.RetryMaxAttempts, requestAttempts)
			r.Backoff = retry.BackoffDelayerFunc(waiting)
			r.RateLimiter = ratelimit.None // which would soon give up on a store that refuses often
			r.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(spoilt)}, r.Retryables...)
		})}
		o.EndpointOptions.DisableHTTPS = flags["disable_https"]
		if endpoint := params.Get("endpoint"); endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		if o.BaseEndpoint != nil {
			// Stores of others: buckets are seldom hosts, and checksums beyond
			// the protocol's first version, which has MD5, are often refused.
			o.UsePathStyle = flags["use_path_style"]
			o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
		checksums = o.RequestChecksumCalculation
	})
	uploads := transfermanager.New(client, func(o *transfermanager.Options) { o.RequestChecksumCalculation = checksums })
	return &s3Objects{client: client, uploads: uploads, bucket: bucket, digests: new(atomic.Bool), patience: silence}, nil
}

// rounds is how often a store that is silent is asked.
const rounds = 3

// requestAttempts is how often a request is made that a store refuses for the moment
// or whose answer breaks. What a quarter of all requests meet, one in 60,000 meets eight
// times in a row.
const requestAttempts = 8

// retryer asks again, of a store that is silent only so often.
type retryer struct{ *retry.Standard }

func (r *retryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if attempt >= rounds && isTimeout(err) {
		return 0, err
	}
	return r.Standard.RetryDelay(attempt, err)
}

func waiting(attempt int, _ error) (time.Duration, error) { return backoff(attempt), nil }

// spoilt tells answers that did not come whole, and uploads that didn't arrive as they were sent.
func spoilt(err error) aws.Ternary {
	var unreadable *smithy.DeserializationError
	var api smithy.APIError
	badly := errors.As(err, &api) && api.ErrorCode() == "BadDigest"
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &unreadable) || badly {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

func (o *s3Objects) list(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		// Names as in URLs: XML has no way to write all of their characters.
		pages := s3.NewListObjectsV2Paginator(o.client, &s3.ListObjectsV2Input{Bucket: &o.bucket, Prefix: &o.prefix,
			EncodingType: types.EncodingTypeUrl})
		for pages.HasMorePages() {
			asked, done := o.asking(ctx)
			page, err := pages.NextPage(asked)
			done()
			if err != nil {
				yield(File{}, err)
				return
			}
			for i := range page.Contents {
				f := s3File(page, i)
				f.Name = strings.TrimPrefix(f.Name, o.prefix)
				if !isFolder(f.Name) && !yield(f, nil) {
					return
				}
			}
		}
	}
}

// s3File is an object of a listing by its full name.
func s3File(page *s3.ListObjectsV2Output, i int) File {
	obj := &page.Contents[i]
	name := aws.ToString(obj.Key)
	if page.EncodingType == types.EncodingTypeUrl {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	return File{name, aws.ToInt64(obj.Size), objectVersion(aws.ToInt64(obj.Size), aws.ToTime(obj.LastModified),
		digest(aws.ToString(obj.ETag))), aws.ToTime(obj.LastModified)}
}

// digest is the one that an entity tag is, unless the object was put together
// from parts.
func digest(tag string) []byte {
	md5, err := hex.DecodeString(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
	if err != nil {
		return nil
	}
	return md5
}

// stat lists the names that begin with the one wanted: it is the first of them.
// A listing says more of an object than the object's own headers do.
func (o *s3Objects) stat(ctx context.Context, name string) (File, error) {
	ctx, done := o.asking(ctx)
	defer done()
	page, err := o.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &o.bucket, Prefix: aws.String(o.prefix + name),
		MaxKeys: aws.Int32(1), EncodingType: types.EncodingTypeUrl})
	if err != nil {
		return File{}, err
	}
	if len(page.Contents) == 0 {
		return File{}, errAbsent
	}
	f := s3File(page, 0)
	if f.Name = strings.TrimPrefix(f.Name, o.prefix); f.Name != name {
		return File{}, errAbsent
	}
	return f, nil
}

func (o *s3Objects) open(ctx context.Context, name string, offset, length int64) (*content, error) {
	in := &s3.GetObjectInput{Bucket: &o.bucket, Key: aws.String(o.prefix + name)}
	switch {
	case length >= 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	out, err := o.client.GetObject(ctx, in)
	var response *awshttp.ResponseError
	if offset == 0 && errors.As(err, &response) && response.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable {
		in.Range = nil // there is no first byte
		out, err = o.client.GetObject(ctx, in)
	}
	if err != nil {
		return nil, err
	}
	size := aws.ToInt64(out.ContentLength)
	if _, whole, ok := strings.Cut(aws.ToString(out.ContentRange), "/"); ok { // bytes 0-9/1234
		if size, err = strconv.ParseInt(whole, 10, 64); err != nil {
			out.Body.Close()
			return nil, fmt.Errorf("the range %q isn't one", aws.ToString(out.ContentRange))
		}
	}
	return &content{out.Body, size, aws.ToTime(out.LastModified).String(), plainDigest(out), o.digests}, nil
}

// plainDigest is the digest of an object's bytes, nil where its tag is of what they are encrypted to.
func plainDigest(out *s3.GetObjectOutput) []byte {
	if e := out.ServerSideEncryption; e != "" && e != types.ServerSideEncryptionAes256 || out.SSECustomerAlgorithm != nil {
		return nil
	}
	return digest(aws.ToString(out.ETag))
}

// upload is an object that appears when it is completed, and doesn't when its
// context ends before.
type upload struct {
	*io.PipeWriter
	drop context.CancelFunc
	done chan error
}

func (o *s3Objects) create(ctx context.Context, name string) (sink, error) {
	ctx, drop := context.WithCancel(ctx)
	body, w := io.Pipe()
	u := &upload{w, drop, make(chan error, 1)}
	go func() {
		_, err := o.uploads.UploadObject(ctx, &transfermanager.UploadObjectInput{Bucket: &o.bucket,
			Key: aws.String(o.prefix + name), Body: body, ContentType: aws.String(contentType(name))})
		body.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		u.done <- err
	}()
	return u, nil
}

func (u *upload) commit() error {
	defer u.drop()
	u.Close()
	return <-u.done
}

func (u *upload) abort() error {
	u.drop()
	u.CloseWithError(context.Canceled)
	if err := <-u.done; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (o *s3Objects) remove(ctx context.Context, name string) error {
	ctx, done := o.asking(ctx)
	defer done()
	_, err := o.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &o.bucket, Key: aws.String(o.prefix + name)})
	if kindOf(err) == errAbsent {
		return nil
	}
	return err
}

func (o *s3Objects) sub(name string) backend {
	below := *o
	below.prefix += name + "/"
	return &below
}

func (o *s3Objects) close() error { return nil }

// asking bounds a request whose answer is short, all of its attempts together: with the
// waits between them.
func (p patience) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*rounds*time.Duration(p))
}

// apiCauses are the answers of S3 that people meet, in plain words.
var apiCauses = map[string][2]string{
	"NoSuchBucket": {"no such bucket", ""},
	"NoSuchKey":    {"no such object", ""},
	"NotFound":     {"no such object", ""},
	"AccessDenied": {"access denied",
		"The credentials in use may not do this; `aws sts get-caller-identity` tells whose they are."},
	"Forbidden": {"access denied",
		"The credentials in use may not do this; `aws sts get-caller-identity` tells whose they are."},
	"InvalidAccessKeyId":           {"the access key is not known there", ""},
	"SignatureDoesNotMatch":        {"the secret key does not fit the access key", ""},
	"ExpiredToken":                 {"the credentials have expired", ""},
	"BadDigest":                    {"other bytes arrived there than were sent, each time", ""},
	"PermanentRedirect":            {"the bucket is in another region", "Add ?region=NAME to the URL, or set AWS_REGION."},
	"AuthorizationHeaderMalformed": {"the bucket is in another region", "Add ?region=NAME to the URL, or set AWS_REGION."},
}

// s3Kind is errAbsent or errDenied where S3's answer says that.
func s3Kind(err error) error {
	var api smithy.APIError
	var response *awshttp.ResponseError
	code, status := "", 0
	if errors.As(err, &api) {
		code = api.ErrorCode()
	} else if errors.As(err, &response) { // without a body that names it
		status = response.HTTPStatusCode()
	}
	switch {
	case code == "NoSuchBucket", code == "NoSuchKey", code == "NotFound", status == http.StatusNotFound:
		return errAbsent
	case code == "AccessDenied", code == "Forbidden", status == http.StatusUnauthorized, status == http.StatusForbidden:
		return errDenied
	}
	return nil
}

// s3Cause is S3's answer in words, "" for an error that isn't one.
func s3Cause(err error) (cause, advice string) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return "", ""
	}
	if known, ok := apiCauses[api.ErrorCode()]; ok {
		return known[0], known[1]
	}
	return strings.TrimSuffix(api.ErrorCode()+": "+oneLine(api.ErrorMessage()), ": "), ""
}
