//go:build s3

package fakes3

// Tags are those of the build that a test is part of, "" where it knows no store.
const Tags = "s3"
