"""What `vramscope run` puts into a program: called at the end of `import torch`.

It does nothing without VRAMSCOPE_RUN in the environment. Nothing in here may
raise, print, start a thread or a process, or bring CUDA up: the program must run
as it would have run. The folder is copied as it is to where PYTHONPATH points, so
its modules import each other relatively, and from outside only what `import torch`
has loaded already.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["start"]

_started: object = None


def start() -> None:
    """The entry point of the group `torch.backends`: an exception would break `import torch`."""
    global _started
    if _started is not None or not os.environ.get("VRAMSCOPE_RUN"):
        return
    for name in ("vramscope_hook", "vramscope._hook"):  # the wheel and PYTHONPATH may both have brought it
        other = sys.modules.get(name)
        if other is not None and getattr(other, "_started", None) is not None:
            return
    try:
        from . import recorder

        _started = recorder.install(sys.modules["torch"], os.environ)
    except Exception:
        _started = False
    if _started and os.environ.get("VRAMSCOPE_SIMULATE"):
        _simulate(_started)


def _simulate(recorder: Any) -> None:
    """A process on a simulated GPU; what fails is told, as the answer hangs on it."""
    try:
        from . import simulated

        simulated.install(sys.modules["torch"], recorder, os.environ)
    except Exception as e:
        recorder.failed("simulate", e)
