"""What each allocation of a program really is, from inside the program.

A program calls `at` (where it is) and `mark` (what a tensor is); hooks mark what it can't see: tensors that autograd
saves, casts that autocast makes, gradients. Nothing of that allocates on the GPU, so the same program allocates the
same with the labeller and without: `table` is laid beside a recording only where that has been checked.
"""

import bisect
import contextlib
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CATEGORIES = ["kv_cache", "gradients", "communication", "weights", "optimizer_state", "inputs", "logits",
              "autocast_copies", "activations", "workspace", "temporary"]  # the first of a tensor's parts counts
ALLOCATIONS = ("alloc", "free_requested", "free_completed")


class Nothing:
    """The labeller of a run that is only recorded."""

    def at(self, phase, step=None): pass
    def mark(self, category, *things): pass
    def logits(self, *things): pass
    def retain(self, *things): pass
    def model(self, model, vocabulary=None): pass
    def graph(self, loss): pass
    def after_backward(self, model): pass
    def after_step(self, optimizer): pass
    def inside(self): return contextlib.nullcontext()


def tensors(things):
    for x in things:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, dict):
            yield from tensors(x.values())
        elif isinstance(x, (list, tuple)):
            yield from tensors(x)


class Labeller:
    def __init__(self):
        self.marks = []  # (nanoseconds, address of the storage, category)
        self.kept = []  # (nanoseconds, address)
        self.places = [(0, "setup", -1)]
        self.step = -1
        self.vocabulary = None
        self.parameters = set()

    def at(self, phase, step=None):
        self.step = self.step if step is None else step
        self.places.append((time.time_ns(), phase, self.step))

    def mark(self, category, *things):
        for t in tensors(things):
            if t.is_cuda:
                self.marks.append((time.time_ns(), t.untyped_storage().data_ptr(), category))

    def logits(self, *things):
        """Scores over the vocabulary, and their gradients when these are there."""
        self.mark("logits", *things)
        for t in tensors(things):
            if t.requires_grad:
                t.register_hook(lambda gradient: self.mark("logits", gradient))

    def retain(self, *things):
        for t in tensors(things):
            self.kept.append((time.time_ns(), t.untyped_storage().data_ptr()))

    def model(self, model, vocabulary=None):
        self.vocabulary = vocabulary or self.vocabulary
        self.mark("weights", list(model.parameters()), list(model.buffers()))
        self.parameters |= {p.untyped_storage().data_ptr() for p in model.parameters()}

    def graph(self, loss):
        """What the functions of a compiled program have saved: hooks would change what is compiled."""
        seen, todo = set(), [loss.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            for t in tensors(getattr(node, "saved_tensors", ())):
                self.saved(t)
            todo += [following for following, _ in node.next_functions]

    def after_backward(self, model):
        self.mark("gradients", [p.grad for p in model.parameters() if p.grad is not None])

    def after_step(self, optimizer):
        self.mark("optimizer_state", list(optimizer.state.values()))

    @contextlib.contextmanager
    def inside(self):
        """Around forward passes. Recomputed tensors are seen through a private name of PyTorch's; without it the
        program fails, rather than be labelled wrong."""
        from torch.utils import checkpoint

        recomputation = checkpoint._recomputation_hook
        labeller = self

        class Recomputation(recomputation):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                pack = self.pack_hook

                def packed(x):
                    labeller.saved(x)
                    return pack(x)

                self.pack_hook = packed

        checkpoint._recomputation_hook = Recomputation
        try:
            with torch.autograd.graph.saved_tensors_hooks(self.saved, lambda x: x):
                if torch.is_autocast_enabled("cuda"):
                    with Casts(self):
                        yield
                else:
                    yield
        finally:
            checkpoint._recomputation_hook = recomputation

    def saved(self, t):
        if t.is_cuda:
            words = t.dim() > 1 and t.shape[-1] == self.vocabulary and t.is_contiguous()  # a transposed weight is not
            self.mark("logits" if words else "activations", t)
        return t

    def table(self, trace):
        """The truth of a trace with all stacks, as columns; one row for each allocation."""
        rows, alive, n = [], {}, 0
        at = [p[0] for p in self.places]
        for e in trace:
            if e["action"] in ("snapshot", "annotate"):
                continue
            if e["action"] not in ALLOCATIONS:
                n += 1
                continue
            if e["action"] == "alloc":
                ns = e["time_us"] * 1000
                _, phase, step = self.places[bisect.bisect_right(at, ns) - 1]
                alive[e["addr"]] = len(rows)
                rows.append({"addr": e["addr"], "size": e["size"], "block_size": (e["size"] + 511) // 512 * 512, "stream": e["stream"],
                             "born": ns, "died": None, "category": "workspace" if is_workspace(e.get("frames", [])) else "temporary",
                             "phase": phase, "step": step, "alloc_event": n, "free_event": -1, "free_completed_event": -1, "retained": 0})
            elif e["addr"] in alive and e["action"] == "free_requested":
                row = rows[alive[e["addr"]]]
                row["free_event"], row["died"] = n, e["time_us"] * 1000
            elif e["addr"] in alive and e["action"] == "free_completed":
                rows[alive.pop(e["addr"])]["free_completed_event"] = n
            n += 1
        lives = {}
        for row in rows:
            lives.setdefault(row["addr"], []).append(row)
        born = {a: [r["born"] for r in list_] for a, list_ in lives.items()}

        def row_at(ns, address):
            if address not in lives:
                return None
            i = bisect.bisect_right(born[address], ns + 1000) - 1  # events are told in microseconds
            return lives[address][i] if i >= 0 else None

        for ns, address, category in self.marks:
            row = row_at(ns, address)
            if row and CATEGORIES.index(category) < CATEGORIES.index(row["category"]):
                row["category"] = category
        for ns, address in self.kept:
            row = row_at(ns, address)
            if row:
                row["retained"] = 1
        return columns(rows)


def columns(rows):
    phases = sorted({r["phase"] for r in rows})
    plain = ("addr", "size", "block_size", "stream", "step", "retained", "alloc_event", "free_event", "free_completed_event")
    return {"categories": CATEGORIES, "phases": phases, **{k: [r[k] for r in rows] for k in plain},
            "category": [CATEGORIES.index(r["category"]) for r in rows], "phase": [phases.index(r["phase"]) for r in rows]}


def is_workspace(frames):
    names = [f["name"] for f in frames]
    library = any("BlasWorkspace" in n or "BlasLtWorkspace" in n or "run_conv_plan" in n or "cudnn::Workspace" in n
                  or "native::Workspace" in n for n in names)
    return library and not any("TensorFactor" in n or "empty_cuda" in n or "at::empty" in n for n in names)


class Casts(TorchDispatchMode):
    """Marks copies of parameters in another type."""

    def __init__(self, labeller):
        super().__init__()
        self.labeller = labeller

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._to_copy.default and args[0].untyped_storage().data_ptr() in self.labeller.parameters:
            self.labeller.mark("autocast_copies", out)
        return out
