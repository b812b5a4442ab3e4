package ring

import "github.com/vramscope/vramscope/snapshot"

// End lets a program come to its end before the dump: each block that is still in use and that
// isn't held is freed after the device's last event, in the order of the addresses, in place.
func End(d *snapshot.Device, held func(*snapshot.Block) bool) {
	for i := range d.Segments {
		s := &d.Segments[i]
		for k := range s.Blocks {
			b := &s.Blocks[k]
			if b.State != snapshot.ActiveAllocated || held != nil && held(b) {
				continue
			}
			for _, action := range []snapshot.Action{snapshot.FreeRequested, snapshot.FreeCompleted} {
				appendFree(&d.Events, action, b, s)
			}
			less(&s.Allocated, b.Size)
			less(&s.Active, b.Size)
			less(&s.Requested, b.Requested)
			b.State, b.Requested, b.Stack = snapshot.Inactive, 0, 0
		}
	}
}

func less(sum *int64, bytes int64) {
	if *sum >= 0 {
		*sum -= bytes
	}
}

// appendFree appends one event to those columns that there are.
func appendFree(e *snapshot.Events, action snapshot.Action, b *snapshot.Block, s *snapshot.Segment) {
	e.Action, e.Address, e.Size = append(e.Action, action), append(e.Address, b.Address), append(e.Size, b.Requested)
	add(&e.TimeUS, e.TimeOf(e.Len()-2))
	add(&e.Stack, 0)
	add(&e.Stream, s.Stream)
	add(&e.Pool, s.Pool)
	add(&e.CompileContext, 0)
	add(&e.Metadata, 0)
	add(&e.Internal, 0)
	add(&e.ForwardStack, 0)
	add(&e.Category, 0)
}

func add[T any](column *[]T, value T) {
	if *column != nil {
		*column = append(*column, value)
	}
}
