"""`python -m vramscope`: the command, wherever it was installed to."""

from __future__ import annotations

import os
import subprocess
import sys

from ._binary import find


def main() -> int:
    command = [find(), *sys.argv[1:]]
    if os.name == "posix":
        os.execv(command[0], command)
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
