"""What pip calls to install from a checkout, from git+https://… or from an sdist (PEP 517 and 660).

It builds for this machine what wheels.py builds for all, and needs Go and nothing of an index.
"""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from typing import Any, List

import wheels

Settings = Any
MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
SYSTEMS = {"darwin": "macos", "win32": "windows", "linux": "linux"}


def here() -> wheels.Platform:
    """This machine's row of the table."""
    machine = platform.machine().lower()
    machine = MACHINES.get(machine, machine)
    for p in wheels.PLATFORMS:
        system, _, architecture = p.name.partition("-")
        if system == SYSTEMS.get(sys.platform) and MACHINES.get(architecture, architecture) == machine:
            return p
    known = ", ".join(p.name for p in wheels.PLATFORMS)
    raise SystemExit(f"vramscope is built for {known}, and not for {sys.platform} on {machine}")


def _build(folder: str) -> pathlib.Path:
    """This machine's wheel."""
    if shutil.which("go") is None:
        raise SystemExit("vramscope's command is built with Go 1.26 or newer (https://go.dev/dl), which isn't on PATH; "
                         "wheels need nothing")  # fmt: skip
    script = [sys.executable, str(wheels.HERE / "wheels.py"), "--out", folder, "--only", here().name]
    subprocess.run(script, check=True)
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    return wheel


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: Settings = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        wheel = _build(folder)
        shutil.copy(wheel, wheel_directory)
        return wheel.name


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: Settings = None) -> str:
    """A wheel whose package is the checkout's; the command is of the moment when it was built."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = _build(folder)
        made = wheels.Wheel(f"vramscope-{wheels.version()}.dist-info")
        with zipfile.ZipFile(wheel) as z:
            for entry in z.infolist():
                if not entry.filename.startswith("vramscope/") and not entry.filename.endswith("/RECORD"):
                    made.add(entry.filename, z.read(entry), entry.external_attr >> 16 & 0o777)
        made.add("vramscope.pth", str(wheels.HERE).encode() + b"\n")
        pathlib.Path(wheel_directory, wheel.name).write_bytes(made.finish())
        return wheel.name


def _sources() -> List[str]:
    """The files of the checkout, or of the sdist that this is."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=wheels.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if listed.returncode == 0 and (wheels.ROOT / ".git").exists():
        return sorted(n for n in listed.stdout.decode().split("\0") if n and (wheels.ROOT / n).is_file())
    found = (p.relative_to(wheels.ROOT) for p in wheels.ROOT.rglob("*") if p.is_file() and p.name != "PKG-INFO")
    return sorted(p.as_posix() for p in found if "__pycache__" not in p.parts)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """What builds the command and the package: the recordings of tests would make it twenty times as large."""
    number = wheels.version()
    root = f"vramscope-{number}"
    left_out = re.compile(r"(^|/)testdata/|^\.ci/")
    files = {n: (wheels.ROOT / n).read_bytes() for n in _sources() if not left_out.search(n)}
    files["PKG-INFO"] = f"Metadata-Version: 2.1\nName: vramscope\nVersion: {number}\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size, entry.mode = len(data), 0o755 if os.access(wheels.ROOT / name, os.X_OK) else 0o644
            t.addfile(entry, io.BytesIO(data))
    pathlib.Path(sdist_directory, f"{root}.tar.gz").write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))
    return f"{root}.tar.gz"


def get_requires_for_build_wheel(config_settings: Settings = None) -> List[str]:
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel
