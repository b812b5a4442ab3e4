package html

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// unescape undoes what keeps names from being markup.
var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", `\u003c`, "<", `\u003e`, ">")

var policyElement = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)

// UnsafeHTML writes a page with some of its protection off, to show that the
// tests of it can fail: names as they are, or no policy, so that any script may run.
func UnsafeHTML(w io.Writer, doc *report.Document, unescaped, noPolicy bool) error {
	var out bytes.Buffer
	if err := Document(&out, doc); err != nil {
		return err
	}
	page := strings.TrimSuffix(out.String(), constant().full.elements) // which stay as they are
	if noPolicy {
		page = policyElement.ReplaceAllLiteralString(page, "")
	}
	if unescaped {
		page = unescape.Replace(page)
	}
	_, err := io.WriteString(w, page+constant().full.elements)
	return err
}
