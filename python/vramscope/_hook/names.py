"""The names of parameters, gradients, optimizer states and buffers, without a word of the program's own."""

from __future__ import annotations

import gc
from typing import Any, Dict, Iterator, List, Tuple

from . import static
from .holders import Walk
from .tensors import Torch

MAX_LABELS = 200_000
MAX_DEPTH = 64

Place = Tuple[int, int]


class Names:
    """Labels by device and address."""

    def __init__(self, walk: Walk) -> None:
        self.t: Torch = walk.t
        self.found: Dict[Place, Tuple[str, str]] = {}
        self._parameters: Dict[int, str] = {}
        self._collect(walk)
        for prefix, module in self._roots(walk):
            for name, tensor, kind in self._tensors(module, prefix, 0):
                self._add(tensor, "weights", name)
                if kind == "_parameters":
                    self._parameters[id(tensor)] = name
                    self._add(self.t.grad(tensor), "gradients", name + ".grad")
        for optimizer in walk.optimizers.values():
            self._optimizer(optimizer)

    def _collect(self, walk: Walk) -> None:
        """Adds what the garbage collector knows to what the walk found."""
        objects = gc.get_objects()
        for kind, found in ((self.t.module, walk.modules), (self.t.optimizer, walk.optimizers)):
            for obj in static.instances(objects, static.subclasses(kind)):
                found[id(obj)] = obj

    def _roots(self, walk: Walk) -> List[Tuple[str, Any]]:
        """The modules that are no part of another and hold something; where there are several, with the variable that leads to
        each, else its class."""
        modules = walk.modules
        parts = {id(child) for m in modules.values() for _, child in self._parts(m, "_modules")}
        roots = [m for i, m in modules.items() if i not in parts and next(self._tensors(m, "", 0), None)]
        if len(roots) == 1:
            return [("", roots[0])]
        return [((walk.path(walk.ways[id(m)]) if id(m) in walk.ways else type(m).__name__) + ".", m) for m in roots]

    @staticmethod
    def _parts(module: Any, kind: str) -> List[Tuple[str, Any]]:
        parts: Any = (static.dict_of(module) or {}).get(kind)
        return [(str(k), v) for k, v in dict.items(parts) if v is not None] if static.is_kind(type(parts), dict) else []

    def _tensors(self, module: Any, prefix: str, depth: int) -> Iterator[Tuple[str, Any, str]]:
        if depth > MAX_DEPTH:
            return
        for kind in ("_parameters", "_buffers"):
            for name, tensor in self._parts(module, kind):
                if static.is_kind(type(tensor), self.t.tensor):
                    yield prefix + name, tensor, kind
        for name, child in self._parts(module, "_modules"):
            yield from self._tensors(child, f"{prefix}{name}.", depth + 1)

    def _optimizer(self, optimizer: Any) -> None:
        state = static.attribute(optimizer, "state")
        if not static.is_kind(type(state), dict):
            return
        for n, (parameter, values) in enumerate(list(dict.items(state))):
            if not static.is_kind(type(values), dict):
                continue
            name = self._parameters.get(id(parameter), f"parameter {n}")
            for key, value in dict.items(values):
                self._add(value, "optimizer_state", f"{name}.{key}")

    def _add(self, tensor: Any, category: str, name: str) -> None:
        if tensor is None or not static.is_kind(type(tensor), self.t.tensor) or len(self.found) >= MAX_LABELS:
            return
        place = self.t.address(tensor)
        if place is not None:
            self.found.setdefault(place, (category, name[:1000]))
