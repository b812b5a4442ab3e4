// Package answers writes what analyze and diff answer, for the command line and for a browser's tab alike.
package answers

import (
	"errors"
	"io"

	"github.com/vramscope/vramscope/diff"
	"github.com/vramscope/vramscope/internal/bound"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/view"
)

// DeviceBytes is how long the JSON of a report may be for each device.
const DeviceBytes = 40_000

const mostDevices = 64 // that it may be longer for

// JSON writes a report as JSON with the steps that tell most, and no longer than somebody reads.
func JSON(w io.Writer, doc *report.Document) error {
	shown := doc.Summary()
	out, err := bound.JSON(shown, DeviceBytes*int64(min(max(1, len(doc.Devices)), mostDevices)))
	if long := (*bound.TooLongError)(nil); errors.As(err, &long) { // nobody asked for this number
		out, err = bound.JSON(shown, long.Shortest)
	}
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}

// Comparison gives the writer of a comparison's page with both recordings over time, where both have a history.
func Comparison(before, after *report.Document) func(io.Writer, *report.Diff) error {
	return func(w io.Writer, d *report.Diff) error {
		a, b, sheet := before.Fullest(), after.Fullest(), view.Diff(d, view.Ticket)
		if a.Pictures == nil || b.Pictures == nil || a.Events < 2 || b.Events < 2 {
			return html.Sheet(w, sheet)
		}
		return html.Comparison(w, sheet, &html.Compared{Before: a, After: b, Names: [2]string{d.Before.Path, d.After.Path},
			Steps: d.Steps, Sites: diff.Pairs(a.Pictures.Sites, b.Pictures.Sites), Frames: diff.Frames(a.Pictures, b.Pictures)})
	}
}
