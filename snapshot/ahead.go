package snapshot

import "github.com/vramscope/vramscope/internal/pages"

// lead is how far ahead of the decoder rows are made ready once it has filled so
// many: not far while it isn't known whether there are many.
func lead(filled int) int { return min(max(filled, 4<<10), 32<<10) }

// beforeMore is called before more of the file is made available.
func (o *objects) beforeMore() error {
	err := o.looseValues()
	if err == nil {
		o.prepare()
	}
	return err
}

// prepare has memory put behind the next rows of the columns and of the memo,
// on another core.
func (o *objects) prepare() {
	if rows, more := len(o.events.Action), lead(o.rows); o.rows+more > o.readyRows && o.readyRows < rows {
		from, to := max(o.readyRows, o.rows), min(o.rows+2*more, rows)
		c := o.events.Slice(from, to)
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
		o.readyRows = to
	}
	if n := len(o.memo); n+2*lead(n) > o.readyMemo && o.readyMemo < cap(o.memo) {
		from, to := max(o.readyMemo, n), min(n+4*lead(n), cap(o.memo))
		memo := o.memo[from:to:to]
		go pages.Touch(memo)
		o.readyMemo = to
	}
}
