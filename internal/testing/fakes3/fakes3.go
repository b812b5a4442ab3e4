// Package fakes3 is an S3 store inside a test.
package fakes3

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is the one bucket there is.
const Bucket = "team"

// Secret is the key that no message may show.
const Secret = "s3cr3t/with+signs"

// Server is a store with one bucket.
type Server struct {
	URL string
	// Before, if set, answers requests in the store's place.
	Before func(w http.ResponseWriter, r *http.Request, store http.Handler)

	backend *s3mem.Backend
}

// Start starts a store and points the environment at it until the test ends. Without
// the tag that brings stores into the program, it skips the test.
func Start(t testing.TB) *Server {
	t.Helper()
	if Tags == "" {
		t.Skip("go test -tags s3 runs this")
	}
	s := &Server{backend: s3mem.New()}
	if err := s.backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(s.backend).Server()
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Before != nil {
			s.Before(w, r, h)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	s.URL = l.URL
	for k, v := range Environment(l.URL) {
		t.Setenv(k, v)
	}
	return s
}

// Environment is what a program needs to use a store at a URL, and no other.
func Environment(url string) map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL_S3": url, "AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": Secret,
		"AWS_REGION":                "us-east-1",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_PROFILE": ""}
}

// Put stores an object.
func (s *Server) Put(t testing.TB, name string, data []byte) {
	t.Helper()
	if _, err := s.backend.PutObject(Bucket, name, map[string]string{}, bytes.NewReader(data), int64(len(data)),
		nil); err != nil {
		t.Fatal(err)
	}
}

// PutFolder stores the files below a folder, below a prefix.
func (s *Server) PutFolder(t testing.TB, prefix, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(folder, name)
		s.Put(t, prefix+"/"+filepath.ToSlash(below), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
