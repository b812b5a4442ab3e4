package snapshot

import "github.com/vramscope/vramscope/internal/pages"

// lead is how far ahead of the decoder rows are made ready once it has filled so
// many: not far while it isn't known whether there are many.
func lead(filled int) int { return min(max(filled, 4<<10), 32<<10) }

// prepare has memory put behind the next rows of the columns and of the memo,
// on another core.
func (d *decoder) prepare() {
	if rows, more := len(d.events.Action), lead(d.rows); d.rows+more > d.readyRows && d.readyRows < rows {
		from, to := max(d.readyRows, d.rows), min(d.rows+2*more, rows)
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
	if n := len(d.memo); n+2*lead(n) > d.readyMemo && d.readyMemo < cap(d.memo) {
		from, to := max(d.readyMemo, n), min(n+4*lead(n), cap(d.memo))
		memo := d.memo[from:to:to]
		go pages.Touch(memo)
		d.readyMemo = to
	}
}
