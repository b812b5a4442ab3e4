"""Wheels as pip reads them, without building a binary."""

from __future__ import annotations

import base64
import email
import hashlib
import importlib.util
import io
import pathlib
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


def test_every_platform(wheels) -> None:  # type: ignore[no-untyped-def]
    """The same bytes each time; every file recorded with its hash; the command runnable; tags of each libc."""
    tags = set()
    for platform in wheels.PLATFORMS:
        data = wheels.wheel(platform, "1.2", [], b"the command")
        assert data == wheels.wheel(platform, "1.2", [], b"the command")
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
    data = wheels.wheel(wheels.PLATFORMS[0], "1.2", tags, b"the command")
    about = email.message_from_string(zipfile.ZipFile(io.BytesIO(data)).read("vramscope-1.2.dist-info/METADATA").decode())
    assert words in about.get_payload().splitlines()[0]


def test_archives(wheels) -> None:  # type: ignore[no-untyped-def]
    for platform in wheels.PLATFORMS:
        assert wheels.archive(platform, b"the command") == wheels.archive(platform, b"the command")
