"""Records a part of a program that may be edited."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, Union

from ._hook import options
from ._hook.recorder import Recorder


@contextlib.contextmanager
def recording(
    out: Union[str, "os.PathLike[str]"], stacks: str = "all", max_entries: int = 1_000_000, holders: bool = True
) -> Iterator[Recorder]:
    """Records what happens inside, into the folder `out`: a dump at each out-of-memory error, before it unwinds, and
    one at the end. `.dump("step")` of what is yielded writes one in between. What records already is left alone.

    Unlike `vramscope run` this brings CUDA up. The folder is read by `vramscope.analyze(out)`.
    """
    if stacks not in options.EVENT_BYTES:
        raise ValueError(f"stacks={stacks!r}: all, python or none")
    import torch

    folder = os.path.abspath(os.fspath(out))
    if os.path.isdir(folder) and any(name.endswith(".pickle.gz") for name in os.listdir(folder)):
        raise FileExistsError(f"{out}: holds a recording already; give another folder")
    os.makedirs(folder, exist_ok=True)
    torch.cuda.init()
    ring = max_entries * options.EVENT_BYTES[stacks]
    recorder = Recorder(torch, options.Options(folder, stacks=stacks, ring=ring, holders=holders))
    recorder.enter()
    try:
        yield recorder
    finally:
        recorder.leave()
