package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shrunk is a file that is said to be longer than it is, as one is that becomes
// shorter after it was opened.
func shrunk(t *testing.T, data []byte, lost int) (*os.File, int64) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.pickle")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, int64(len(data) + lost)
}

// TestFileBecomesShorter: reading a mapped file beyond what is left of it is an
// error, not the end of the program.
func TestFileBecomesShorter(t *testing.T) {
	page := os.Getpagesize()
	for name, c := range map[string]struct{ left, lost int }{
		"by many pages":               {3 * page, 8 << 20},
		"within its last page":        {3 * page, 10 - page},
		"by pages and a part of them": {3*page + 100, 8 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte("\x80\x04}\x94(\x8c\x08segments\x94]\x94\x8c\x0edevice_traces\x94X\x00\x00\x40\x00")
			left := c.left
			if c.lost < 0 { // the zeros behind the end are read as if they were the file's
				left += c.lost
			}
			data = append(data, strings.Repeat("a", left-len(data))...)
			f, size := shrunk(t, data, max(c.lost, -c.lost))
			m := mapFile(f, size)
			if m == nil {
				t.Skip("files aren't mapped here")
			}
			defer m.close()
			err := m.guard(func() error {
				if i := bytes.IndexByte(m.b[len(data):], 0); i >= 0 {
					return errors.New("zeros where the rest should be")
				}
				return nil
			})
			var e *Error
			if !errors.As(err, &e) || e.Offset != int64(len(data)) || !strings.Contains(e.Cause, "became shorter") {
				t.Errorf("%v", err)
			}
			if d := digestFile(f, size); d.sum != "" || d.bytes != size {
				t.Errorf("a digest of what could not be read: %v", d)
			}
		})
	}
}

// TestGuardLetsOthersPass: only faults of the file itself are taken for its end.
func TestGuardLetsOthersPass(t *testing.T) {
	f, size := shrunk(t, make([]byte, 100), 0)
	m := mapFile(f, size)
	if m == nil {
		t.Skip("files aren't mapped here")
	}
	defer m.close()
	for name, read := range map[string]func() error{
		"an index beyond the end": func() error { _ = m.b[len(m.b):][0]; return nil },
		"no pointer":              func() error { var p *int; *p = 1; return nil },
		"a panic":                 func() error { panic("here") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: taken for a fault of the file", name)
				}
			}()
			_ = m.guard(read)
		}()
	}
	if err := m.guard(func() error { return io.ErrClosedPipe }); err != io.ErrClosedPipe {
		t.Errorf("%v", err)
	}
}
