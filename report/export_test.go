package report

import "io"

// UnsafeHTML writes a page with some of its protection off, to show that the
// tests of it can fail.
func UnsafeHTML(w io.Writer, doc *Document, unescaped, noPolicy bool) error {
	return page{unescaped: unescaped, noPolicy: noPolicy}.write(w, doc)
}
