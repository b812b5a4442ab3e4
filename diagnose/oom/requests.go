package oom

import (
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// Requests are what failed requests asked of the driver, in order.
type Requests []int64

// RequestsOf are those of recorded devices.
func RequestsOf(devices ...report.Device) Requests {
	var r Requests
	for i := range devices {
		for _, o := range devices[i].OOMs {
			r = append(r, Asked(o.RequestedBytes))
		}
	}
	slices.Sort(r)
	return r
}

// Recorded reports whether one of them is what the message is about.
func (r Requests) Recorded(m *evidence.OOMMessage) bool {
	requested := evidence.Or(m.RequestedBytes, -1)
	i, _ := slices.BinarySearch(r, requested)
	return i < len(r) && Tells(requested, r[i]) || i > 0 && Tells(requested, r[i-1])
}

// Asked is what a request that finds no room in the cache asks of the driver:
// 2 MiB for the smallest, 20 MiB for small ones, else a multiple of 2 MiB.
func Asked(requested int64) int64 {
	switch {
	case requested <= 1<<20:
		return 2 << 20
	case requested < 10<<20:
		return 20 << 20
	}
	return (requested + 2<<20 - 1) / (2 << 20) * (2 << 20)
}

// Tells compares the figure of a message, which has two decimals, with what was asked of the driver.
func Tells(message, asked int64) bool {
	return message > 0 && max(message-asked, asked-message) <= max(asked/100, 1<<16)
}
