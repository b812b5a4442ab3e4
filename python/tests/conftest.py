"""Runs programs under `vramscope run`, with a stand-in for PyTorch that needs no GPU."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from typing import Any, Dict, List, Optional

import pytest

HERE = pathlib.Path(__file__).resolve().parent
STUB = HERE / "stub"

try:
    import vramscope
except ImportError:  # a checkout
    sys.path.insert(0, str(HERE.parent))
    import vramscope

from vramscope._binary import find  # noqa: E402

assert vramscope.__version__

# A shell without job control starts what it puts into the background with Ctrl-C ignored, and programs inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Done:
    """What a run left."""

    def __init__(self, folder: pathlib.Path, done: "subprocess.CompletedProcess[bytes]") -> None:
        self.folder, self.code = folder, done.returncode
        self.stdout, self.stderr = done.stdout.decode(), done.stderr.decode()

    @property
    def record(self) -> Dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    @property
    def processes(self) -> List[Dict[str, Any]]:
        return self.record["processes"]

    @property
    def why(self) -> List[List[str]]:
        """The reasons of the dumps that are kept, by process."""
        return [[d["why"] for d in p["dumps"] if d["file"]] for p in self.processes]

    @property
    def files(self) -> List[str]:
        return sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("."))

    def holders(self, why: str) -> Dict[str, Dict[str, Any]]:
        (name,) = [d["file"] for d in self.processes[0]["dumps"] if d["why"] == why]
        text = (self.folder / name.replace(".pickle.gz", ".holders.json")).read_text()
        return {h["path"]: h for h in json.loads(text)["holders"]}


class Lab:
    """A folder with a program in it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.out = folder / "out"

    def write(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def environment(self, extra: Optional[Dict[str, str]] = None) -> Dict[str, str]:
        env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
        return {**env, "PYTHONPATH": str(STUB), "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}

    def run(self, program: str = "", *flags: str, command: Optional[List[str]] = None, **env: str) -> Done:
        """Runs a program, given as text or as a command."""
        if command is None:
            command = [sys.executable, str(self.write("program.py", program))]
        line = [find(), "run", "-o", str(self.out), *flags, "--", *command]
        return Done(self.out, subprocess.run(line, capture_output=True, env=self.environment(env), cwd=self.folder, timeout=120))

    def plain(self, *command: str, **env: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(command, capture_output=True, env=self.environment(env), cwd=self.folder, timeout=120)


@pytest.fixture
def lab(tmp_path: pathlib.Path) -> Lab:
    return Lab(tmp_path)
