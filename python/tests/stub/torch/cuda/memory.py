"""The recorder's functions."""

import os
import sys


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
    device = sys.modules["torch.cuda"]._device
    if os.environ.get("STUB_TORCH_ALLOCATOR", "native") != "native":
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory.\nException raised from recordHistory")
    if enabled is None:
        device.trace.clear()
    device.recording, device.entries = enabled, min(max_entries, 1_000_000)


def _snapshot(device=None):
    hasattr(sys.modules["torch"], "_inductor")  # the real one asks it for names
    exec("")  # the real one's first call imports much, which makes Python forget a KeyboardInterrupt
    d = sys.modules["torch.cuda"]._device
    segments = [
        {"device": 0, "address": address, "total_size": size, "allocated_size": size, "active_size": size,
         "requested_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
         "frames": frames, "blocks": [{"address": address, "size": size, "requested_size": size, "state": "active_allocated",
                                       "frames": frames}]}
        for address, (size, frames) in sorted(d.live.items())
    ]
    return {"segments": segments, "device_traces": [list(d.trace)], "allocator_settings": {}, "external_annotations": []}
