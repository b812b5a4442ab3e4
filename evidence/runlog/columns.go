package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/units"
)

// Ultralytics and YOLOv5 print a table whose head names the columns, and whose
// rows are progress bars, one for each epoch:
//
//	Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
//	  1/3      2.41G      1.231      3.111      1.201         25        640: 100%|███| 50/50 [00:20<00:00,  2.50it/s]
//	  1/3      2.41G      1.231      3.111      1.201         25        640: 100% ━━━━ 50/50 2.5it/s 20.1s

// isHead tells the head of such a table.
func isHead(line []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " "), []byte("Epoch "))
	rest = bytes.TrimLeft(rest, " ")
	return ok && (bytes.HasPrefix(rest, []byte("GPU_mem ")) || bytes.HasPrefix(rest, []byte("gpu_mem ")))
}

// rowOf reads a row. The memory is what PyTorch had reserved (GPU_mem); G is
// 1e9 bytes, 2**30 where the bars are of the newer kind.
func (s *stepState) rowOf(p *Parser, number int, line []byte) bool {
	text := bytes.TrimLeft(line, " ")
	if len(text) == 0 || !units.IsDigit(text[0]) || len(text) > maxOther {
		return false
	}
	epoch, rest, _ := figures.Integer(text)
	if len(rest) == 0 || rest[0] != '/' {
		return false
	}
	if _, rest, _ = figures.Integer(rest[1:]); len(rest) == 0 || rest[0] != ' ' {
		return false
	}
	held, rest, ok := figures.Decimal(bytes.TrimLeft(rest, " "))
	if !ok || len(rest) < 2 || rest[0] != 'G' || rest[1] != ' ' {
		return false
	}
	unit, bar := 1e9, "%|"
	if bytes.Contains(rest, []byte("━")) {
		unit, bar = 1<<30, "━ "
	}
	f := noFacts()
	f.keepMemory(held*unit, &meaning{Named: figures.Named{What: figures.Reserved}}, nil)
	s.keepMemory(&f)
	s.epoch = epoch
	if i := bytes.LastIndex(rest, []byte(bar)); i >= 0 {
		body := rest[i+len(bar):]
		if end := bytes.IndexByte(body, '|'); bar == "%|" && end >= 0 {
			body = body[end+1:]
		}
		s.readBar(p, number, []byte("Epoch "+string(text[:len(text)-len(bytes.TrimLeft(text, "0123456789"))])), body)
	}
	return true
}
