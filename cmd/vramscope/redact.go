package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/vramscope/vramscope/redact"
)

const redactHelp = "pseudonyms for paths, users' functions, annotations, titles and notes; VRAMSCOPE_REDACT_KEY makes them your own"

func newRedactor() *redact.Redactor { return redact.New(os.Getenv("VRAMSCOPE_REDACT_KEY")) }

// redactError takes the names of files out of an error's message, which may
// end in a log that others read.
func redactError(redacted bool, err error, paths ...string) error {
	var condition *conditionError
	if !redacted || err == nil || errors.As(err, &condition) {
		return err
	}
	for _, p := range paths {
		if dir := filepath.Dir(p); dir != "." && dir != "/" {
			paths = append(paths, dir+"/") // a temporary file beside it may be what is named
		}
	}
	return errors.New(newRedactor().Error(err.Error(), paths...))
}
