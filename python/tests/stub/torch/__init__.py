"""A stand-in for PyTorch in tests: the functions that the recorder calls, over a device that only counts.

It imports nothing that the real one doesn't, calls the entry points of `torch.backends` where the real one
does, and keeps a trace and segments in the form of real snapshots. What it is told by the environment:
STUB_TORCH_VERSION, STUB_TORCH_CAPACITY (bytes), STUB_TORCH_ALLOCATOR (native, or one without a history).
"""

import ctypes  # noqa: F401
import json  # noqa: F401
import os
import pickle  # noqa: F401
import sys
import zlib  # noqa: F401

__version__ = os.environ.get("STUB_TORCH_VERSION", "2.15.0")


class _Version:
    cuda = "13.2"


version = _Version()


class _DisableTorchFunction:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class _Storage:
    def __init__(self, size):
        self.size = size
        self.address = cuda._device.malloc(size)

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size

    def __del__(self):
        try:
            cuda._device.free(self.address)
        except Exception:
            pass


class _TensorBase:
    """Its fields are in slots that look like the interpreter's own, as the real one's are in C++."""

    __module__ = "builtins"
    __slots__ = ("_storage", "_fn", "_grad", "_backward_hooks")

    is_cuda = property(lambda self: True)
    is_leaf = property(lambda self: self._fn is None)
    grad = property(lambda self: self._grad)
    grad_fn = property(lambda self: self._fn)

    def untyped_storage(self):
        return self._storage

    def get_device(self):
        return 0


class Tensor(_TensorBase):
    """A tensor is its bytes."""

    def __init__(self, size, fn=None):
        self._storage, self._fn, self._grad, self._backward_hooks = _Storage(size), fn, None, None

    def view(self):
        """Another tensor of the same storage."""
        found = Tensor.__new__(Tensor)
        found._storage, found._fn, found._grad, found._backward_hooks = self._storage, self._fn, None, None
        return found

    def __eq__(self, other):
        raise AssertionError("a value was compared")

    __hash__ = object.__hash__

    def __bool__(self):
        raise AssertionError("a value was read")

    def __repr__(self):
        raise AssertionError("a value was printed")


class _SavedTensor:
    def __init__(self, data):
        self.data = data


class _Node:
    """A node of an autograd graph, with what it saved."""

    def __init__(self, saved, following):
        self._saved, self.next_functions = saved, tuple((f, 0) for f in following)

    @property
    def _raw_saved_self(self):
        return _SavedTensor(self._saved)


class _C:
    TensorBase = _TensorBase
    DisableTorchFunction = _DisableTorchFunction
    _FunctionBase = type("_FunctionBase", (), {})

    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        cuda._device.observers.append(observer)

    @staticmethod
    def _cuda_isHistoryEnabled():
        return cuda._device.recording

    @staticmethod
    def _cuda_memorySnapshot(what):
        return {**cuda.memory._snapshot(), "device_traces": [[]]} if what == (0, 0, False) else cuda.memory._snapshot()


def __getattr__(name):
    if name == "_inductor":
        globals()["compiler"] = "imported"  # which takes the real one seconds
    raise AttributeError(name)


class OutOfMemoryError(RuntimeError):
    pass


from . import cuda, nn, optim  # noqa: E402


def zeros(size):
    cuda._lazy_init()
    return Tensor(size)


def operation(tensor, size):
    """A tensor computed from another, which the graph saves."""
    return Tensor(size, _Node(tensor, [tensor._fn] if tensor._fn else []))


if os.environ.get("STUB_TORCH_EAGER"):
    cuda._lazy_init()

if tuple(int(p) for p in __version__.split(".")[:2]) >= (2, 5) and os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
    from importlib.metadata import entry_points

    found = entry_points()
    found = found.select(group="torch.backends") if hasattr(found, "select") else found.get("torch.backends", ())
    for _entry in found:
        try:
            _entry.load()()
        except Exception as err:
            raise RuntimeError(f"Failed to load the backend extension: {_entry.name}") from err
del sys
