"""How much memory of this machine a process may take: of its control group, and of what is free."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Mapping, Optional, Tuple

ROOT = "/sys/fs/cgroup"
SHARE = 8  # of what a process may take, the part that the ring gets at most


def _read(name: str) -> str:
    try:
        with open(name) as f:
            return f.read(100_000)
    except (OSError, ValueError):
        return ""


def _number(text: str) -> Optional[int]:
    """A limit; a very large one is none."""
    text = text.strip()
    return int(text) if text.isdigit() and int(text) < 1 << 60 else None


def _counters(text: str) -> Dict[str, int]:
    found = {}
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if len(words) > 1 and words[1].isdigit():
            found[words[0]] = int(words[1])
    return found


class Host:
    """What the system tells; `read` reads a file, or gives an empty text."""

    def __init__(self, environment: Mapping[str, str], read: Callable[[str], str] = _read) -> None:
        self.environment, self.read = environment, read

    def groups(self) -> List[Tuple[str, str, str, str]]:
        """Folders of the process' control groups, with the names of their limit, use and what of that can be had back."""
        found = []
        for line in self.read("/proc/self/cgroup").splitlines():
            _, kinds, path = (line.split(":", 2) + ["", ""])[:3]
            if not kinds:
                names, root = ("memory.max", "memory.current", "inactive_file"), ROOT
            elif "memory" in kinds.split(","):
                names, root = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"), ROOT + "/memory"
            else:
                continue
            for folder in (os.path.normpath(root + "/" + path), root):  # a container sees its own as the root
                if self.read(f"{folder}/{names[0]}"):
                    found.append((folder, *names))
                    break
        return found

    def limit(self) -> Optional[int]:
        """What this process may take: its part of the control group's limit, as far as there is one."""
        limits = [n for n in (_number(self.read(f"{folder}/{name}")) for folder, name, _, _ in self.groups()) if n]
        ranks = self.environment.get("LOCAL_WORLD_SIZE", "")
        return min(limits) // max(1, int(ranks) if ranks.isdigit() else 1) if limits else None

    def ring(self, wanted: int) -> int:
        """The ring's bytes: as wanted, or fewer where memory is scarce."""
        limit = self.limit()
        return wanted if limit is None else min(wanted, max(1 << 20, limit // SHARE))

    def available(self) -> Optional[int]:
        """What can still be had; None where nobody tells."""
        free = []
        machine = _counters(self.read("/proc/meminfo")).get("MemAvailable")
        if machine is not None:
            free.append(machine * 1024)
        for folder, limit, usage, inactive in self.groups():
            most, used = _number(self.read(f"{folder}/{limit}")), _number(self.read(f"{folder}/{usage}"))
            if most is not None and used is not None:
                free.append(most - used + _counters(self.read(f"{folder}/memory.stat")).get(inactive, 0))
        return max(0, min(free)) if free else None
