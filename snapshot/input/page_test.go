package input

import (
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const pageBegins = "<!DOCTYPE html>\n<html>\n<body>\n<script type=\"module\">\nimport {add_local_files} from \"MemoryViz.js\"\n" +
	"const local_files = [{\"name\": \"a.pickle\", \"base64\": \""
const pageEnds = "\"}]\nadd_local_files(local_files, 'Active Memory Timeline')\n</script>\n</html>"

func pageOf(content string) string {
	return pageBegins + base64.StdEncoding.EncodeToString([]byte(content)) + pageEnds
}

// TestPage: what is within a page is read as a file of its own, however its bytes
// come; a page that is cut off is told from one that ends.
func TestPage(t *testing.T) {
	for _, content := range []string{"", "x", "\x80\x04.", strings.Repeat("snapshot ", 100_000)} {
		in, err := Read("x", iotest.HalfReader(strings.NewReader(pageOf(content))))
		if err != nil || in.Compression != page {
			t.Fatalf("%d bytes: %q, %v", len(content), in.Compression, err)
		}
		c, _, err := in.Content()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != content {
			t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
		}
	}
	whole := pageOf(strings.Repeat("snapshot", 100))
	for _, test := range []struct{ name, text string }{
		{"cut off", whole[:len(pageBegins)+101]}, {"damaged", strings.Replace(whole, "c25h", "c2.h", 1)}} {
		in, _ := Read("x", strings.NewReader(test.text))
		c, _, err := in.Content()
		if err == nil {
			_, err = io.ReadAll(c)
		}
		if err == nil || test.name == "cut off" && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for _, text := range []string{"<html><script>const local_files = []</script></html>", "<p>\"base64\": \"\"", "<", "a < b local_files \"base64\": \""} {
		if in, err := Read("x", strings.NewReader(text)); err != nil || in.Compression != "" {
			t.Errorf("%q: %q, %v", text, in.Compression, err)
		}
	}
}

func FuzzPage(f *testing.F) {
	f.Add(pageOf("snapshot"))
	f.Add(pageBegins)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := Read("x", strings.NewReader(text))
		if err != nil || in.Compression != page {
			return
		}
		if c, _, err := in.Content(); err == nil {
			if n, _ := io.Copy(io.Discard, c); n > int64(len(text)) {
				t.Errorf("%d bytes out of %d", n, len(text))
			}
		}
	})
}
