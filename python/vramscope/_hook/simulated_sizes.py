"""Sizes that depend on data, on a device that computes nothing: what is assumed of them, and where.

What is known (simulated_values) decides by itself. Else calls of one loop share their total: eight experts of a model
get an eighth of the tokens each, not all of them each.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .simulated_guards import Guards

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_TOLD = 200
ENDLESS = 10_000  # reads of one line without a step of the optimizer in between
CONDITION = re.compile(r"^\s*(if|elif|while|assert)\b|\bif\b.*\belse\b|^\s*(return|break)\s+if\b")
INT64 = 8


class Site(NamedTuple):
    file: str
    line: int
    function: str


class Assumption:
    """What was assumed on one line."""

    def __init__(self, what: str, site: Site) -> None:
        self.what, self.site = what, site
        self.calls = self.rows = self.most_rows = 0
        self.bytes = self.most_bytes = 0  # of the largest call's tensors
        self.taken = ""
        self.now: Tuple[int, int] = (0, 0)  # rows of the last call, and how many there could be
        self.now_bytes = 0

    def called(self, rows: int, most: int) -> None:
        self.calls, self.rows, self.most_rows = self.calls + 1, self.rows + rows, self.most_rows + most
        self.now, self.now_bytes = (rows, most), 0

    def hang(self, size: int) -> None:
        """A tensor with as many rows was made."""
        self.now_bytes += size
        if self.now_bytes > self.bytes:
            rows, most = self.now
            self.bytes, self.most_bytes = self.now_bytes, self.now_bytes * most // rows if rows else self.now_bytes

    def facts(self) -> Dict[str, Any]:
        return {"what": self.what, "file": self.site.file, "line": self.site.line, "function": self.site.function,
                "calls": self.calls, "rows": self.rows, "most_rows": self.most_rows, "bytes": self.bytes,
                "most_bytes": self.most_bytes, "taken": self.taken}  # fmt: skip


class Loop:
    """The calls of one line in one run of a function."""

    def __init__(self, total: int, expected: int) -> None:
        self.left, self.calls = total, 0
        self.expected = expected  # calls, by the run before


class Mark:
    """What a frame is known by, as long as it runs: no other frame gets it."""

    def __init__(self) -> None:
        self.loops: Dict[Tuple[int, int], Loop] = {}  # by the place in the code, and how many rows there could be


class Assumed:
    """All that is assumed in a process."""

    def __init__(self, torch: Any, how: str, end: Any) -> None:
        self.torch, self.how, self.end = torch, how, end
        self.count = 0
        self.found: Dict[Tuple[str, Site], Assumption] = {}
        self.hanging: Dict[int, Assumption] = {}  # by the address of indices
        self.last: Optional[Assumption] = None
        self.loops: Dict[Tuple[str, int, int], Loop] = {}  # the last of each place
        self.given: Dict[Tuple[Any, ...], int] = {}  # rows of a tensor that wasn't changed since
        self.reads: Dict[Site, int] = {}
        self.values: Any = None  # Work, once there is one
        self.guards = Guards()
        self.inside = os.path.dirname(torch.__file__) + os.sep

    def facts(self) -> List[Dict[str, Any]]:
        order = sorted(self.found.values(), key=lambda a: (-a.bytes, a.site))
        return [a.facts() for a in order[:MOST_TOLD]]

    def frame(self) -> Any:
        """The innermost function that is neither PyTorch's nor the recorder's."""
        frame = sys._getframe(1)
        while frame.f_back is not None:
            name = frame.f_code.co_filename
            if not name.startswith((HERE, self.inside, "<")):
                break
            frame = frame.f_back
        return frame

    def reader(self) -> Any:
        """The innermost function that isn't the recorder's."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
            frame = frame.f_back
        return frame

    def at(self, what: str, frame: Any) -> Assumption:
        site = Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        found = self.found.get((what, site))
        if found is None:
            found = self.found[what, site] = Assumption(what, site)
        return found

    # How many rows.

    def rows(self, what: str, of: Any, most: int, size: int) -> int:
        """How many of at most so many rows an operator gives; a row of its own result takes so many bytes."""
        if most == 0:
            return 0
        frame = self.frame()
        same = self.content(what, of)
        n = self.given.get(same, -1)
        if n >= 0 and frame.f_code.co_filename.startswith(HERE):  # a backward pass, which no line of the program calls
            return n
        if n < 0:
            n = max(0, min(most, self.share(what, frame, of, most)))
        if same:
            if len(self.given) > 1000:
                self.given.clear()
            self.given[same] = n
        self.count += 1
        self.last = self.at(what, frame)
        self.last.called(n, most)
        self.last.hang(n * size)
        return n

    def content(self, what: str, of: Any) -> Tuple[Any, ...]:
        """What a tensor is known by as long as it holds the same: `a[mask]` and `b[mask]` have as many rows. Empty: nothing."""
        try:
            at = of.untyped_storage().data_ptr()
            turn = self.values.turn(at)
            return (what, at, turn, of.storage_offset(), tuple(of.shape), of._version) if turn else ()
        except Exception:  # a kind without storage, or without versions
            return ()

    def share(self, what: str, frame: Any, of: Any, most: int) -> int:
        if self.how == "none":
            return 0
        if self.how == "most":
            return most
        if self.how != "even":
            return int(round(float(self.how) * most))
        alike = self.alike(of, most)
        if alike > 1:
            return -(-most // alike)
        mark = frame.f_trace
        if type(mark) is not Mark:
            if mark is not None:  # somebody debugs
                return -(-most // 2)
            mark = frame.f_trace = Mark()
        where = (frame.f_lasti, most)  # two calls on one line are no loop
        loop = mark.loops.get(where)
        if loop is None:
            place = (frame.f_code.co_filename, frame.f_lineno, frame.f_lasti)
            before = self.loops.get(place)
            loop = mark.loops[where] = self.loops[place] = Loop(most, before.calls if before is not None else 0)
        loop.calls += 1
        if loop.expected > 1:
            n = min(-(-most // loop.expected), loop.left)
        else:  # nobody knows yet how many calls there are: each gets half of what the ones before left
            n = -(-loop.left // 2)
        loop.left -= n
        return n

    def alike(self, of: Any, most: int) -> int:
        """Of how many parts of one tensor this is one: a mask for each expert is a slice of all masks."""
        try:
            return int(of.untyped_storage().nbytes() // (of.element_size() * max(1, of.numel())))
        except Exception:
            return 1

    def follow(self, func: Any, args: Any, out: Any, during: bool) -> None:
        """Adds what an operator made of such rows to what hangs on them."""
        name = getattr(func, "__name__", "")
        on = self.last if during else None
        if on is None and name in ("__getitem__", "index_select", "gather", "index"):
            for t in self.tensors(args[1:]):
                on = on or self.hanging.get(t.untyped_storage().data_ptr())
        if on is None:
            return
        for t in self.tensors((out,)):
            if name in ("nonzero", "where", "argwhere"):
                if len(self.hanging) > 1000:
                    self.hanging.clear()
                self.hanging[t.untyped_storage().data_ptr()] = on
            else:
                on.hang(t.numel() * t.element_size())

    def tensors(self, args: Any) -> List[Any]:
        found = []
        for x in args:
            if isinstance(x, (list, tuple)):
                found += self.tensors(x)
            elif type(x) is self.torch.Tensor and x.is_cuda:
                found.append(x)
        return found

    # Numbers that are read.

    def read(self, condition: bool, value: Any) -> Any:
        """The program reads a number of which nothing is known, perhaps as a condition. Gives what it is taken to be."""
        reader = self.reader()
        if type(value) is bool:
            answer = self.guards.answer(reader)
            value = value if answer is None else answer
        frame = self.frame()
        site = Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        n = self.reads[site] = self.reads.get(site, 0) + 1
        if n == ENDLESS:
            self.end(f"as {os.path.basename(site.file)}:{site.line} read a number from the GPU {ENDLESS:,} times without a step of an "
                     "optimizer: it waits for one that a simulated GPU never gives")  # fmt: skip
        if n > 1 and ("a condition", site) not in self.found:
            return value
        if condition or CONDITION.search(linecache.getline(site.file, site.line)):
            found = self.at("a condition", frame)
            found.calls += 1
            found.taken = str(value)
        return value

    def stepped(self) -> None:
        self.reads.clear()


def install(torch: Any, assumed: Assumed) -> Any:
    """Puts operators whose results have sizes that depend on data in the place of the device's."""

    def nonzero(self: Any) -> Any:
        value = assumed.values.value(self)
        if value is not None:
            result = torch.nonzero(value)
            out = torch.empty(result.shape, dtype=torch.int64, device=self.device)
            out.copy_(result)
            assumed.values.mark(out, True)
            return out
        n = assumed.rows("nonzero", self, int(self.numel()), INT64 * self.dim())
        return torch.empty((n, self.dim()), dtype=torch.int64, device=self.device)

    def unique(self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
        value = assumed.values.value(self)
        if value is not None:
            results = torch._unique2(value, sorted, return_inverse, return_counts)
            return tuple(r.to(self.device) for r in results)
        n = assumed.rows("unique", self, int(self.numel()), int(self.element_size()))
        made = [torch.empty((n,), dtype=self.dtype, device=self.device)]
        made.append(torch.empty(self.shape if return_inverse else (0,), dtype=torch.int64, device=self.device))
        made.append(torch.empty((n,) if return_counts else (0,), dtype=torch.int64, device=self.device))
        return tuple(made)

    def repeat_interleave(repeats: Any, output_size: Optional[int] = None) -> Any:
        value = assumed.values.value(repeats)
        if value is not None:
            return torch.repeat_interleave(value).to(repeats.device)
        n = int(output_size) if output_size is not None else assumed.rows("repeat_interleave", repeats, int(repeats.numel()), INT64)
        return torch.empty((n,), dtype=repeats.dtype, device=repeats.device)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in (("nonzero", nonzero), ("_unique2", unique), ("repeat_interleave.Tensor", repeat_interleave)):
            library.impl(name, function, "CUDA")
    return library
