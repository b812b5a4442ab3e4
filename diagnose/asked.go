package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// Asked is a moment that the user wants to see: a failure, the end, an event, or that of a
// step at which most was allocated.
type Asked struct {
	Failure, End bool
	Event, Step  *int
	Text         string // as it was asked for
}

// asked looks at the moment that the user asks for, where the device has one.
func (e *examination) asked(dev *report.Device) {
	if e.options.At == nil || e.T.Device.Events.Len() == 0 {
		return
	}
	event, ok := e.askedEvent(dev, e.options.At)
	if !ok {
		return
	}
	var l timeline.Levels
	layout := e.T.LayoutAt(event)
	for _, s := range layout.Segments {
		l.Reserved += s.Bytes
	}
	for i, bytes := range e.T.Allocated {
		if e.T.AliveAt(timeline.AllocationID(i), event) {
			l.Allocated += bytes
		}
	}
	m, sites := e.moment(event, l)
	dev.AtEvent, dev.SitesAtEvent = &m, sites
}

func (e *examination) askedEvent(dev *report.Device, a *Asked) (event int, ok bool) {
	switch last := e.T.Device.Events.Len() - 1; {
	case a.Failure && len(dev.OOMs) > 0:
		return dev.OOMs[len(dev.OOMs)-1].Event, true
	case a.End:
		return last, true
	case a.Event != nil:
		return *a.Event, *a.Event <= last
	case a.Step != nil:
		for _, s := range dev.Steps {
			if s.Step != *a.Step {
				continue
			}
			most := int64(-1)
			e.T.WalkAllocated(func(at int, bytes int64) {
				if s.FirstEvent <= at && at <= s.LastEvent && bytes > most {
					event, most = at, bytes
				}
			})
			return event, most >= 0
		}
	}
	return 0, false
}

// unanswered says that no device has the moment that was asked for; nil: one has.
func (o *Options) unanswered(doc *report.Document) error {
	if o.At == nil || len(doc.Devices) == 0 {
		return nil
	}
	for i := range doc.Devices {
		if doc.Devices[i].AtEvent != nil {
			return nil
		}
	}
	d := doc.Fullest()
	switch {
	case o.At.Failure:
		return fmt.Errorf("%s: no request failed in the recording", o.At.Text)
	case o.At.Step != nil && len(d.Steps) > 0:
		return fmt.Errorf("%s: device %d has steps %d to %d", o.At.Text, d.Device, d.Steps[0].Step, d.Steps[len(d.Steps)-1].Step)
	case o.At.Step != nil:
		return fmt.Errorf("%s: no steps are seen in the recording", o.At.Text)
	}
	return fmt.Errorf("%s: device %d has %d events, from 0 on", o.At.Text, d.Device, d.Events)
}
