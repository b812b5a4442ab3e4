package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// gpuNumber is the number by which nvidia-smi, which knows nothing of
// CUDA_VISIBLE_DEVICES, calls a device, and why it isn't the device's own. A
// rank other than the first that knows device 0 alone was given one GPU: on a
// machine of n, rank r has GPU r mod n when ranks are dealt out in order, as
// launchers do.
func (e *examination) gpuNumber(dev *report.Device) (number int, why string) {
	n := e.source.name()
	rank := n.Local
	if rank < 0 {
		rank = ranks.Sure(n)
	}
	if rank <= 0 || dev.Device != 0 || len(e.T.Snapshot.Devices) != 1 {
		return dev.Device, ""
	}
	listed := map[int]bool{}
	for i := range e.evidence.GPUs {
		listed[e.evidence.GPUs[i].GPU] = true
	}
	if number = rank % max(len(listed), 1); number == 0 || !listed[number] {
		return dev.Device, ""
	}
	return number, fmt.Sprintf("taken to be GPU %d of nvidia-smi: rank %d knows one GPU alone, as device 0, so "+
		"CUDA_VISIBLE_DEVICES numbered it anew; not certain", number, rank)
}

// gpuOf is nvidia-smi's GPU that the device is: the one of the same number,
// unless it never held as much as PyTorch did and just one other has.
func (e *examination) gpuOf(dev *report.Device) (*evidence.GPU, string) {
	var same, other *evidence.GPU
	fits := 0
	number, why := e.gpuNumber(dev)
	for i := range e.evidence.GPUs {
		g := &e.evidence.GPUs[i]
		if g.PeakUsedBytes == nil || *g.PeakUsedBytes < dev.Peaks.Reserved.Bytes-64<<20 {
			continue
		}
		if g.GPU == number && (same == nil || *g.PeakUsedBytes > *same.PeakUsedBytes) {
			same = g
		} else if g.GPU != number {
			other = g
			fits++
		}
	}
	if same == nil && fits == 1 {
		return other, fmt.Sprintf("taken to be GPU %d of nvidia-smi, the only one that held as much: CUDA_VISIBLE_DEVICES "+
			"renumbers them", other.GPU)
	}
	return same, why
}

// watchedAs is the GPU of nvidia-smi that the device is.
func (e *examination) watchedAs(dev *report.Device, source int) *evidence.GPU {
	gpus := e.evidence.GPUsOf(source)
	index, _ := e.gpuNumber(dev)
	if g, _ := e.gpuOf(dev); g != nil && g.Source == source {
		index = g.GPU
	} else if len(gpus) == 1 {
		index = gpus[0].GPU
	}
	for k := range gpus {
		if gpus[k].GPU == index {
			return &gpus[k]
		}
	}
	return nil
}
