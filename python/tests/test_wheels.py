"""Wheels as pip reads them, without building a binary."""

from __future__ import annotations

import base64
import email
import hashlib
import importlib.util
import io
import pathlib
import sys
import tarfile
import zipfile

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "wheels.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="not in a checkout")


@pytest.fixture
def wheels() -> object:
    spec = importlib.util.spec_from_file_location("wheels", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(wheels) -> object:  # type: ignore[no-untyped-def]
    return wheels.Built(b"the command", b"the licences", b"{}")


def test_every_platform(wheels) -> None:  # type: ignore[no-untyped-def]
    """The same bytes each time; every file recorded with its hash; the command runnable; tags of each libc."""
    tags = set()
    for platform in wheels.PLATFORMS:
        data = wheels.wheel(platform, "1.2", [], made(wheels))
        assert data == wheels.wheel(platform, "1.2", [], made(wheels))
        z = zipfile.ZipFile(io.BytesIO(data))
        assert z.testzip() is None
        record = [line.split(",") for line in z.read("vramscope-1.2.dist-info/RECORD").decode().splitlines()]
        assert [r[0] for r in record] == z.namelist()
        for name, digest, size in record[:-1]:
            want = base64.urlsafe_b64encode(hashlib.sha256(z.read(name)).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={want}", len(z.read(name))), name
        (script,) = [i for i in z.infolist() if "/scripts/" in i.filename]
        assert script.external_attr >> 16 & 0o777 == 0o755
        assert script.filename.endswith(".exe") == (platform.goos == "windows")
        about = email.message_from_string(z.read("vramscope-1.2.dist-info/WHEEL").decode())
        assert about["Root-Is-Purelib"] == "false"
        assert about.get_all("Tag") == [f"py3-none-{t}" for t in platform.tags.split(".")]
        tags.update(platform.tags.split("."))
        assert "vramscope/_hook/samples.py" in z.namelist() and "vramscope/py.typed" in z.namelist()
        assert b"vramscope._hook:start" in z.read("vramscope-1.2.dist-info/entry_points.txt")
    for part in ("manylinux2014_x86_64", "manylinux2014_aarch64", "musllinux_1_1_x86_64", "musllinux_1_1_aarch64", "macosx_11_0_x86_64",
                 "macosx_11_0_arm64", "win_amd64"):  # fmt: skip
        assert part in tags


@pytest.mark.parametrize("tags, words", [
    ([], "reads and writes folders; object stores are left out"),
    (["s3"], "reads and writes folders and `s3://`."),
    (["s3", "gs"], "reads and writes folders and `s3://` and `gs://`."),
])  # fmt: skip
def test_contents(wheels, tags, words) -> None:  # type: ignore[no-untyped-def]
    """The metadata says which object stores the command knows."""
    data = wheels.wheel(wheels.PLATFORMS[0], "1.2", tags, made(wheels))
    about = email.message_from_string(zipfile.ZipFile(io.BytesIO(data)).read("vramscope-1.2.dist-info/METADATA").decode())
    assert words in about.get_payload().splitlines()[0]


def test_archives(wheels) -> None:  # type: ignore[no-untyped-def]
    for platform in wheels.PLATFORMS:
        assert wheels.archive(platform, made(wheels)) == wheels.archive(platform, made(wheels))


def test_device(wheels, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Linux gets the simulated GPU's library where there is a cross compiler, in wheels where the command looks for it."""
    fake = tmp_path / "cc"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >> "$0.said"\nwhile [ "$1" != -o ]; do shift; done; printf library > "$2"\n')
    fake.chmod(0o755)
    for platform in wheels.PLATFORMS:
        assert wheels.device(platform, "", tmp_path) == b""
        linux = platform.goos == "linux"
        data = wheels.device(platform, str(fake), tmp_path)
        assert data == (b"library" if linux else b"")
        files = wheels.wheel(platform, "1.2", [], made(wheels)._replace(device=data))
        names = [i.filename for i in zipfile.ZipFile(io.BytesIO(files)).infolist() if i.external_attr >> 16 & 0o111]
        assert ("vramscope-1.2.data/data/lib/vramscope/libvramscope_device.so" in names) == linux
    said = (tmp_path / "cc.said").read_text().split("\n")
    assert "x86_64-linux-gnu.2.17" in said and "aarch64-linux-gnu.2.17" in said
    assert "-fPIC" in said and "libraries.c" in said


@pytest.fixture
def backend(wheels, monkeypatch) -> object:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, "wheels", wheels)
    spec = importlib.util.spec_from_file_location("build_backend", SCRIPT.with_name("build_backend.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sdist(backend, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """It has what builds the command and what pip reads, and none of the recordings."""
    name = backend.build_sdist(str(tmp_path))
    data = (tmp_path / name).read_bytes()
    with tarfile.open(tmp_path / name) as t:
        names = {n.split("/", 1)[1] for n in t.getnames()}
    assert {"PKG-INFO", "pyproject.toml", "go.mod", "go.sum", "cmd/vramscope/main.go", "python/wheels.py"} <= names
    assert not any("testdata" in n for n in names) and len(data) < 10_000_000
    backend.build_sdist(str(tmp_path))
    assert (tmp_path / name).read_bytes() == data


def test_editable(backend, wheels, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """The package is the checkout's, all else is the wheel's."""
    def build(folder: str) -> pathlib.Path:
        made = wheels.Wheel(f"vramscope-{wheels.version()}.dist-info")
        made.add("vramscope/__init__.py", b"")
        made.add("vramscope-0.data/scripts/vramscope", b"the command", 0o755)
        path = pathlib.Path(folder) / "vramscope-0-py3-none-any.whl"
        path.write_bytes(made.finish())
        return path

    monkeypatch.setattr(backend, "_build", build)
    z = zipfile.ZipFile(tmp_path / backend.build_editable(str(tmp_path)))
    assert z.read("vramscope.pth").decode().strip() == str(SCRIPT.parent)
    script = z.getinfo("vramscope-0.data/scripts/vramscope")
    assert script.external_attr >> 16 & 0o777 == 0o755 and "vramscope/__init__.py" not in z.namelist()


def test_a_machine_without_go(backend, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(backend.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="Go 1.26"):
        backend.build_wheel("nowhere")
