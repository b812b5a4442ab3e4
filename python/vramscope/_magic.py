"""%%vram: what a cell did to the GPU's memory, and what it left there. %vram: what is there now, by variable."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, List, Tuple

from ._hook import options
from ._hook.recorder import Recorder
from ._short import size as written


def load(shell: Any) -> None:
    """Registers the magic with a notebook's or IPython's shell."""
    shell.register_magic_function(lambda line, cell: vram(shell, line, cell), magic_kind="cell", magic_name="vram")
    shell.register_magic_function(lambda line: print(now()), magic_kind="line", magic_name="vram")


def now() -> str:
    """What is on the GPU now, by variable."""
    import torch

    if not torch.cuda.is_initialized():
        return "on the GPU: nothing, CUDA isn't up"
    whole, held = Recorder(torch, options.Options("")).look()
    lines = [f"on the GPU: {written(whole)}"] + [f"  {written(h['bytes']):>10}  {h['path']}" for h in held]
    rest = whole - sum(h["bytes"] for h in held)
    return "\n".join(lines + [f"  {written(rest):>10}  others, or nobody that was found"] * (rest > 0))


def vram(shell: Any, line: str, cell: str) -> Any:
    """Runs the cell while it is recorded, and shows the report; a name behind %%vram is the folder to keep."""
    from . import analyze, recording

    import torch

    folder = _free(line.strip() or os.path.join(tempfile.mkdtemp(prefix="vramscope-"), "cell"))
    torch.cuda.init()
    before, made = _live(torch), _made(torch)
    with recording(folder) as recorder:
        result = shell.run_cell(cell)
    print(_left(torch, before, folder))
    if _made(torch) == made and not recorder.ooms or not any(d["file"] for d in recorder.dumps):
        return None  # the cell did nothing on the GPU
    report = analyze(folder)
    if not result.success:
        print(report)
    return report


def _free(folder: str) -> str:
    """The folder, or with a number behind: cells are run again."""
    n, name = 1, folder
    while os.path.exists(name):
        n, name = n + 1, f"{folder}-{n + 1}"
    return name


def _made(torch: Any) -> Any:
    """How many allocations have been made."""
    return torch.cuda.memory_stats().get("allocation.all.allocated")


def _live(torch: Any) -> Dict[int, int]:
    """The allocations there are, by address, and their sizes."""
    found = {}
    alone = Recorder(torch, options.Options("")).state_alone()
    for segment in (alone or torch.cuda.memory._snapshot())["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                found[address] = block["size"]
            address += block["size"]
    return found


def _left(torch: Any, before: Dict[int, int], folder: str) -> str:
    """What is alive now and wasn't before, by the variables that hold it."""
    now = {address: size for address, size in _live(torch).items() if address not in before}
    if not now:
        return "left on the GPU: nothing"
    held: List[Tuple[int, str]] = []
    for name in sorted(os.listdir(folder), reverse=True):
        if name.endswith("-exit.holders.json"):
            with open(os.path.join(folder, name)) as f:
                for h in json.load(f)["holders"]:
                    size = sum(now.get(a, 0) for a in {*h["tensors"], *h["graph"]})
                    if size:
                        held.append((size, h["path"]))
            break
    held.sort(key=lambda h: (-h[0], h[1]))
    lines = [f"left on the GPU: {written(sum(now.values()))} in {len(now)} allocations"]
    lines += [f"  {written(size):>10}  {path}" for size, path in held[:10]]
    return "\n".join(lines)
