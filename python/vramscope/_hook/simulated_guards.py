"""Conditions that only keep an error away: `assert mask.any()`, `if not valid.all(): raise ValueError(...)`.

A device that computes nothing has no answer to them. A program that runs on a real GPU passes them, so they are passed here,
too: the source of the line says which answer does that.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

LONGEST = 4 << 20  # characters of a file that is parsed
MOST_FILES = 1000
LOOKED_AT = 16  # parts of instructions

Place = Tuple[int, int]  # line and column


class Part(NamedTuple):
    """A part of a condition, and what it has to be so that no error follows."""

    start: Place
    end: Place
    answer: bool


class Guards:
    """The guards of all files of the program, by line."""

    def __init__(self) -> None:
        self.files: Dict[str, Dict[int, List[Part]]] = {}

    def answer(self, frame: Any) -> Optional[bool]:
        """What a number that this frame reads as a condition has to be, None where the line is no guard."""
        parts = self.of(frame.f_code.co_filename).get(frame.f_lineno)
        if not parts:
            return None
        part = parts[0] if len({p.answer for p in parts}) == 1 else at(frame, parts)
        return None if part is None else part.answer

    def of(self, file: str) -> Dict[int, List[Part]]:
        found = self.files.get(file)
        if found is None:
            if len(self.files) >= MOST_FILES:
                self.files.clear()
            found = self.files[file] = read("".join(linecache.getlines(file)))
        return found


def read(source: str) -> Dict[int, List[Part]]:
    """The parts of a source's guards, by each line on which they stand."""
    lines: Dict[int, List[Part]] = {}
    try:
        tree = ast.parse(source if len(source) <= LONGEST else "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return lines
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            parts = condition(node.test, True)
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            parts = condition(node.test, False)
        else:
            continue
        for part in parts:
            for line in range(part.start[0], part.end[0] + 1):
                lines.setdefault(line, []).append(part)
    return lines


def condition(node: Any, answer: bool) -> Iterator[Part]:
    """The parts of a condition that is to have this answer."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from condition(node.operand, not answer)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from condition(value, answer)
    else:
        yield Part((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), answer)


def at(frame: Any, parts: List[Part]) -> Optional[Part]:
    """Which part a frame is at: Python tells from 3.11 on where an instruction stands. A jump stands where the whole
    condition does, and behind what it asks."""
    try:
        places = list(frame.f_code.co_positions())[: frame.f_lasti // 2 + 1]
    except AttributeError:
        return None
    for line, _, column, _ in reversed(places[-LOOKED_AT:]):
        for part in parts:
            if line is not None and column is not None and part.start <= (line, column) < part.end:
                return part
    return None
