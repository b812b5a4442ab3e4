package snapshot

import "github.com/vramscope/vramscope/internal/pages"

// prepared is how many rows at least are made ready at a time, and how far
// ahead of the decoder.
const prepared = 32 << 10

// prepare has memory put behind the next rows of the columns and of the memo,
// on another core.
func (d *decoder) prepare() {
	if rows := len(d.events.Action); d.rows+prepared > d.readyRows && d.readyRows < rows {
		from, to := max(d.readyRows, d.rows), min(d.rows+2*prepared, rows)
		c := d.events.Slice(from, to)
		go func() {
			pages.Touch(c.Action)
			pages.Touch(c.Address)
			pages.Touch(c.Size)
			pages.Touch(c.TimeUS)
			pages.Touch(c.Stack)
			pages.Touch(c.Stream)
			pages.Touch(c.Pool)
			pages.Touch(c.CompileContext)
			pages.Touch(c.Metadata)
		}()
		d.readyRows = to
	}
	if n := len(d.memo); n+2*prepared > d.readyMemo && d.readyMemo < cap(d.memo) {
		from, to := max(d.readyMemo, n), min(n+4*prepared, cap(d.memo))
		memo := d.memo[from:to:to]
		go pages.Touch(memo)
		d.readyMemo = to
	}
}
