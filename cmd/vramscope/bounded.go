package main

import (
	"bytes"
	"fmt"
	"io"
	"sort"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/internal/bound"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/markdown"
	"github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// boundFlag is --max-bytes.
type boundFlag struct {
	size string
	most int64 // bytes, 0: no bound
}

func (b *boundFlag) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.size, "max-bytes", "",
		"print at most `N` bytes: the most important first, whole items, and what was left out; files are written whole")
}

// check reads the flag.
func (b *boundFlag) check(format string) error {
	if b.size == "" {
		return nil
	}
	n, err := units.Parse(b.size)
	switch {
	case err != nil:
		return fmt.Errorf("--max-bytes: %w", err)
	case n < bound.Least:
		return fmt.Errorf("--max-bytes %s: at least %d, which is an answer in a sentence", b.size, bound.Least)
	case format == "html" || format == "junit" || format == "sarif" || format == "github":
		return fmt.Errorf("--max-bytes is for text, json and markdown: %s is whole, or broken", format)
	}
	b.most = n
	return nil
}

// bounded writes an answer to standard output in at most so many bytes.
func (f *formats[T]) bounded(w io.Writer, o *outputFlags, v T) error {
	var whole bytes.Buffer
	style := o.style(w)
	if err := f.named(o.format, style)(&whole, v); err != nil {
		return err
	}
	if int64(whole.Len()) <= o.bound.most {
		_, err := whole.WriteTo(w)
		return err
	}
	var out []byte
	var err error
	if o.format == "json" {
		shown := any(v)
		if doc, ok := shown.(*report.Document); ok {
			shown = doc.Summary() // the steps that tell most
		}
		out, err = bound.JSON(shown, o.bound.most)
	} else {
		out, err = f.shortened(o, style, v)
	}
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}

// shortened is the longest beginning of a sheet that fits.
func (f *formats[T]) shortened(o *outputFlags, style text.Style, v T) ([]byte, error) {
	edition := f.onTerminal(style)
	if o.format == "markdown" {
		edition = view.Ticket
	}
	sheet := f.sheet(v, edition)
	ask := fmt.Sprintf("--max-bytes %d has twice as much, `vramscope explain` one thing", 2*o.bound.most)
	written := func(items int) []byte {
		var b bytes.Buffer
		cut := sheet.Cut(items, ask)
		if edition == view.Ticket {
			_ = markdown.Write(&b, cut)
		} else {
			_ = text.Write(&b, cut, style)
		}
		return b.Bytes()
	}
	n := sort.Search(sheet.Items(), func(items int) bool { return int64(len(written(items))) > o.bound.most })
	if n == 0 {
		return nil, fmt.Errorf("--max-bytes %s: the verdict alone takes %d bytes", o.bound.size, len(written(0)))
	}
	return written(n - 1), nil
}
