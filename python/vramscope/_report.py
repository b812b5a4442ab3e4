"""Analyses files with the command, and holds what it says."""

from __future__ import annotations

import html
import json
import os
import subprocess
import tempfile
from typing import Any, Dict, List, Union

from ._binary import find

Path = Union[str, "os.PathLike[str]"]


class AnalysisError(ValueError):
    """The inputs can't be used; the text says which, where and why."""


def _run(arguments: List[str]) -> str:
    done = subprocess.run([find(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode:
        text = done.stderr.decode("utf-8", "replace").strip()
        raise AnalysisError(text[len("vramscope: ") :] if text.startswith("vramscope: ") else text)
    return done.stdout.decode("utf-8", "replace")


def _flags(options: Dict[str, Any]) -> List[str]:
    """Options as flags: `gpu="H100 80GB"` is --gpu, `partial=True` is --partial, lists repeat a flag."""
    flags: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                flags.append(f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return flags


def analyze(*paths: Path, **options: Any) -> "Report":
    """Analyses the files of one run, or its directory, as `vramscope analyze` does.

    Options are the command's flags with underscores: ``gpu="80GiB"``, ``redact=True``,
    ``config="config.json"``. Raises AnalysisError where the command would refuse.
    """
    if not paths:
        raise TypeError("analyze() needs a recording, a log or a run's directory")
    names = [os.fspath(p) for p in paths]
    flags = _flags(options)
    return Report(json.loads(_run(["analyze", "--format=json", *flags, "--", *names])), names, flags)


class Report:
    """What was found. `.json` is the whole report, of the schema that doc/json.md describes."""

    def __init__(self, document: Dict[str, Any], paths: List[str], flags: List[str]) -> None:
        self.json = document
        self._paths, self._flags = paths, flags

    @property
    def verdict(self) -> Dict[str, Any]:
        """The one sentence, with its severity, the first change and what that saves."""
        return dict(self.json["verdict"])

    @property
    def devices(self) -> List[Dict[str, Any]]:
        return list(self.json["devices"])

    @property
    def findings(self) -> List[Dict[str, Any]]:
        """The findings of all devices, the weightiest of each first; `device` tells them apart."""
        return [{"device": d["device"], **f} for d in self.devices for f in d["findings"]]

    def __str__(self) -> str:
        return str(self.verdict["text"])

    def __repr__(self) -> str:
        return f"<vramscope.Report {self.verdict['severity']}: {self}>"

    def text(self) -> str:
        """The report as the terminal shows it."""
        return _run(["analyze", *self._flags, "--", *self._paths])

    def html(self) -> str:
        """The page: one file without anything from outside."""
        return _run(["analyze", "--format=html", *self._flags, "--", *self._paths])

    def _repr_html_(self) -> str:
        """The page in a frame of its own, which can reach nothing of the notebook."""
        page = html.escape(self.html(), quote=True)
        return f'<iframe sandbox="allow-scripts" srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'

    def to_arrow(self, table: str) -> Any:
        """A table (allocations, categories, findings, stacks, …; doc/tables.md) as a pyarrow.Table."""
        try:
            import pyarrow as pa
        except ImportError as e:
            raise ImportError("to_arrow needs pyarrow: pip install pyarrow") from e
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "table.arrow")
            _run(["export", "--table", table, "--format=arrow", "-o", out, "--", *self._paths])
            with open(out, "rb") as f:
                return pa.ipc.open_stream(f).read_all()

    def to_pandas(self, table: str) -> Any:
        """The same as a pandas.DataFrame."""
        return self.to_arrow(table).to_pandas()
