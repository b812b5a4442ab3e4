package leaks

import (
	"fmt"
	"path"
	"strings"
)

// Fix is what usually helps, one paragraph of text and a few lines of code.
type Fix struct {
	Text string
	Code string // Python
}

// Fix says what usually helps against a leak of this kind.
func (l *Leak) Fix() Fix {
	where := ""
	if l.File != "" {
		where = fmt.Sprintf("%s:%d", fileName(l.File), l.Line)
		if from := l.CalledFrom; from.File != "" {
			where += fmt.Sprintf(", called from %s:%d", fileName(from.File), from.Line)
		}
		where = " (" + where + ")"
	}
	switch l.Kind {
	case GrowingList:
		if l.Joined {
			return Fix{
				"A tensor is joined with what it holds so far in every step" + where +
					": it grows, and while it is made it is there twice. Move each piece to the host and join them in the " +
					"end, or keep the last ones only.",
				"pieces.append(x.detach().cpu())    # torch.cat(pieces) in the end\n" +
					"bank = torch.cat([bank, x.detach()])[-size:].clone()",
			}
		}
		return Fix{
			"Something that outlives the step" + where +
				" takes a tensor in every step: a list, a dictionary, an attribute. Move what must be kept to the host, or " +
				"keep a number, or bound the container.",
			"kept.append(x.detach().cpu())      # on the host, without its graph\n" +
				"history = collections.deque(maxlen=100)",
		}
	case RetainedGraph:
		if l.Untrained {
			return Fix{
				"Results of forward passes that no backward pass follows" + where +
					" are kept with their autograd graphs, and with them everything that was saved for backward. Build none: " +
					"torch.no_grad() around the call.",
				"with torch.no_grad():              # or torch.inference_mode(); model.eval() alone doesn't do it\n" +
					"    out = model(batch)",
			}
		}
		return Fix{
			"A tensor that still has its autograd graph is kept beyond its step" + where +
				", and with it everything its operations saved for backward. Keep a number or a detached tensor.",
			"self.hidden = hidden.detach()      # a state carried into the next step\n" +
				"total += loss.item()               # a loss or metric that is summed or logged\n" +
				"with torch.no_grad(): ...          # around what is never trained on",
		}
	case GradientsKept:
		near := ""
		if l.Near.File != "" {
			near = fmt.Sprintf(" Look for zero_grad near %s:%d, where the optimizer runs.", fileName(l.Near.File), l.Near.Line)
		}
		return Fix{
			"Gradients are zeroed in place and live through the next forward, where nobody needs them. Freeing them costs " +
				"nothing and makes room in forward." + near,
			"optimizer.zero_grad(set_to_none=True)   # the default since PyTorch 2.0",
		}
	case StaleOutputs:
		code := "loss.backward()\noptimizer.step()\ndel outputs, loss                  # or leave the scope of a function"
		if l.forwardOnly {
			code = "outputs = model(batch)\n...                                # what is done with them\ndel outputs          " +
				"              # or leave the scope of a function"
		}
		return Fix{
			"A variable" + where +
				" holds the last step's outputs until the next forward has made new ones, so both exist at once. Drop it when " +
				"the step is done.",
			code,
		}
	case VaryingShapes:
		if l.expandable {
			return Fix{
				"Every step asks for other sizes" + where +
					": segments grow, so freed blocks fit again, but the largest step sets the peak. Cap the length, or batch " +
					"by the number of tokens.",
				"batch = tokenizer(texts, truncation=True, max_length=512)",
			}
		}
		return Fix{
			"Every step asks for other sizes" + where +
				": freed blocks rarely fit the next request and the cache grows. Group inputs of similar length, pad to a few " +
				"lengths, or let segments grow.",
			"batch = tokenizer.pad(batch, pad_to_multiple_of=64)\n" +
				"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		}
	case FragmentationCreep:
		if l.expandable {
			return Fix{
				"Reserved memory grows from step to step by more than what is allocated: free memory lies in pieces that no " +
					"request fits, though segments grow. Make what lives long before what doesn't; emptying the cache gives " +
					"back the pages that are free.", "torch.cuda.empty_cache()           # once in a while, between steps",
			}
		}
		return Fix{
			"Reserved memory grows from step to step by more than what is allocated: free memory lies in pieces that no " +
				"request fits. Let segments grow, or make what lives long before what doesn't.",
			"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		}
	case FirstStepState:
		momentum := ""
		if l.optimizer == "sgd" {
			momentum = ", momentum=0.9" // the state; without it the 8-bit one isn't to be had
		}
		return Fix{
			"The optimizer makes its state in its first step and keeps it: memory jumps once and stays. That is no leak. If " +
				"the room is missing, fewer bytes per parameter help.",
			"optimizer = bitsandbytes.optim." + l.EightBit() + "(model.parameters(), lr=lr" + momentum +
				")   # 1 byte for each number of the state",
		}
	}
	return Fix{}
}

// eightBit are bitsandbytes' optimizers that take the place of torch's, by the
// file of torch/optim.
var eightBit = map[string]string{"sgd": "SGD8bit", "rmsprop": "RMSprop8bit", "adagrad": "Adagrad8bit"}

// EightBit is bitsandbytes' optimizer with the smallest change to the training: the
// same one in 8 bits, else AdamW.
func (l *Leak) EightBit() string {
	if name := eightBit[l.optimizer]; name != "" {
		return name
	}
	return "AdamW8bit"
}

// fileName is a file's name without its folder, also one of Windows.
func fileName(file string) string { return path.Base(strings.ReplaceAll(file, `\`, "/")) }
