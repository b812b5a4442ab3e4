"""What `vramscope attach` has a program do that was started without a recorder.

It runs on the program's main thread, between two of its instructions, and leaves
nothing behind: no hook, no thread, no handler, and no module once it is done.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any, Dict, Optional

from . import files, options
from .recorder import Recorder

KEPT = "recorder"  # where the package keeps a recorder between the first and the last visit


def visit(package: types.ModuleType, folder: str, wanted: str, what: str, answer: str) -> None:
    """Dumps what is held ("look"), begins to record ("begin"), or dumps the recording and ends it ("end"). What came
    of it lies in the file `answer` when the visit is over; it raises nothing."""
    said: Dict[str, Any] = {"done": False, "why": ""}
    try:
        why = _visit(package, folder, wanted, what)
        said = {"done": why is None, "why": why or ""}
    except BaseException as e:
        said["why"] = f"{type(e).__name__}: {str(e)[:300]}"
    try:
        files.write_json(answer, said, 0o600)
    except BaseException:
        pass
    if what != "begin" or not said["done"]:
        for name in [n for n in sys.modules if n.split(".")[0] == package.__name__]:
            sys.modules.pop(name, None)


def _visit(package: types.ModuleType, folder: str, wanted: str, what: str) -> Optional[str]:
    """Why nothing could be done; None when it was."""
    if what == "end":
        return _end(getattr(package, KEPT))
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return "it hasn't imported PyTorch"
    if not torch.cuda.is_initialized():
        return "CUDA isn't up in it"
    recorder = Recorder(torch, options.read({options.RUN: folder, options.OPTIONS: wanted}))
    recorder.state = "cuda"
    if what == "look":
        return _dumped(recorder, not _records(torch))
    if _records(torch):
        return "it records itself, or `vramscope run` does: without --record the dump has its events"
    recorder.again = True
    recorder._switch_on(recorder._stacks())
    if recorder.mode not in options.EVENT_BYTES:
        recorder.report()
        return next(iter(recorder.notes), "it can't be recorded")
    setattr(package, KEPT, recorder)
    recorder.report()
    return None


def _records(torch: Any) -> bool:
    """Whether the allocator keeps a history."""
    ask = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return bool(ask()) if ask is not None else False


def _end(recorder: Recorder) -> Optional[str]:
    try:
        return _dumped(recorder, False)
    finally:
        recorder.record(None)


def _dumped(recorder: Recorder, alone: bool) -> Optional[str]:
    if recorder.pid != os.getpid():
        return "it is a fork of the process that was recorded"
    if recorder.dump("attach", alone=alone):
        return None
    return next(iter(recorder.notes), "it holds nothing on the GPU")
