"""vramscope in Python: record a program, analyse what it left, look at it in a notebook.

    import vramscope

    with vramscope.recording("out"):
        train()
    report = vramscope.analyze("out")
    print(report.verdict)

Nothing here imports PyTorch until something is recorded, and analysing needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.9.0"
__all__ = ["AnalysisError", "Finding", "Report", "Verdict", "analyze", "callbacks", "recording", "__version__"]

if TYPE_CHECKING:
    from . import callbacks
    from ._recording import recording
    from ._report import AnalysisError, Finding, Report, Verdict, analyze

_PLACES = {"AnalysisError": "_report", "Finding": "_report", "Report": "_report", "Verdict": "_report", "analyze": "_report",
           "recording": "_recording"}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads what is asked for: PyTorch looks into this package at each of its imports."""
    import importlib

    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    if name == "callbacks":
        return importlib.import_module(f"{__name__}.callbacks")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """%load_ext vramscope: adds the magics %vram and %%vram."""
    from . import _magic

    _magic.load(shell)
