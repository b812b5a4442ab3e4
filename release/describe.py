"""Writes what packagers need of a release: a Homebrew formula, a conda recipe, a container's description, with the checksums of
the archives that lie in the folder.

    python3 release/describe.py OUT VERSION
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
from typing import Dict

HERE = pathlib.Path(__file__).resolve().parent


def main(out: pathlib.Path, version: str) -> None:
    values: Dict[str, str] = {"VERSION": version}
    for path in sorted(out.iterdir()):
        if path.name.startswith(f"vramscope-{version}") and path.suffix in (".gz", ".zip"):
            key = path.name[len(f"vramscope-{version}") :].split(".")[0].strip("-").replace("-", "_").upper() or "SOURCE"
            values[f"SHA256_{key}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    for template in sorted((HERE / "packages").iterdir()):
        text = template.read_text()
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        left = [word for word in text.split("@") if word.startswith("SHA256_")]
        if left:  # of a platform that wasn't built
            print(f"{template.name}: left out, there is no archive for {', '.join(left)}")
            continue
        (out / template.name).write_text(text)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2])
