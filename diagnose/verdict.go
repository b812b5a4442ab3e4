package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/report"
)

// verdict is the whole report in one sentence.
func verdict(doc *report.Document) report.Verdict {
	if len(doc.Devices) == 0 {
		return noDevices(doc)
	}
	for i := range doc.Devices {
		if d := &doc.Devices[i]; len(d.OOMs) > 0 {
			return oomVerdict(d)
		}
	}
	main := &doc.Devices[0]
	for i := range doc.Devices {
		if d := &doc.Devices[i]; d.Peaks.Allocated.Bytes > main.Peaks.Allocated.Bytes {
			main = d
		}
	}
	v := report.Verdict{Severity: report.Info}
	where := ""
	if len(doc.Devices) > 1 {
		where = fmt.Sprintf(" on device %d, the fullest of %d", main.Device, len(doc.Devices))
	}
	switch {
	case main.History == "none":
		v.Severity = report.Warning
		v.Text = fmt.Sprintf("No history was recorded; at the dump %s were allocated in %s and %s reserved%s",
			report.Bytes(main.AtEnd.AllocatedBytes), report.Plural(main.AtEnd.Blocks, "block"), report.Bytes(main.AtEnd.ReservedBytes), where)
		v.Fix = ptr("Record before the model is built, and dump before recording is switched off")
	default:
		v.Text = fmt.Sprintf("No failure recorded: memory peaked at %s allocated and %s reserved%s", report.Bytes(main.Peaks.Allocated.Bytes), report.Bytes(main.Peaks.Reserved.Bytes), where)
		if main.CapacityBytes != nil {
			v.Text += fmt.Sprintf(", of %s", report.Bytes(*main.CapacityBytes))
		}
	}
	for _, d := range doc.Devices {
		for _, f := range d.Findings {
			if f.ID == "damage" && v.Severity == report.Info {
				v.Severity = report.Warning
			}
		}
	}
	return v
}

func noDevices(doc *report.Document) report.Verdict {
	for _, in := range doc.Inputs {
		if in.Kind == "snapshot" {
			return report.Verdict{Severity: report.Warning, Text: "empty recording: no CUDA memory was allocated, and no event recorded",
				Fix: ptr("Record in the process that uses the GPU, before the model is built, and dump while it is alive")}
		}
	}
	return report.Verdict{Severity: report.Info, Text: "no snapshot was given"}
}

func oomVerdict(d *report.Device) report.Verdict {
	o := d.OOMs[len(d.OOMs)-1]
	text := fmt.Sprintf("Out of memory on device %d: %s asked for", d.Device, report.Bytes(o.RequestedBytes))
	if o.Site != nil && (o.Site.Op != "" || o.Site.Function != "") {
		by := o.Site.Op
		if by == "" {
			by = o.Site.Function
		}
		text += " by " + by
	}
	if o.DeviceFreeBytes != nil {
		text += fmt.Sprintf(", %s left on the device, %s free in PyTorch's cache", report.Bytes(*o.DeviceFreeBytes), report.Bytes(o.ReservedBytes-o.AllocatedBytes))
	}
	v := report.Verdict{Severity: report.Critical, Text: text}
	for _, f := range d.Findings {
		if f.Severity == report.Critical {
			v.Fix, v.SavesBytes = f.Fix, f.SavesBytes
			break
		}
	}
	return v
}
