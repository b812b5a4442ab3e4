"""Readings of the counters, for allocators that keep no history.

They are taken at the optimizer's steps and where a dump would be, thinned out evenly, and
kept in a table that `vramscope analyze` reads as it reads a tracker's.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Tuple

from . import files

POINTS = 2000  # kept at most
WRITTEN = 10.0  # seconds between writes; what a killed process loses
FIRST = 50  # are taken anyway
SHARE = 0.01  # of the run's time that the others may take

Row = Tuple[int, float, Tuple[int, ...]]


class Samples:
    """The readings of one process."""

    def __init__(self, torch: Any) -> None:
        self.cuda = torch.cuda
        self.began = self.written = time.monotonic()
        self.rows: List[Row] = []
        self.columns: Tuple[str, ...] = ()
        self.every = self.skipped = 1
        self.spent = 0.0

    def take(self, step: int, whole: bool = False) -> bool:
        """Reads the counters, unless it is too soon; says whether it is time to write. A whole one is kept in any case."""
        now = time.monotonic()
        self.skipped += 1
        if not whole and (self.skipped < self.every or len(self.rows) > FIRST and self.spent > SHARE * (now - self.began)):
            return False
        self.skipped = 0
        found = self._read()
        if found:
            self.columns = tuple(found)
            row = (step, now - self.began, tuple(found.values()))
            if self.rows and self.rows[-1][0] == step:
                self.rows.pop()
            self.rows.append(row)
            if len(self.rows) >= POINTS:
                self.rows, self.every = self.rows[::2], self.every * 2
        self.spent += time.monotonic() - now
        return whole or now - self.written > WRITTEN

    def _read(self) -> Dict[str, int]:
        try:
            stats = self.cuda.memory_stats()
            return {"memory_allocated_bytes": stats.get("allocated_bytes.all.current", 0),
                    "max_memory_allocated_bytes": stats.get("allocated_bytes.all.peak", 0),
                    "max_memory_reserved_bytes": stats.get("reserved_bytes.all.peak", 0)}  # fmt: skip
        except Exception:  # a program's own allocator need not count
            free, total = self.cuda.mem_get_info()
            return {"gpu_memory_used_bytes": total - free}

    def write(self, base: str) -> Optional[str]:
        """Writes the table, and gives its name."""
        if not self.rows:
            return None
        lines = [",".join(("step", "elapsed") + self.columns)]
        lines += [f"{step},{at:.3f}," + ",".join(map(str, values)) for step, at, values in self.rows
                  if len(values) == len(self.columns)]  # fmt: skip
        files.write(base + "-memory.csv", lambda f: f.write(("\n".join(lines) + "\n").encode()))
        self.written = time.monotonic()
        return os.path.basename(base) + "-memory.csv"
