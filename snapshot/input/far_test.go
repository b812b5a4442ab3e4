package input

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

// object counts the requests that reading it in a store would take.
type object struct {
	*bytes.Reader
	requests int
	at, read int64
	breaks   int64 // reading beyond fails
	closed   bool
}

func (o *object) Read(b []byte) (int, error) {
	at, _ := o.Seek(0, io.SeekCurrent)
	if o.requests == 0 || at != o.at {
		o.requests++
	}
	if o.breaks > 0 && at+int64(len(b)) > o.breaks {
		return 0, errors.New("the line went dead")
	}
	n, err := o.Reader.Read(b)
	o.at, o.read = at+int64(n), o.read+int64(n)
	return n, err
}

func (o *object) Close() error { o.closed = true; return nil }

// TestFarInput reads an object of a store as it reads a file, in one request.
func TestFar(t *testing.T) {
	const name = "../../testdata/recordings/qwen_vocab_oom__05b/snapshot_all.pickle.gz"
	file, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := file.Content()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	o := &object{Reader: bytes.NewReader(data)}
	in, err := Far("s3://b/a", o)
	if err != nil {
		t.Fatal(err)
	}
	head, err := in.Head(1000)
	if err != nil || len(head) != 1000 {
		t.Errorf("a look at it: %d bytes, %v", len(head), err)
	}
	if sum, n := in.Digest(); sum != "" || n != int64(len(data)) || o.read > farHead {
		t.Errorf("only looked at: digest %q of %d bytes, %d read", sum, n, o.read)
	}
	if c, _, err = in.Content(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other content than the file's: %v", err)
	}
	if err := in.Close(); err != nil || !o.closed {
		t.Errorf("closed: %v, %v", o.closed, err)
	}
	digest := sha256.Sum256(data)
	if sum, n := in.Digest(); sum != hex.EncodeToString(digest[:]) || n != int64(len(data)) {
		t.Errorf("digest %s of %d bytes", sum, n)
	}
	if o.requests != 1 || o.read != int64(len(data)) {
		t.Errorf("%d requests for %d of %d bytes", o.requests, o.read, len(data))
	}
}

// TestFarZip reads a zip's directory at its end and no more than it must.
func TestFarZip(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range []struct {
		name string
		size int
	}{{"m/data.pkl", 10}, {"m/data/0", 1 << 20}} {
		e, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store})
		if err == nil {
			_, err = e.Write(make([]byte, f.size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	o := &object{Reader: bytes.NewReader(b.Bytes())}
	in, err := Far("s3://b/model.pt", o)
	if err != nil {
		t.Fatal(err)
	}
	if !in.IsCheckpoint() || o.read > 3*farHead {
		t.Errorf("checkpoint %v, told with %d bytes of %d", in.IsCheckpoint(), o.read, o.Size())
	}
}

func TestFarInputThatBreaks(t *testing.T) {
	for _, at := range []int64{1, 100_000} {
		o := &object{Reader: bytes.NewReader(bytes.Repeat([]byte{0x80, 4, '('}, 100_000)), breaks: at}
		in, err := Far("s3://b/a", o)
		if err == nil {
			var c io.ReadCloser
			if c, _, err = in.Content(); err == nil {
				_, err = io.Copy(io.Discard, c)
			}
			in.Close()
			if sum, _ := in.Digest(); sum != "" {
				t.Errorf("digest %s of what can't be read", sum)
			}
		}
		if err == nil || !strings.Contains(err.Error(), "the line went dead") || !o.closed {
			t.Errorf("broken at %d: closed %v, %v", at, o.closed, err)
		}
	}
}
