package diagnose

import (
	"fmt"

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
		rank = sureRank(n)
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
