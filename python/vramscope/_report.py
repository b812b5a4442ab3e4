"""Analyses files with the command, and holds what it says."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
from typing import Any, Dict, List, Optional, Union

from . import _short
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
    return Report(json.loads(_run(["analyze", "--format=json", "--all-steps", *flags, "--", *names])), names, flags)


class _Facts:
    """Fields that can also be read as those of a dictionary, as in the JSON."""

    def keys(self) -> List[str]:
        return [f.name for f in dataclasses.fields(self)]  # type: ignore[arg-type]

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    @classmethod
    def _of(cls, document: Dict[str, Any]) -> Any:
        return cls(**{f.name: document.get(f.name) for f in dataclasses.fields(cls)})  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict(_Facts):
    """The one sentence, with the first change and what that saves."""

    severity: str
    text: str
    fix: Optional[str]
    saves_bytes: Optional[int]
    device: Optional[int]  # an index into Report.devices
    finding: Optional[int]  # of that device's

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Verdict {self.severity}: {self.text}" + (f" First change: {self.fix}>" if self.fix else ">")


@dataclasses.dataclass(frozen=True, repr=False)
class Finding(_Facts):
    """One thing that was found, with what shows it and what to change."""

    id: str
    severity: str
    title: str
    evidence: List[str]
    fix: Optional[str]
    code: str  # to paste, "" for none
    at: Optional[Dict[str, Any]]  # function, file and line
    confidence: float
    saves_bytes: Optional[int]
    fix_id: Optional[str]
    peak_before_bytes: Optional[int]
    peak_after_bytes: Optional[int]
    fits: Optional[bool]  # does the run go through with the change
    basis: Optional[str]
    device: int  # the GPU's number

    def __repr__(self) -> str:
        return f"<Finding {self.id}, {self.severity}: {self.title}>"


class Report:
    """What was found. `.json` is the whole report, of the schema that doc/json.md describes."""

    def __init__(self, document: Dict[str, Any], paths: List[str], flags: List[str]) -> None:
        self.json = document
        self._paths, self._flags = paths, flags

    @property
    def verdict(self) -> Verdict:
        """The one sentence, with its severity, the first change and what that saves."""
        found: Verdict = Verdict._of(self.json["verdict"])
        return found

    @property
    def devices(self) -> List[Dict[str, Any]]:
        return list(self.json["devices"])

    @property
    def findings(self) -> List[Finding]:
        """The findings of all devices, the weightiest of each first; `device` tells them apart."""
        return [Finding._of({**f, "device": d["device"]}) for d in self.devices for f in d["findings"]]

    @property
    def recordings(self) -> List[str]:
        """The recordings that were read, by name; one of them is `recording=` of the tables."""
        return [i["path"] for i in self.json["inputs"] if i["kind"] == "snapshot"]

    def __str__(self) -> str:
        return self.verdict.text

    def __repr__(self) -> str:
        return f"<vramscope.Report {self.verdict.severity}: {self}>"

    def text(self) -> str:
        """The report as the terminal shows it."""
        return _run(["analyze", *self._flags, "--", *self._paths])

    def html(self) -> str:
        """The page: one file without anything from outside."""
        return _run(["analyze", "--format=html", *self._flags, "--", *self._paths])

    def _repr_html_(self) -> str:
        """The verdict, what filled the GPU and what to change, in a few kilobytes; `html()` is the whole page."""
        return _short.page(self.json, self._device())

    def _device(self) -> Optional[Dict[str, Any]]:
        """The device that the verdict is about."""
        place = self.verdict.device
        return self.devices[place or 0] if self.devices else None

    def _recording(self, wanted: Optional[Path]) -> List[str]:
        """The one that a table is of: as named, or the verdict's."""
        if wanted is not None:
            return [os.fspath(wanted)]
        device = self._device()
        if device is None or len(self.recordings) < 2:
            return self._paths
        return [self.json["inputs"][device["input"]]["path"]]

    def to_arrow(self, table: str, recording: Optional[Path] = None) -> Any:
        """A table (allocations, categories, findings, stacks, …; doc/tables.md) of a recording as a pyarrow.Table: of the
        one that the verdict is about, or another of `recordings`."""
        try:
            import pyarrow as pa
        except ImportError as e:
            raise ImportError("to_arrow needs pyarrow: pip install pyarrow") from e
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "table.arrow")
            _run(["export", "--table", table, "--format=arrow", "-o", out, "--", *self._recording(recording)])
            with open(out, "rb") as f:
                return pa.ipc.open_stream(f).read_all()

    def to_pandas(self, table: str, recording: Optional[Path] = None) -> Any:
        """The same as a pandas.DataFrame."""
        return self.to_arrow(table, recording).to_pandas()
