// Package record knows how a run is recorded so that a report can answer, as
// lines of Python to paste.
package record

import "strings"

// Recipe is the code for one kind of program.
type Recipe struct {
	Name  string // one word, for the command line
	Title string
	Code  string
}

// Find is a recipe by its name.
func Find(name string) (Recipe, bool) {
	for _, r := range Recipes {
		if r.Name == name {
			return r, true
		}
	}
	return Recipe{}, false
}

// Names are the recipes' names, in order.
func Names() []string {
	var names []string
	for _, r := range Recipes {
		names = append(names, r.Name)
	}
	return names
}

// advice is what makes the difference between a recording that answers and one
// that doesn't, as comments.
const advice = `# Record before the model is built, or weights have no history.
# Record two or three steps: the first one makes optimizer state, later ones show growth.
# Keep stacks="all" (the default): backward allocations have no Python frames.
# Dump before recording is switched off: enabled=None clears the events.
# max_entries is a ring: 1,000,000 events hold several steps of most models, 100 to 300 MB on disk.
`

// Recipes are the kinds of programs that people record.
var Recipes = []Recipe{
	{"loop", "A plain training loop", `import torch

torch.cuda.memory._record_memory_history(max_entries=1_000_000)  # before the model is built
# ... build the model, train two or three steps ...
torch.cuda.memory._dump_snapshot("snapshot.pickle")              # before recording is switched off
torch.cuda.memory._record_memory_history(enabled=None)
`},
	{"oom", "A dump at the moment of an out-of-memory error", `import torch

torch.cuda.memory._record_memory_history(max_entries=1_000_000)  # before the model is built

def dump_on_oom(device, alloc, device_alloc, device_free):       # runs before anything is unwound
    torch.cuda.memory._dump_snapshot(f"oom_device{device}.pickle")

torch._C._cuda_attach_out_of_memory_observer(dump_on_oom)
`},
	{"trainer", "Hugging Face Trainer", `import torch
from transformers import TrainerCallback

class RecordMemory(TrainerCallback):
    def __init__(self, path="snapshot.pickle", steps=3):
        self.path, self.steps = path, steps

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.steps and state.is_world_process_zero:
            torch.cuda.memory._dump_snapshot(self.path)
            torch.cuda.memory._record_memory_history(enabled=None)

torch.cuda.memory._record_memory_history(max_entries=1_000_000)  # before from_pretrained
# trainer = Trainer(..., callbacks=[RecordMemory()])
`},
	{"torchrun", "Several ranks under torchrun", `import os
import torch

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.cuda.memory._record_memory_history(max_entries=1_000_000)  # on every rank, before the model is built
try:
    main()                                                       # two or three steps
finally:
    torch.cuda.memory._dump_snapshot(f"rank{rank}.pickle")       # then: vramscope analyze rank*.pickle
`},
	{"serve", "An inference server", `import signal
import torch

torch.cuda.memory._record_memory_history(max_entries=1_000_000)  # before the engine loads the weights

def dump(signum, frame):                                         # kill -USR1 PID
    torch.cuda.memory._dump_snapshot("serve.pickle")

signal.signal(signal.SIGUSR1, dump)
`},
	{"steps", "Marks that make steps and phases exact", `import torch
from torch.profiler import record_function

torch.cuda.memory._record_memory_history(max_entries=1_000_000, global_record_annotations=True)
for step, batch in enumerate(loader):
    with record_function(f"## step {step} ##"):
        with record_function("## forward ##"):
            loss = model(**batch).loss
        with record_function("## backward ##"):
            loss.backward()
        optimizer.step()                                         # annotates itself
        optimizer.zero_grad()
torch.cuda.memory._dump_snapshot("snapshot.pickle")
`},
	{"torch2.0", "PyTorch 2.0, whose recorder takes other arguments", `import pickle
import torch

torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=1_000_000, trace_alloc_record_context=True)
# ... build the model, train two or three steps ...
with open("snapshot.pickle", "wb") as f:
    pickle.dump(torch.cuda.memory._snapshot(), f)                # before recording is switched off
torch.cuda.memory._record_memory_history(False)
`},
	{"labels", "A labels file, which says of every tensor what it is", `import json
import torch

def write_labels(path, model, optimizer, device=0):
    """Beside SNAPSHOT.pickle as SNAPSHOT.labels.json; call it right before the dump."""
    labels, seen = [], set()

    def add(tensor, category, name):
        if tensor is None or not tensor.is_cuda or tensor.device.index != device:
            return
        address = tensor.untyped_storage().data_ptr()
        if address and address not in seen:
            seen.add(address)
            labels.append({"address": address, "event": None, "category": category, "name": name})

    for name, p in model.named_parameters():
        add(p, "weights", name)
        add(p.grad, "gradients", name + ".grad")
        for key, value in optimizer.state.get(p, {}).items():
            if torch.is_tensor(value):
                add(value, "optimizer_state", f"{name}.{key}")
    for name, b in model.named_buffers():
        add(b, "weights", name)
    with open(path, "w") as f:
        json.dump({"schema": "vramscope.labels/1", "device": device, "labels": labels}, f)
`},
}

// Text is recipes with the advice, as the command prints them: Python as a
// whole, for it may be written into a file.
func Text(recipes ...Recipe) string {
	var b strings.Builder
	for _, r := range recipes {
		b.WriteString("# " + r.Title + "\n\n" + r.Code + "\n")
	}
	return b.String() + advice
}
