"""Finds the command that came with this package."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import Iterator


def _places() -> Iterator[str]:
    name = "vramscope.exe" if os.name == "nt" else "vramscope"
    given = os.environ.get("VRAMSCOPE_BINARY")  # for tests of a checkout
    if given:
        yield given
    yield os.path.join(sysconfig.get_path("scripts"), name)
    user = "nt_user" if os.name == "nt" else "osx_framework_user" if getattr(sys, "_framework", "") else "posix_user"
    if user in sysconfig.get_scheme_names():
        yield os.path.join(sysconfig.get_path("scripts", user), name)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield os.path.join(here, "bin", name)  # pip install --target
    yield shutil.which(name) or ""


def find() -> str:
    """The command's path."""
    for place in _places():
        if place and os.path.isfile(place):
            return place
    raise FileNotFoundError("the vramscope command isn't installed here: pip install --force-reinstall vramscope")
