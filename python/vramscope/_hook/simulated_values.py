"""Values where a program needs them, on a device that computes nothing.

Integers of up to 64 KiB keep their values: what the host wrote is remembered by the library, and an operator whose
inputs are known is computed on the CPU too, its result written to the device. What is allocated stays as it is. On the
host, random numbers and copies of large tensors are left out, so that a model's pages are never touched.
"""

from __future__ import annotations

import functools
import mmap
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

LARGEST = 64 << 10  # bytes of a tensor whose values are kept: the library remembers no more
LARGE = 1 << 20  # bytes of a tensor of the host whose numbers are left out

FILLS = frozenset(("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_", "trunc_normal_", "bernoulli_"))
FACTORIES = frozenset(("rand", "randn", "normal", "rand_like", "randn_like"))
ZEROS = frozenset(("zeros", "zeros_like", "new_zeros"))
COPIES = frozenset(("_to_copy", "clone", "copy_"))
UNFILLED = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_"))
# Initialisations that compute more than a fill.
INITIALISERS = ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                "kaiming_normal_", "orthogonal_", "sparse_", "constant_")  # fmt: skip


unknown = object()  # stands for a tensor of the device whose values aren't known
UNKNOWN = id(unknown)


def make(torch: Any, assumed: Any) -> Any:
    """The mode that stands before every operator of the thread that imported PyTorch, and of its autograd."""
    from torch.utils._python_dispatch import TorchDispatchMode  # type: ignore[import-not-found]

    plain = (torch.Tensor, torch.nn.Parameter)

    class Values(TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __init__(self) -> None:
            super().__init__()
            self.work = Work(torch, assumed)

        @classmethod
        def is_infra_mode(cls) -> bool:
            return True  # torch.compile goes on as if it weren't there

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            for t in types:
                if t not in plain:
                    return NotImplemented  # its own parts come by
            return self.work.run(func, args, kwargs or {})

    return Values()


def leave_out_backward(torch: Any, mode: Any) -> None:
    """Backward passes run without the mode: where one is, autograd's formulas don't work in place, and allocate more."""
    import torch.autograd.graph
    from torch.utils._python_dispatch import _pop_mode_temporarily

    def without(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            n = torch._C._len_torch_dispatch_stack()
            if n == 0 or torch._C._get_dispatch_stack_at(n - 1) is not mode:
                return function(*args, **kwargs)
            with _pop_mode_temporarily():
                return function(*args, **kwargs)

        return run

    name = "_engine_run_backward"
    if hasattr(torch.autograd, name) and hasattr(torch.autograd.graph, name):
        setattr(torch.autograd, name, without(getattr(torch.autograd, name)))
        setattr(torch.autograd.graph, name, getattr(torch.autograd, name))
    else:
        torch.autograd.backward, torch.autograd.grad = without(torch.autograd.backward), without(torch.autograd.grad)


class Work:
    """What is done beside operators."""

    def __init__(self, torch: Any, assumed: Any) -> None:
        self.torch, self.assumed = torch, assumed
        self.tensor = torch.Tensor
        self.whole = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
        self.known: Set[int] = set()  # addresses of storages on the device whose values are true
        self.ways: Dict[Any, Callable[..., Any]] = {}
        self.computed = 0

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        way = self.ways.get(func)
        if way is None:
            way = self.ways[func] = self.way_of(func)
        return way(func, args, kwargs)

    def way_of(self, func: Any) -> Callable[..., Any]:
        """How an operator is met."""
        name = getattr(getattr(func, "_schema", None), "name", "")
        space, _, name = name.partition("::")
        if space == "torchvision" and name == "nms":
            return self.suppress
        if space != "aten":
            return self.other
        if name == "_local_scalar_dense":
            return self.read
        if name in FILLS or name in COPIES or name in FACTORIES or name in ZEROS:
            return self.host
        if name in UNFILLED:
            return self.unfilled
        if name == "lift_fresh":
            return self.lifted
        if func.is_view:
            return plainly
        return self.changed if func._schema.is_mutable else self.made

    # Tensors of the host.

    def host(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Fills and copies: on the host those of large floating-point tensors are left out."""
        name = func._schema.name[6:]
        if name in FILLS:
            t = args[0]
            return t if self.is_large(t) else self.changed(func, args, kwargs)
        if name == "copy_":
            t, source = args[0], args[1]
            if self.is_large(t) and type(source) is self.tensor and source.device.type in ("cpu", "cuda"):
                return t
            return self.copied(func, args, kwargs)
        if name in ("clone", "_to_copy"):
            return self.converted(func, args, kwargs)
        empty = self.instead(name, args, kwargs)
        return self.made(func, args, kwargs) if empty is None else empty

    def is_large(self, t: Any) -> bool:
        return t.device.type == "cpu" and t.dtype.is_floating_point and t.numel() * t.element_size() >= LARGE

    def converted(self, func: Any, args: Any, kwargs: Any) -> Any:
        t = args[0]
        device = kwargs.get("device")
        if (device is None or self.torch.device(device).type == "cpu") and self.is_large(t):
            dtype = kwargs.get("dtype") or t.dtype
            if dtype.is_floating_point:
                return self.torch.empty_like(t, dtype=dtype, memory_format=kwargs.get("memory_format") or self.torch.preserve_format)
        out = func(*args, **kwargs)
        if type(out) is self.tensor and out.is_cuda and out.dtype in self.whole:
            known = t.device.type == "cpu" or self.storage_of(t) in self.known
            self.mark(out, known and self.size_of(out) <= LARGEST)
            if known and t.is_cuda:  # a kernel writes nothing
                return self.compute(func, args, kwargs, out)
        return out

    def instead(self, name: str, args: Any, kwargs: Any) -> Any:
        """A tensor of the host without its numbers, None where those are needed."""
        torch = self.torch
        try:
            if name.endswith("_like"):
                t = args[0]
                device, dtype, shape = kwargs.get("device") or t.device, kwargs.get("dtype") or t.dtype, tuple(t.shape)
            elif name in ("rand", "randn", "zeros"):
                device, dtype = kwargs.get("device") or "cpu", kwargs.get("dtype") or torch.get_default_dtype()
                shape = tuple(args[0])
            else:
                return None
            if torch.device(device).type != "cpu" or not dtype.is_floating_point or kwargs.get("pin_memory"):
                return None
            if kwargs.get("layout") not in (None, torch.strided) or kwargs.get("names") is not None:
                return None
            size = dtype.itemsize
            for n in shape:
                size *= n
            if size < LARGE:
                return None
            if name in ZEROS:  # pages of zeros that nobody has touched
                return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
            return torch.empty(shape, dtype=dtype, device="cpu")
        except (TypeError, RuntimeError, IndexError, AttributeError):
            return None

    # Tensors of the device.

    def storage_of(self, t: Any) -> int:
        return int(t.untyped_storage().data_ptr())

    def size_of(self, t: Any) -> int:
        return int(t.untyped_storage().nbytes())

    def mark(self, t: Any, known: bool) -> None:
        at = self.storage_of(t)
        if known and at:
            self.known.add(at)
        else:
            self.known.discard(at)

    def is_whole(self, out: Any) -> bool:
        return type(out) is self.tensor and out.dtype in self.whole and out.is_cuda

    def unfilled(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if self.is_whole(out):
            self.mark(out, False)
        return out

    def lifted(self, func: Any, args: Any, kwargs: Any) -> Any:
        """torch.tensor(..., device=...): the numbers are the host's."""
        out = func(*args, **kwargs)
        if self.is_whole(out):
            self.mark(out, self.size_of(out) <= LARGEST)
        return out

    def other(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if self.is_whole(t):
                self.mark(t, False)
        return out

    def made(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator that makes its result."""
        assumed = self.assumed
        before = assumed.count
        out = func(*args, **kwargs)
        if assumed.hanging or assumed.count != before:
            assumed.follow(func, args, out, assumed.count != before)
        if type(out) is self.tensor:
            if out.dtype in self.whole and out.is_cuda:
                return self.compute(func, args, kwargs, out)
        elif isinstance(out, (tuple, list)):
            for t in out:
                if self.is_whole(t):
                    self.mark(t, False)
        return out

    def compute(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """Computes a result on the CPU as well, where all of it is known."""
        self.mark(out, False)
        if self.size_of(out) > LARGEST or not out.is_contiguous():
            return out
        try:
            a, k = self.on_host(args, kwargs)
            if a is None:
                return out
            value = func(*a, **k)
            if type(value) is self.tensor and value.shape == out.shape and value.dtype == out.dtype:
                out.copy_(value)
                self.computed += 1
                self.mark(out, True)
        except Exception:  # an operator that the CPU doesn't have
            pass
        return out

    def changed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator that changes a tensor in place."""
        out = func(*args, **kwargs)
        t = args[0] if args else None
        if not self.is_whole(t):
            t = kwargs.get("out")
            if self.is_whole(t):
                self.mark(t, False)
            return out
        at = self.storage_of(t)
        name = func._schema.name[6:]
        covers = name in ("fill_", "zero_", "random_") and t.numel() * t.element_size() == self.size_of(t)
        if at not in self.known and not covers:
            return out
        if self.size_of(t) > LARGEST:
            return out
        self.known.add(at)  # so that what was there is taken
        try:
            copies: Dict[int, Any] = {}
            a, k = self.on_host(args, kwargs, copies)
            if a is not None:
                func(*a, **k)
                self.flat(t).copy_(copies[at])
                self.computed += 1
                return out
        except Exception:
            pass
        self.known.discard(at)
        return out

    def copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        """copy_ to a tensor that isn't a large one of the host."""
        t, source = args[0], args[1]
        out = func(*args, **kwargs)
        if not self.is_whole(t) or type(source) is not self.tensor:
            return out
        covers = t.numel() * t.element_size() == self.size_of(t)
        if source.device.type == "cpu" and covers and t.is_contiguous() and source.dtype == t.dtype and source.is_contiguous():
            self.mark(t, self.size_of(t) <= LARGEST)
            return out
        known = source.device.type == "cpu" or self.storage_of(source) in self.known
        at = self.storage_of(t)
        if not known or self.size_of(t) > LARGEST or not covers and at not in self.known:
            self.known.discard(at)
            return out
        try:
            self.known.add(at)
            copies: Dict[int, Any] = {}
            a, k = self.on_host(args, kwargs, copies)
            if a is not None:
                func(*a, **k)
                self.flat(t).copy_(copies[at])
                return out
        except Exception:
            pass
        self.known.discard(at)
        return out

    def flat(self, t: Any) -> Any:
        """All of a tensor's storage in a row; making it allocates nothing."""
        flat = self.torch.empty(0, dtype=t.dtype, device=t.device)
        return flat.set_(t.untyped_storage())

    def value(self, t: Any) -> Optional[Any]:
        """A tensor of the device on the host, None where its values aren't known."""
        if t.dtype not in self.whole or self.storage_of(t) not in self.known or self.size_of(t) > LARGEST:
            return None if t.numel() else self.torch.empty(t.shape, dtype=t.dtype)
        return self.flat(t).cpu().as_strided(t.size(), t.stride(), t.storage_offset())

    def on_host(self, args: Any, kwargs: Any, copies: Optional[Dict[int, Any]] = None) -> Tuple[Any, Any]:
        """Arguments with tensors of the host; None where one isn't known."""
        copies = {} if copies is None else copies
        a = [self.hosted(x, copies) for x in args]
        k = {name: self.hosted(x, copies) for name, x in kwargs.items() if name not in ("generator", "pin_memory")}
        return (None, None) if UNKNOWN in map(id, a) or UNKNOWN in map(id, k.values()) else (a, k)

    def hosted(self, x: Any, copies: Dict[int, Any]) -> Any:
        """An argument with tensors of the host; a mark where one isn't known. No reference may outlive the call."""
        if isinstance(x, self.tensor):
            if not x.is_cuda:
                return x
            at = self.storage_of(x)
            if type(x) is not self.tensor or x.dtype not in self.whole or at not in self.known or self.size_of(x) > LARGEST:
                return unknown
            if at not in copies:
                copies[at] = self.flat(x).cpu()
            return copies[at].view(x.dtype).as_strided(x.size(), x.stride(), x.storage_offset())
        if isinstance(x, self.torch.device):
            return self.torch.device("cpu")
        if type(x) in (list, tuple):
            parts = [self.hosted(y, copies) for y in x]
            return unknown if UNKNOWN in map(id, parts) else type(x)(parts)
        return x

    # Numbers that the program reads.

    def read(self, func: Any, args: Any, kwargs: Any) -> Any:
        t = args[0]
        if not t.is_cuda:
            return func(*args, **kwargs)
        if t.dtype in self.whole and self.storage_of(t) in self.known:
            return func(*args, **kwargs)
        value = func(*args, **kwargs)
        self.assumed.read(t, value)
        return value

    def suppress(self, func: Any, args: Any, kwargs: Any) -> Any:
        """torchvision::nms: as many boxes as are assumed."""
        boxes = args[0]
        if not boxes.is_cuda:
            return func(*args, **kwargs)
        func(*args, **kwargs)  # with its temporaries
        n = self.assumed.rows("nms", boxes, int(boxes.shape[0]), 8)
        return self.torch.empty((n,), dtype=self.torch.int64, device=boxes.device)


def plainly(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def leave_out_initialisation(torch: Any) -> None:
    """torch.nn.init's functions return large tensors of the host as they are."""
    init = torch.nn.init
    for name in INITIALISERS:
        function = getattr(init, name, None)
        if function is None:
            continue

        def initialise(tensor: Any, *args: Any, _function: Any = function, **kwargs: Any) -> Any:
            if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu" and \
                    tensor.numel() * tensor.element_size() >= LARGE:  # fmt: skip
                return tensor
            return _function(tensor, *args, **kwargs)

        initialise.__name__ = name
        setattr(init, name, initialise)
