package traceback

import (
	"bytes"

	"github.com/vramscope/vramscope/internal/words"
)

var (
	setup, data, forward, backward = words.Setup.String(), words.Data.String(), words.Forward.String(), words.Backward.String()
	optimizer, zeroGrad, generate  = words.Optimizer.String(), words.ZeroGrad.String(), words.Generate.String()
)

// phaseMarks are frames of libraries that tell what a program was doing when
// its traceback was printed, in the names that reports use for phases.
var phaseMarks = []struct{ in, phase string }{
	{"torch/_tensor.py", backward}, {"torch/autograd/__init__.py", backward}, {"torch/autograd/graph.py", backward},
	{"in backward", backward},
	{"generation/utils.py", generate}, {"in generate", generate},
	{"in zero_grad", zeroGrad},
	{"in load_state_dict", setup}, {"in _ddp_init_helper", setup},
	{"in _optimizer_step", optimizer}, {"in _take_model_step", optimizer},
	{"torch/optim/", optimizer}, {"apex/optimizers/", optimizer}, {"bitsandbytes/optim/", optimizer},
	{"in _init_group", optimizer},
	{"in _apply", setup}, {"in from_pretrained", setup}, {"in _load_pretrained_model", setup},
	{"in load_checkpoint_and_dispatch", setup},
	{"utils/data/", data},
	{"in _call_impl", forward}, {"torch/nn/functional.py", forward}, {"in forward", forward},
}

// phaseAfter is the phase of a traceback after one more frame, innermost last.
// Backward and generation call forward again and stay what they are; an
// optimizer whose step takes a closure does run forward and backward.
func phaseAfter(phase string, frame []byte) string {
	if phase == backward || phase == generate || phase == setup || phase == zeroGrad {
		return phase
	}
	if loads(frame) {
		return setup
	}
	for _, m := range phaseMarks {
		if names(frame, m.in) && !(m.phase == data && phase != "") {
			return m.phase
		}
	}
	return phase
}

// names reports whether a frame has a mark; a function's name is one as a whole.
func names(frame []byte, mark string) bool {
	i := bytes.Index(frame, []byte(mark))
	if i < 0 || mark[:3] != "in " {
		return i >= 0
	}
	rest := frame[i+len(mark):]
	return len(rest) == 0 || rest[0] != '_' && !('a' <= rest[0] && rest[0] <= 'z') && !('A' <= rest[0] && rest[0] <= 'Z') &&
		!('0' <= rest[0] && rest[0] <= '9')
}

// loads tells torch.load from torch.save, which is in the same file.
func loads(frame []byte) bool {
	return bytes.Contains(frame, []byte("torch/serialization.py")) && !bytes.Contains(frame, []byte("save"))
}
