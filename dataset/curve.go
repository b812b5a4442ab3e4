package dataset

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// curve is the rows of Categories that are being made.
type curve struct {
	sink   Sink
	schema *arrow.Schema
	device []int32
	event  []uint32
	bytes  [classify.NumCategories][]int64
	rows   int
}

func newCurve(sink Sink, device int) *curve {
	c := &curve{sink: sink, schema: Categories.Schema(), device: make([]int32, batchRows), event: make([]uint32, batchRows)}
	for i := range c.device {
		c.device[i] = int32(device)
	}
	for k := range c.bytes {
		c.bytes[k] = make([]int64, batchRows)
	}
	return c
}

// add adds a row; timeline.Before is the instant before the first event.
func (c *curve) add(event uint32, held *classify.Held) error {
	c.event[c.rows] = event
	for k := range c.bytes {
		c.bytes[k][c.rows] = held.Bytes[k]
	}
	if c.rows++; c.rows == batchRows {
		return c.flush()
	}
	return nil
}

func (c *curve) flush() error {
	n := c.rows
	if c.rows = 0; n == 0 {
		return nil
	}
	columns := []arrow.Array{arrayOf(int32s, c.device[:n]), arrayWithin(uint32s, c.event[:n], 0, timeline.Before)}
	for k := range c.bytes {
		columns = append(columns, arrayOf(int64s, c.bytes[k][:n]))
	}
	return writeRecord(c.sink, c.schema, columns, n)
}

// categories writes what is allocated in each category after every event that
// changes it, beginning with what is older than the trace.
func (r Recording) categories(sink Sink) error {
	t := r.Timeline
	held := r.Classes.HeldAtStart(t)
	c := newCurve(sink, t.Device.Ordinal)
	if held.Bytes != [classify.NumCategories]int64{} {
		if err := c.add(timeline.Before, held); err != nil {
			return err
		}
	}
	for i := range t.Device.Events.Len() {
		if held.Step(i) {
			if err := c.add(uint32(i), held); err != nil {
				return err
			}
		}
	}
	return c.flush()
}
