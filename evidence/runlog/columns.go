package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Ultralytics and YOLOv5 print a table whose head names the columns, and whose
// rows are progress bars, one for each epoch:
//
//	Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
//	  1/3      2.41G      1.231      3.111      1.201         25        640: 100%|███| 50/50 [00:20<00:00,  2.50it/s]
//	  1/3      2.41G      1.231      3.111      1.201         25        640: 100% ━━━━ 50/50 2.5it/s 20.1s

var (
	// headOfRows is the head of such a table.
	headOfRows = pattern.Of(`^ *Epoch +(?:GPU|gpu)_mem `)
	rowOfEpoch = pattern.Of(`^ *(\d+)/\d+ +([\d.]+)G (?:.*(?:%\|[^|]*\||━ |%\|)(.*))?`)
)

// rowOf reads a row. The memory is what PyTorch had reserved (GPU_mem); G is
// 1e9 bytes, 2**30 where the bars are of the newer kind.
func (s *stepState) rowOf(p *Parser, number int, line []byte) bool {
	m := rowOfEpoch().FindSubmatch(line[:min(len(line), maxOther)])
	if m == nil {
		return false
	}
	unit := 1e9
	if bytes.Contains(line, []byte("━")) {
		unit = 1 << 30
	}
	held, _, _ := figures.Decimal(m[2])
	f := noFacts()
	f.keepMemory(held*unit, &meaning{Named: figures.Named{What: figures.Reserved}}, nil)
	s.keepMemory(&f)
	s.epoch, _, _ = figures.Integer(m[1])
	if m[3] != nil {
		s.readBar(p, number, append([]byte("Epoch "), m[1]...), m[3])
	}
	return true
}
