"""Who holds the tensors to which no variable leads: objects that refer to each other.

Python frees those only when its garbage collector looks for them. It isn't asked to:
what it knows is read, and the classes of such objects are told.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from typing import Any, Callable, Dict, List, NamedTuple, Set, Tuple

from . import static

SAMPLE = 16  # tensors whose holders are looked for: each is compared with all that any object refers to
LEVELS = 6  # of lists, dictionaries and frames between a tensor and the object whose class is told
WIDE = 64  # holders of a level that are followed
MAX_OBJECTS = 20_000  # that are looked through on the way back to an object

BETWEEN = frozenset(map(id, (types.FrameType, types.TracebackType, types.CellType, types.MethodType)))
SINGLE = frozenset(map(id, (types.FunctionType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)))


class Root(NamedTuple):
    """An object that no variable leads to."""

    obj: Any
    name: str
    cycle: bool


def roots(walk: Any, tensors: List[Any], objects: List[Any]) -> List[Root]:
    """The objects that hold tensors, and all others of their classes."""
    owners = _owners(walk, tensors[:: -(-len(tensors) // SAMPLE)], (tensors, objects))
    classes: Dict[int, bool] = {}
    found = []
    for owner in owners:
        cls = type(owner)
        if id(cls) in SINGLE:
            found.append(Root(owner, _name(walk, owner), _returns(walk, owner)))
        elif id(cls) not in classes:
            classes[id(cls)] = _returns(walk, owner)
    if classes:
        found += [Root(obj, _name(walk, obj), classes[id(type(obj))]) for obj in objects
                  if id(type(obj)) in classes and not walk.saw(obj)]  # fmt: skip
    return found


def _owners(walk: Any, level: List[Any], ours: Tuple[List[Any], ...]) -> List[Any]:
    """The nearest objects with a name of their own that lead to what is asked for."""
    owners: List[Any] = []
    met: Set[int] = {id(x) for x in (*ours, owners, level)}
    for _ in range(LEVELS):
        referrers = gc.get_referrers(*level)
        met.update((id(referrers), id(level)))
        level = []
        met.add(id(level))
        for obj in referrers:
            if id(obj) in met or walk.saw(obj) or walk.is_own(obj):
                continue
            met.add(id(obj))
            cls = type(obj)
            if id(cls) in BETWEEN or static.container_of(cls) is cls or walk.t.is_tensor(cls):
                level.append(obj)
            elif not static.is_kind(cls, type) and id(cls) not in static.ATOM_IDS and not static.is_reader(cls):
                owners.append(obj)
        referrers = []
        level = level[:WIDE]
        met.add(id(level))
        if not level or walk.late():
            break
    return owners[:WIDE]


def _name(walk: Any, obj: Any) -> str:
    cls = type(obj)
    if cls is types.FunctionType:
        return str(obj.__qualname__)
    if id(cls) in SINGLE:
        return static.code_of(obj).co_name + "()"
    name = str(static.name_of(cls))
    if walk.t.is_ctx(cls):  # the ctx of a Function's forward
        return name[: -len("Backward")] + ".forward().ctx" if name.endswith("Backward") else name
    return name


def _returns(walk: Any, obj: Any) -> bool:
    """Whether an object leads back to itself."""
    todo = deque([obj])
    seen: Dict[int, Any] = {}
    while todo and len(seen) < MAX_OBJECTS and not walk.late():
        for found in walk.leads_to(todo.popleft()):
            if found is obj:
                return True
            if id(type(found)) not in static.ATOM_IDS and id(found) not in seen and not walk.saw(found):
                seen[id(found)] = found
                todo.append(found)
    return False
