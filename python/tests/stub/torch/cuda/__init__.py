"""The device: addresses in one segment after another, a trace, and observers."""

import os
import sys

from . import memory

_queued = []
_up = False
_bad_fork = False


class _Device:
    def __init__(self):
        self.capacity = int(os.environ.get("STUB_TORCH_CAPACITY", str(1 << 40)))
        self.live, self.next, self.used, self.made, self.peak = {}, 0x7F0000000000, 0, 0, 0
        self.observers, self.trace, self.recording, self.entries = [], [], None, 0

    def frames(self):
        if self.recording is None:
            return []
        frame, found = sys._getframe(2), []
        while frame is not None and len(found) < 50:
            code = frame.f_code
            if "/stub/torch/" not in code.co_filename:
                found.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
            frame = frame.f_back
        return found

    def note(self, action, address, size, frames=None):
        if self.recording is not None:
            entry = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.made,
                     "frames": self.frames() if frames is None else frames}
            if action == "oom":
                entry["device_free"] = entry.pop("addr")
            self.trace.append(entry)
            del self.trace[: -self.entries]

    def malloc(self, size):
        if self.used + size > self.capacity:
            self.note("oom", self.capacity - self.used, size)
            for observer in self.observers:
                observer(0, size, self.used, self.capacity - self.used)
            raise sys.modules["torch"].OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")
        address, self.next = self.next, self.next + (size + (1 << 21) - 1 >> 21 << 21)
        self.live[address] = (size, self.frames())
        self.used, self.made = self.used + size, self.made + 1
        self.peak = max(self.peak, self.used)
        self.note("segment_alloc", address, size)
        self.note("alloc", address, size)
        return address

    def free(self, address):
        size, _ = self.live.pop(address)
        self.used -= size
        for action in ("free_requested", "free_completed", "segment_free"):
            self.note(action, address, size, [])


_device = _Device()


def is_initialized():
    return _up


def is_available():
    return True


def device_count():
    return 1


def get_device_properties(device=0):
    return type("Properties", (), {"total_memory": _device.capacity})


def get_device_name(device=0):
    return "Stand-in"


def _lazy_call(callable, **_):
    if _up:
        callable()
    else:
        _queued.append(callable)


def _lazy_init():
    global _up
    if _up:
        return
    if _bad_fork:
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess.")
    for call in _queued:
        call()
    _up = True


init = _lazy_init


def memory_stats(device=0):
    return {"allocation.all.allocated": _device.made, "allocation.all.freed": _device.made - len(_device.live),
            "reserved_bytes.all.peak": _device.peak,
            "reserved_bytes.all.current": _device.used,
            "allocated_bytes.all.current": _device.used, "allocated_bytes.all.peak": _device.peak}


def memory_stats_as_nested_dict(device=0):
    return {"allocation": {"all": {"allocated": _device.made, "freed": _device.made - len(_device.live)}},
            "allocated_bytes": {"all": {"current": _device.used}}}


def _after_fork():
    global _bad_fork
    _bad_fork = _up


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


OutOfMemoryError = sys.modules["torch"].OutOfMemoryError
