#!/usr/bin/env python3
"""Builds the wheels and archives of every platform, from one machine, byte for byte the same each time.

    python3 python/wheels.py --out dist                    # all platforms
    python3 python/wheels.py --out dist --only linux-x86_64
    python3 python/wheels.py --out dist --tags s3          # with S3, whose client adds a fifth
    python3 python/wheels.py --out dist --compiler "python3 -m ziglang cc"   # with the simulated GPU's library for Linux

A wheel is a zip file: the static binary as a script, the Python package, and the
metadata. Go builds for every platform from here; Python's standard library is all
that this script needs. Without a cross compiler (PyPI has one, ziglang) the command
compiles the simulated GPU's library itself, where it is wanted first.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import io
import os
import pathlib
import re
import shlex
import subprocess
import tarfile
import zipfile
from typing import Dict, List, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
STAMP = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say


class Platform(NamedTuple):
    name: str
    goos: str
    goarch: str
    tags: str  # as pip reads them; a static binary needs no C library, so one wheel serves both of Linux


PLATFORMS = [
    Platform("linux-x86_64", "linux", "amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"),
    Platform("linux-aarch64", "linux", "arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"),
    Platform("macos-x86_64", "darwin", "amd64", "macosx_11_0_x86_64"),
    Platform("macos-arm64", "darwin", "arm64", "macosx_11_0_arm64"),
    Platform("windows-amd64", "windows", "amd64", "win_amd64"),
]

METADATA = """\
Metadata-Version: 2.1
Name: vramscope
Version: {version}
Summary: What filled the GPU, why, what it should have been, and what to change
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{contents}

"""

# The simulated GPU's library: how a cross compiler names what it is for, the oldest C library included.
TARGETS = {"linux-x86_64": "x86_64-linux-gnu.2.17", "linux-aarch64": "aarch64-linux-gnu.2.17"}
DEVICE = "libvramscope_device.so"

THIRD_PARTY = "LICENSES-THIRD-PARTY.txt"
SBOM = "vramscope.cdx.json"

# PyTorch calls this at the end of its import. It does nothing outside of `vramscope run`.
ENTRY_POINTS = "[torch.backends]\nvramscope = vramscope._hook:start\n"


def version() -> str:
    text = (HERE / "vramscope" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.M)
    if not found:
        raise SystemExit("python/vramscope/__init__.py says no __version__")
    return found.group(1)


def commit() -> str:
    """The commit of the checkout; in an sdist none."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return found.stdout.decode().strip() if found.returncode == 0 and (ROOT / ".git").exists() else ""


STORES = {"s3": "`s3://`", "gs": "`gs://`"}


def contents(tags: List[str]) -> str:
    """What a reader of the metadata should know of the command."""
    stores = " and ".join(STORES[tag] for tag in tags)
    if not stores:
        return "The command in this wheel reads and writes folders; object stores are left out (`python/wheels.py --tags s3` puts them in)."
    return f"The command in this wheel reads and writes folders and {stores}."


class Built(NamedTuple):
    command: bytes
    texts: bytes  # the licences of all that is in it
    sbom: bytes  # the list of that, as CycloneDX has it
    device: bytes = b""  # the simulated GPU's library; empty: the command compiles it


def device(platform: Platform, compiler: str, folder: pathlib.Path) -> bytes:
    """Compiles the simulated GPU's library for a platform that has one."""
    if not compiler or platform.name not in TARGETS:
        return b""
    source, out = ROOT / "simulate" / "device" / "source", folder.resolve() / DEVICE
    flags = (source / "flags").read_text().split()
    files = sorted(path.name for path in source.glob("*.c"))
    command = [*shlex.split(compiler), "-target", TARGETS[platform.name], *flags, "-o", str(out), *files, "-ldl", "-lpthread"]
    subprocess.run(command, cwd=source, check=True)
    data = out.read_bytes()
    out.unlink()
    return data


def built(platform: Platform, number: str, tags: List[str], folder: pathlib.Path, compiler: str = "") -> Built:
    """Builds the command for a platform."""
    out = folder / f"vramscope-{platform.name}"
    env = {**os.environ, "CGO_ENABLED": "0", "GOOS": platform.goos, "GOARCH": platform.goarch, "GOFLAGS": "-trimpath"}
    flags = f"-s -w -buildid= -X main.version={number} -X main.commit={commit()}"
    command = ["go", "build", "-buildvcs=false", "-tags", ",".join(tags), "-ldflags", flags, "-o", str(out), "./cmd/vramscope"]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    texts, sbom = out.with_name(out.name + ".txt"), out.with_name(out.name + ".json")
    collect = ["go", "run", "./internal/licenses/collect", "-of", str(out.resolve()), "-version", number]
    subprocess.run([*collect, "-texts", str(texts.resolve()), "-sbom", str(sbom.resolve())], cwd=ROOT, check=True)
    made = Built(out.read_bytes(), texts.read_bytes(), sbom.read_bytes(), device(platform, compiler, folder))
    for path in (out, texts, sbom):
        path.unlink()
    return made


def package() -> Dict[str, bytes]:
    """The Python package's files."""
    files = {}
    for path in sorted((HERE / "vramscope").rglob("*")):
        if path.is_file() and path.suffix in (".py", ".typed"):
            files[path.relative_to(HERE).as_posix()] = path.read_bytes()
    return files


class Wheel:
    """A zip whose bytes depend on its contents alone."""

    def __init__(self, info: str) -> None:
        self.info, self.buffer, self.record = info, io.BytesIO(), []  # type: str, io.BytesIO, List[str]
        self.zip = zipfile.ZipFile(self.buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9)

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, STAMP)
        entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, (0o100000 | mode) << 16
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def finish(self) -> bytes:
        name = f"{self.info}/RECORD"
        self.add(name, ("".join(self.record) + f"{name},,\n").encode())
        self.zip.close()
        return self.buffer.getvalue()


def wheel(platform: Platform, number: str, tags: List[str], made: Built) -> bytes:
    info = f"vramscope-{number}.dist-info"
    w = Wheel(info)
    for name, data in package().items():
        w.add(name, data)
    script = "vramscope.exe" if platform.goos == "windows" else "vramscope"
    w.add(f"vramscope-{number}.data/scripts/{script}", made.command, 0o755)
    if made.device:  # beside the folder of the script, where the command looks
        w.add(f"vramscope-{number}.data/data/lib/vramscope/{DEVICE}", made.device, 0o755)
    about = METADATA.format(version=number, contents=contents(tags))
    w.add(f"{info}/METADATA", (about + (ROOT / "README.md").read_text()).encode())
    serves = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.tags.split("."))
    w.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: vramscope\nRoot-Is-Purelib: false\n{serves}".encode())
    w.add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    w.add(f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    w.add(f"{info}/licenses/{THIRD_PARTY}", made.texts)
    w.add(f"{info}/sboms/{SBOM}", made.sbom)
    return w.finish()


def archive(platform: Platform, made: Built) -> "tuple[str, bytes]":
    """The binary alone, with the licences and the list of what is in it."""
    files = [
        ("vramscope", made.command, 0o755),
        ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644),
        (THIRD_PARTY, made.texts, 0o644),
        (SBOM, made.sbom, 0o644),
    ]
    if made.device:
        files.append((DEVICE, made.device, 0o755))
    if platform.goos == "windows":
        w = Wheel("")
        for name, data, mode in files:
            w.add(name + {"vramscope": ".exe", "LICENSE": ".txt"}.get(name, ""), data, mode)
        w.zip.close()
        return "zip", w.buffer.getvalue()
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            t.addfile(entry, io.BytesIO(data))
    return "tar.gz", gzip.compress(tar.getvalue(), 9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder to write to")
    parser.add_argument("--only", action="append", choices=[p.name for p in PLATFORMS], help="this platform (repeatable)")
    parser.add_argument("--tags", action="append", default=[], choices=sorted(STORES), help="the store to put in (repeatable)")
    parser.add_argument("--compiler", default="", help="a cross compiler of C that takes -target, for the simulated GPU's library")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    number = version()
    sums = []
    for platform in PLATFORMS:
        if arguments.only and platform.name not in arguments.only:
            continue
        made = built(platform, number, arguments.tags, arguments.out, arguments.compiler)
        ending, packed = archive(platform, made)
        written = {
            f"vramscope-{number}-py3-none-{platform.tags}.whl": wheel(platform, number, arguments.tags, made),
            f"vramscope-{number}-{platform.name}.{ending}": packed,
            f"vramscope-{number}-{platform.name}.cdx.json": made.sbom,
        }
        for name, data in written.items():
            (arguments.out / name).write_bytes(data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
            print(f"{len(data) / 1e6:6.1f} MB  {name}", flush=True)
    (arguments.out / "SHA256SUMS").write_text("".join(sorted(sums, key=lambda line: line.split()[1])))


if __name__ == "__main__":
    main()
