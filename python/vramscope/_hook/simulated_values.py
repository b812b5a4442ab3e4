"""Values where a program needs them, on a device that computes nothing.

Integers of up to 64 KiB and up to 8 KiB of real numbers (steps, scales, tables of schedules) keep their values: what the
host wrote is remembered by the library, and a function whose inputs are known is computed on the CPU too, its result
written to the device. What is allocated stays as it is: this stands at Python's border, and PyTorch's own code below it
runs as without. On the host, random numbers and copies of large tensors
are left out, so that a model's pages are never touched. What isn't known reads as zeros, and so does what follows from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

LARGEST = 64 << 10  # bytes of a tensor whose values are kept: the library remembers no more
FEW = 8 << 10  # bytes of a tensor of real numbers whose values are kept
LARGE = 1 << 20  # bytes of a tensor of the host whose numbers are left out

FILLS = frozenset(("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_", "bernoulli_", "trunc_normal_"))
FACTORIES = frozenset(("rand", "randn", "zeros"))
LIKE = frozenset(("rand_like", "randn_like", "zeros_like"))
CONVERSIONS = frozenset(("to", "clone", "half", "float", "bfloat16", "double", "cuda", "cpu", "type", "contiguous"))
# Of a tensor of which nothing is known, and which reads as zeros, these say what they say of zeros.
PREDICATES = frozenset(("isfinite", "isnan", "isinf", "isposinf", "isneginf", "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__",
                        "__lt__", "__le__", "__gt__", "__ge__", "logical_not", "logical_and", "logical_or", "__invert__", "__and__",
                        "__or__", "__rand__", "__ror__", "bitwise_not", "bitwise_and", "bitwise_or", "all", "any"))  # fmt: skip
UNFILLED = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"))
READS = frozenset(("item", "__bool__", "__int__", "__float__", "__index__", "is_nonzero"))
COMPARISONS = frozenset(("equal", "allclose"))
PLAIN = frozenset(("__get__", "__set__", "__delete__", "size", "dim", "stride", "numel", "nelement", "element_size", "data_ptr",
                   "is_contiguous", "__len__", "__repr__", "__format__", "__hash__", "backward", "register_hook", "untyped_storage",
                   "requires_grad_", "detach_", "record_stream", "retain_grad", "__deepcopy__", "__reduce_ex__",
                   "set_"))  # fmt: skip
# Initialisations that compute more than a fill.
INITIALISERS = ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                "kaiming_normal_", "orthogonal_", "sparse_", "constant_")  # fmt: skip


def make(torch: Any, assumed: Any, device: "Device") -> Any:
    """The mode that stands before every function of PyTorch that Python calls."""
    from torch.overrides import TorchFunctionMode

    class Values(TorchFunctionMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.work = Work(torch, assumed, device)
            self.compiles = False

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return self.work.run(func, args, kwargs or {})

    return Values()


def leave_out_compiled(torch: Any, mode: Any) -> None:
    """Functions that torch.compile made run without the mode, which it would compile as well."""
    compile_ = torch.compile

    def without(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            mode.compiles = True
            with paused(torch, mode):
                return function(*args, **kwargs)

        ahead: Any = getattr(function, "aot_compile", None)  # which traces as well, and of which `wraps` takes a copy
        if callable(ahead):
            run.aot_compile = without(ahead)  # type: ignore[attr-defined]
        return run

    @functools.wraps(compile_)
    def compiled(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = compile_(model, *args, **kwargs)
        if model is None:  # a decorator, which comes here again
            return made
        if isinstance(made, torch.nn.Module):
            made.forward = without(made.forward)
            return made
        return without(made) if callable(made) else made

    torch.compile = compiled


@contextlib.contextmanager
def paused(torch: Any, mode: Any) -> Iterator[None]:
    """Without the mode, wherever it stands among others."""
    c = torch._C
    stack = standing(c)
    others = [m for m in stack if m is not mode]
    if len(others) == len(stack):
        yield
        return
    change(c, stack, others)
    try:
        yield
    finally:
        change(c, others, stack)


@contextlib.contextmanager
def within(torch: Any, mode: Any) -> Iterator[None]:
    """With the mode, which isn't there while a function runs that it stands before; not where a program was compiled."""
    if mode is None or mode.compiles or any(m is mode for m in standing(torch._C)):
        yield
        return
    with mode:
        yield


def standing(c: Any) -> List[Any]:
    """The modes that stand before functions, the last one first to be asked."""
    return [c._get_function_stack_at(i) for i in range(c._len_torch_function_stack())]


def change(c: Any, before: Any, after: Any) -> None:
    for _ in before:
        c._pop_torch_function_stack()
    for m in after:
        c._push_on_torch_function_stack(m)


def beside(keep: Callable[..., None]) -> Callable[..., None]:
    """What is only noted of a program's tensors never fails it: they may be of kinds that nobody has seen."""

    @functools.wraps(keep)
    def run(*args: Any) -> None:
        try:
            keep(*args)
        except Exception:
            pass

    return run


class Device:
    """What the library remembers at addresses."""

    def __init__(self, library: Any) -> None:
        self._forget = getattr(library, "vramscope_simulated_forget", None)
        self._known = getattr(library, "vramscope_simulated_known", None)
        if self._known is not None:
            self._known.argtypes = (ctypes.c_uint64, ctypes.c_uint64)
        self._turn = getattr(library, "vramscope_simulated_turn", None)
        if self._turn is not None:
            self._turn.argtypes, self._turn.restype = (ctypes.c_uint64,), ctypes.c_uint64
        if self._forget is not None:
            self._forget.argtypes = (ctypes.c_uint64, ctypes.c_uint64)

    def forget(self, address: int, size: int) -> None:
        """What is remembered there isn't so any more."""
        if self._forget is not None and address:
            self._forget(address, size)

    def known(self, address: int, size: int) -> bool:
        """Whether the host wrote all of it."""
        return self._known is not None and bool(self._known(address, size))

    def turn(self, address: int) -> int:
        """Which of all blocks that PyTorch's allocator has handed out lies there."""
        return int(self._turn(address)) if self._turn is not None else 0


class Work:
    """What is done beside functions."""

    def __init__(self, torch: Any, assumed: Any, device: Device) -> None:
        self.torch, self.assumed = torch, assumed
        self.forget, self.known, self.turn = device.forget, device.known, device.turn
        self.tensor, self.strided = torch.Tensor, torch.strided
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.whole = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
        self.real = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))
        self.alike: Dict[int, Tuple[Any, int]] = {}  # larger results of predicates: what all elements are, with the block's turn
        # Storages on the device whose values are kept, by address, with the turn of its block: true ones, or what follows
        # from zeros where nobody knows.
        self.values: Dict[int, Tuple[bool, int]] = {}
        self.ways: Dict[Any, Callable[..., Any]] = {}
        self.computed = 0
        self.capturing = torch.cuda.is_current_stream_capturing

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        way = self.ways.get(func)
        if way is None:
            way = self.ways[func] = self.way_of(getattr(func, "__name__", ""), func)
        return way(func, args, kwargs)

    def way_of(self, name: str, func: Any) -> Callable[..., Any]:
        """How a function is met."""
        if "nms" in name and "torchvision" in str(func):
            return self.suppress
        for names, way in ((PLAIN, plainly), (READS, self.read), (COMPARISONS, self.compare), (FILLS, self.fill),
                           (CONVERSIONS, self.converted), (FACTORIES, self.factory), (LIKE, self.like),
                           (UNFILLED, self.unfilled)):  # fmt: skip
            if name in names:
                return way
        if name == "copy_":
            return self.copied
        if name in PREDICATES:
            return self.predicate
        in_place = name.endswith("_") and not name.startswith("__") or name == "__setitem__" or name.startswith("__i") and \
            name not in ("__invert__", "__index__", "__int__")  # fmt: skip
        return self.changed if in_place else self.made

    # Tensors of the host.

    def is_large(self, t: Any) -> bool:
        return isinstance(t, self.tensor) and t.device.type == "cpu" and t.dtype.is_floating_point and t.layout is self.strided \
            and type(t) in self.plain and t.numel() * t.element_size() >= LARGE  # fmt: skip

    def fill(self, func: Any, args: Any, kwargs: Any) -> Any:
        return args[0] if args and self.is_large(args[0]) else self.changed(func, args, kwargs)

    def converted(self, func: Any, args: Any, kwargs: Any) -> Any:
        t = args[0]
        if self.is_large(t):
            sample = func(self.torch.empty(0, dtype=t.dtype), *args[1:], **kwargs)
            if isinstance(sample, self.tensor) and sample.device.type == "cpu" and sample.dtype.is_floating_point:
                same = sample.dtype == t.dtype and func.__name__ != "clone" and not kwargs.get("copy")
                if not same or not t.is_contiguous() and func.__name__ == "contiguous":
                    out = self.torch.empty_like(t, dtype=sample.dtype)
                    return out.requires_grad_(t.requires_grad) if t.is_leaf else out
        out = func(*args, **kwargs)
        if self.is_whole(out) and not t.is_cuda:
            self.mark(out, self.is_kept(out))
        else:
            self.kept(func, args, kwargs, out)
        return out

    def factory(self, func: Any, args: Any, kwargs: Any) -> Any:
        dtype, device = kwargs.get("dtype") or self.torch.get_default_dtype(), kwargs.get("device")
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        empty = None
        if (device is None or self.torch.device(device).type == "cpu") and not kwargs.get("out") and not kwargs.get("pin_memory"):
            empty = self.instead(func, shape or kwargs.get("size", ()), dtype, kwargs)
        return self.made(func, args, kwargs) if empty is None else empty

    def like(self, func: Any, args: Any, kwargs: Any) -> Any:
        t: Any = args[0] if args else None
        if self.is_large(t) and kwargs.get("device") is None:
            empty = self.instead(func, tuple(t.shape), kwargs.get("dtype") or t.dtype, kwargs)
            if empty is not None:
                return empty
        return self.made(func, args, kwargs)

    def instead(self, func: Any, shape: Any, dtype: Any, kwargs: Any) -> Any:
        """A tensor of the host without its numbers, None where those are needed."""
        if not dtype.is_floating_point or kwargs.get("layout") or kwargs.get("names") or kwargs.get("memory_format"):
            return None
        size = dtype.itemsize
        for n in shape:
            if not isinstance(n, int) or n < 0:
                return None
            size *= n
        if size < LARGE:
            return None
        if func.__name__.startswith("zeros"):  # pages of zeros that nobody has touched
            out = self.torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
        else:
            out = self.torch.empty(shape, dtype=dtype, device="cpu")
        return out.requires_grad_(bool(kwargs.get("requires_grad")))

    # Tensors of the device.

    def storage_of(self, t: Any) -> int:
        return int(t.untyped_storage().data_ptr())

    def size_of(self, t: Any) -> int:
        return int(t.untyped_storage().nbytes())

    def mark(self, t: Any, known: bool) -> None:
        at = self.storage_of(t)
        self.values.pop(at, None)
        if not known:
            self.forget(at, self.size_of(t))
        if at and self.is_kept(t):
            self.note(at, known)

    def note(self, at: int, known: bool) -> None:
        self.values[at] = (known, self.turn(at))

    def noted(self, at: int) -> Optional[bool]:
        """Whether the values of a storage are true ones, None where nothing is kept of it."""
        found = self.values.get(at)
        if found is None:
            return None
        if found[1] != self.turn(at):  # another tensor's, which no function of Python has made
            del self.values[at]
            return None
        return found[0]

    def seen(self, t: Any) -> Optional[bool]:
        """As noted, of a tensor; what the host wrote where no function of Python saw it, such as a checkpoint's, is true."""
        at = self.storage_of(t)
        found = self.noted(at)
        if found is not False and self.is_kept(t):
            known = self.known(at, self.size_of(t))
            if known or found:
                found = known  # the library remembers only so much
                self.note(at, known)
        return found

    def is_kept(self, t: Any) -> bool:
        """Whether values of its type and size are kept."""
        dtype = t.dtype
        return dtype in self.whole and self.size_of(t) <= LARGEST or dtype in self.real and self.size_of(t) <= FEW

    def is_whole(self, out: Any) -> bool:
        """Whether it is a tensor of which something has to be noted: one of integers, or a small one."""
        return type(out) is self.tensor and out.is_cuda and out.layout is self.strided and \
            (out.dtype in self.whole or self.size_of(out) <= FEW)  # fmt: skip

    def unfilled(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if self.is_whole(out):
            self.mark(out, False)
        return out

    def made(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A function that makes its result."""
        assumed = self.assumed
        before = assumed.count
        out = func(*args, **kwargs)
        if assumed.hanging or assumed.count != before:
            assumed.follow(func, args, out, assumed.count != before)
        self.kept(func, args, kwargs, out)
        return out

    def predicate(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = self.made(func, args, kwargs)
        if type(out) is self.tensor and out.is_cuda and out.dtype is self.torch.bool:
            self.predicted(func, args, kwargs, out)
        return out

    @beside
    def predicted(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """What a predicate says of tensors of which nothing is known: the same as of zeros."""
        at = self.storage_of(out)
        if self.noted(at) and self.is_kept(out) or self.is_view(out, args) or self.capturing():
            return
        few = [self.one(x) for x in args]
        if kwargs or any(x is unknown for x in few):
            return
        value = bool(func(*few).all() if func.__name__ != "any" else func(*few).any())
        if len(self.alike) > 1000:
            self.alike.clear()
        self.alike[at] = (value, self.turn(at))
        if self.is_kept(out) and out.is_contiguous():
            out.data.copy_(self.torch.full(out.shape, value))
            self.note(at, False)

    def one(self, x: Any) -> Any:
        """An element that stands for a tensor's, as all are taken to be the same."""
        if not isinstance(x, self.tensor):
            return unknown if isinstance(x, (tuple, list)) else x
        if not x.is_cuda:
            return x if x.dim() == 0 else unknown
        if type(x) not in self.plain:
            return unknown
        at = self.storage_of(x)
        if self.is_kept(x) and self.seen(x) is not None:
            host = self.flat(x).cpu().as_strided(x.size(), x.stride(), x.storage_offset()).flatten()
            return host[:1] if len(host) and bool((host == host[0]).all()) else unknown
        value, turn = self.alike.get(at, (0, 0))
        if turn != self.turn(at):
            value = 0
        return self.torch.full((1,), value, dtype=x.dtype)

    @beside
    def kept(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Keeps the values of a result, where it has any that are known."""
        if type(out) is self.tensor:
            if self.is_whole(out) and not self.is_view(out, args):
                self.compute(func, args, kwargs, out)
        elif isinstance(out, (tuple, list)):
            for t in out:
                if self.is_whole(t) and not self.is_view(t, args):
                    self.mark(t, False)

    def is_view(self, out: Any, args: Any) -> bool:
        """Whether a result lies in the storage of an argument, whose values it has."""
        at = self.storage_of(out)
        for x in args:
            if isinstance(x, (tuple, list)):
                if self.is_view(out, x):
                    return True
            elif type(x) is self.tensor and x.is_cuda and self.storage_of(x) == at:
                return True
        return False

    def compute(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Computes a result on the CPU as well, where all of it is known."""
        self.mark(out, False)
        if not self.is_kept(out) or not out.is_contiguous() or self.capturing():
            return
        try:
            copies: Dict[int, Any] = {}
            a, k = self.on_host(args, kwargs, copies)
            if a is None:
                return
            value = self.on_cpu(func, a, k)
            if type(value) is self.tensor and value.shape == out.shape and value.dtype == out.dtype and not value.is_cuda:
                out.data.copy_(value)  # which autograd doesn't see
                self.computed += 1
                self.note(self.storage_of(out), all(self.noted(at) for at in copies))
        except Exception:  # a function that the CPU doesn't have
            pass

    def on_cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Calls a function that may take random numbers: the program's own on the CPU stay what they would be."""
        numbers = self.torch.default_generator
        before = numbers.get_state()
        try:
            return func(*args, **kwargs)
        finally:
            numbers.set_state(before)

    def changed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A function that changes a tensor in place."""
        out = func(*args, **kwargs)
        self.lost(func, args, kwargs)
        return out

    @beside
    def lost(self, func: Any, args: Any, kwargs: Any) -> None:
        """What isn't known any more after a change, and what still is."""
        t: Any = args[0] if args else None
        if isinstance(t, (tuple, list)):
            self.changed_together(func, args, kwargs)
        elif self.is_whole(t):
            name = func.__name__
            covers = name in ("fill_", "zero_", "random_") and t.numel() * t.element_size() == self.size_of(t)
            # gradients are zeroed, and changed where nobody sees it
            self.again(func, args, kwargs, t, covers and t.dtype in self.whole)
        elif self.is_whole(kwargs.get("out")):
            self.mark(kwargs["out"], False)
        elif type(t) is not self.tensor:
            self.lose(t)

    def changed_together(self, func: Any, args: Any, kwargs: Any) -> None:
        """Of lists that are changed nothing is known any more, but for what a foreach function adds to numbers that are."""
        lists = [x for x in args if isinstance(x, (tuple, list))]
        if func.__name__.startswith("_foreach_"):
            if not self.counted(func, args, kwargs):
                for t in lists[0]:
                    self.lose(t)
            return
        for tensors in lists:
            for t in tensors:
                self.lose(t)

    def counted(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Makes the same change to lists of numbers that are known, such as steps that are counted on the device."""
        if not all(type(t) is self.tensor and t.is_cuda and self.is_kept(t) and self.seen(t) for t in args[0]):
            return False
        copies: Dict[int, Any] = {}
        try:
            a, k = self.on_host(args, kwargs, copies)
            if a is None or self.capturing():
                return False
            self.on_cpu(func, a, k)
            for t in args[0]:
                self.flat(t).copy_(copies[self.storage_of(t)])
                self.note(self.storage_of(t), all(self.noted(at) for at in copies))
        except Exception:  # a function that the CPU doesn't have
            return False
        return True

    def lose(self, t: Any) -> None:
        """Nothing is known any more of a tensor, perhaps a parameter."""
        if type(t) in self.plain and t.is_cuda and t.layout is self.strided and self.seen(t) is not None:
            self.note(self.storage_of(t), False)

    def copied(self, func: Any, args: Any, kwargs: Any) -> Any:
        """copy_."""
        t, source = args[0], args[1] if len(args) > 1 else None
        if self.is_large(t) and isinstance(source, self.tensor) and source.device.type in ("cpu", "cuda"):
            return t
        out = func(*args, **kwargs)
        if self.is_whole(t) and isinstance(source, self.tensor):
            self.again(func, args, kwargs, t, t.numel() * t.element_size() == self.size_of(t))
        return out

    def again(self, func: Any, args: Any, kwargs: Any, t: Any, covers: bool) -> None:
        """Makes the same change on the CPU, where all of it is known; it may cover the tensor wholly."""
        at = self.storage_of(t)
        before = self.seen(t)
        if before is None and not covers:
            return
        self.values.pop(at, None)
        if not self.is_kept(t) or self.capturing():
            return
        self.note(at, bool(before) or covers)  # so that what was there is taken
        try:
            copies = {at: self.flat(t).cpu()} if covers else {}
            a, k = self.on_host(args, kwargs, copies)
            if a is not None:
                self.on_cpu(func, a, k)
                self.flat(t).copy_(copies[at])
                self.computed += 1
                self.note(at, all(self.noted(x) for x in copies))
                return
        except Exception:
            pass
        self.note(at, False)  # what was there before, perhaps changed

    def flat(self, t: Any) -> Any:
        """All of a tensor's storage in a row; making it allocates nothing."""
        flat = self.torch.empty(0, dtype=t.dtype, device=t.device)
        return flat.set_(t.untyped_storage())

    def value(self, t: Any) -> Optional[Any]:
        """A tensor of the device on the host, None where its values aren't known."""
        if t.numel() == 0:
            return self.torch.empty(t.shape, dtype=t.dtype)
        if not self.is_kept(t) or not self.seen(t) or self.capturing():
            return None
        return self.flat(t).cpu().as_strided(t.size(), t.stride(), t.storage_offset())

    def on_host(self, args: Any, kwargs: Any, copies: Optional[Dict[int, Any]] = None) -> Tuple[Any, Any]:
        """Arguments with tensors of the host; None where one isn't known."""
        copies = {} if copies is None else copies
        a = [self.hosted(x, copies) for x in args]
        k = {name: self.hosted(x, copies) for name, x in kwargs.items() if name not in ("generator", "pin_memory", "device")}
        if kwargs.get("device") is not None:
            k["device"] = "cpu"
        return (None, None) if UNKNOWN in map(id, a) or UNKNOWN in map(id, k.values()) else (a, k)

    def hosted(self, x: Any, copies: Dict[int, Any]) -> Any:
        """An argument with tensors of the host; a mark where one isn't known. No reference may outlive the call."""
        if isinstance(x, self.tensor):
            if not x.is_cuda:
                return x
            at = self.storage_of(x)
            if type(x) is not self.tensor or not self.is_kept(x):
                return unknown
            if at not in copies:
                if self.seen(x) is None:
                    return unknown
                copies[at] = self.flat(x).cpu()
            return copies[at].view(x.dtype).as_strided(x.size(), x.stride(), x.storage_offset())
        if isinstance(x, self.torch.device):
            return self.torch.device("cpu")
        if type(x) in (list, tuple):
            parts = [self.hosted(y, copies) for y in x]
            return unknown if UNKNOWN in map(id, parts) else type(x)(parts)
        return x

    # Numbers that the program reads.

    def inside(self, t: Any) -> Any:
        """The tensor that a DTensor, or what a collective has yet to bring, is made of: they have no storage."""
        for name in () if type(t) is self.tensor else ("_local_tensor", "elem"):
            part = getattr(t, name, None)
            t = part if isinstance(part, self.tensor) else t
        return t

    def read(self, func: Any, args: Any, kwargs: Any) -> Any:
        t = self.inside(args[0])
        at = self.storage_of(t)
        known = self.seen(t) if t.is_cuda and self.is_kept(t) else None
        unknown = t.is_cuda and not known
        if unknown and known is None and not self.turn(at):  # not what another tensor left at this address
            self.forget(at, self.size_of(t))
        value = func(*args, **kwargs)
        if unknown:
            return self.assumed.read(t.dtype is self.torch.bool or func.__name__ in ("__bool__", "is_nonzero"), value)
        return value

    def compare(self, func: Any, args: Any, kwargs: Any) -> Any:
        value = func(*args, **kwargs)
        if any(isinstance(t, self.tensor) and t.is_cuda and self.value(self.inside(t)) is None for t in args[:2]):
            return self.assumed.read(True, value)
        return value

    def suppress(self, func: Any, args: Any, kwargs: Any) -> Any:
        """torchvision::nms: as many boxes as are assumed."""
        out = func(*args, **kwargs)  # with its temporaries
        boxes = args[0]
        if not boxes.is_cuda:
            return out
        n = self.assumed.rows("nms", boxes, int(boxes.shape[0]), 8)
        return self.torch.empty((n,), dtype=self.torch.int64, device=boxes.device)


unknown = object()  # stands for a tensor of the device whose values aren't known
UNKNOWN = id(unknown)


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
