"""Which variable of the program keeps a tensor alive.

Breadth first from the globals of the program's modules and the local variables of
all threads, so that the shortest path to a tensor is found: the path of the list
is said, not that of the thing that also knows the list. Behind a tensor with a
`grad_fn` stands its autograd graph, whose saved tensors only the tensor keeps alive.
Where tensors are left that none of them leads to, the globals of libraries come next,
and then the objects that keep each other alive.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
import types
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Set, Tuple

from . import lost, reach, static
from .tensors import Torch

MAX_OBJECTS = 1_000_000
MAX_NODES = 200_000  # of autograd graphs
MAX_SECONDS = 3.0  # of the processor
MAX_PATH = 300  # characters
LEAST_LEFT = 1 << 20  # bytes that nobody was found to hold, from which on libraries are looked through, too
MAX_KEYS = 16  # more keys of one dictionary are told as one

# Kinds that hold no tensors in a library's modules, and none in its classes.
CODE = static.ATOM_IDS | frozenset(map(id, (types.FunctionType, types.BuiltinFunctionType, type)))
METHODS = CODE | frozenset(map(id, (property, classmethod, staticmethod)))
OWN = __name__.split(".")[0]  # the recorder's own package isn't the program's


class Held(NamedTuple):
    """What one variable holds."""

    path: str
    device: int
    tensors: List[int]  # addresses of storages
    graph: List[int]
    cycle: bool = False  # no variable: objects that refer to each other
    shown: Tuple[int, ...] = ()  # bytes that tensors show of each storage; empty where they show all
    bound: Optional[Tuple[int, int]] = None  # elements that the container may hold, and holds

    def told(self) -> Dict[str, Any]:
        """As a file of holders has it."""
        bound, elements = self.bound or (0, 0)
        more = {"cycle": self.cycle, "shown": self.shown, "bound": bound, "elements": elements}
        return {"path": self.path, "device": self.device, "event": None, "tensors": self.tensors, "graph": self.graph,
                **{name: value for name, value in more.items() if value}}  # fmt: skip


class Walk:
    """One look at everything that the program holds."""

    def __init__(self, torch: Any, skip: str = "", ended: bool = False) -> None:
        self.t = Torch(torch)
        self.skip = skip  # frames of files in this folder are the recorder's own
        self.ended = ended  # the program has: the variables of its functions are those that a failure left
        self.stop = time.thread_time() + MAX_SECONDS
        self.modules: Dict[int, Any] = {}
        self.ways: Dict[int, int] = {}  # the number of a module's path, by its id
        self.optimizers: Dict[int, Any] = {}
        self.tensors: List[Tuple[Any, int]] = []  # with the number of its path
        self.complete = True
        self._objects = 0
        self._edges: List[Tuple[int, str]] = []  # parent, what is added to its path
        self._queue: Deque[Tuple[Any, int]] = deque()
        self._seen: Dict[int, Any] = {}  # by id; held, so that no id comes again
        self._getters: Dict[int, Tuple[Any, List[Tuple[str, Any]], bool]] = {}  # by the id of a class
        self._visits: Dict[int, Callable[[Any, int], bool]] = {}
        self._called: List[Tuple[Any, str, bool]] = []  # variables of functions, their names, and whether they are a library's
        self._libraries: Dict[str, Any] = {}  # variables of modules that aren't the program's own
        self._kinds: Dict[int, Callable[[Any, int], bool]] = {
            id(self.t.tensor): self._tensor, id(self.t.module): self._module, id(self.t.optimizer): self._optimizer,
            id(type): self._class,
            **{kind: functools.partial(self._follow, look, more) for kind, (look, more) in reach.kinds().items()},
            **{kind: self._container for kind in static.CONTAINERS},
        }  # fmt: skip
        self._graph_seen: Dict[int, Any] = {}
        self._shown: Dict[Tuple[int, int], int] = {}  # bytes that tensors show of a storage
        self._cycles: Set[int] = set()  # numbers of objects that lead back to themselves
        self._lost: Set[int] = set()  # numbers of objects to which no variable leads
        self._bounds: Dict[int, Optional[Tuple[int, int]]] = {}  # of containers that have one; None of large ones that have none

    def run(self) -> None:
        """Finds the program's tensors, modules and optimizers."""
        self._seen[id(self)] = self
        self._roots()
        own = [called for called in self._called if not called[2]]
        for variables, name, _ in own + [called for called in self._called if called[2]]:
            self._through()  # the caller's come first, and the program's: what a function was given isn't its own
            self._push(variables, -1, name)
        self._through()

    def _through(self) -> None:
        """Looks through what is queued, and all that it leads to."""
        while self._queue:
            obj, number = self._queue.popleft()
            self._objects += 1
            if self._objects > MAX_OBJECTS or (self._objects & 255 == 0 and self.late()):
                self.complete = False
                return
            try:
                self._visit(obj, number)
            except Exception:  # changed by another thread, or of an odd type: the others still count
                self.complete = False

    def late(self) -> bool:
        return time.thread_time() > self.stop

    def saw(self, obj: Any) -> bool:
        return id(obj) in self._seen

    def is_own(self, obj: Any) -> bool:
        """Whether an object is the recorder's."""
        if type(obj) is types.FrameType:
            return bool(self.skip) and obj.f_code.co_filename.startswith(self.skip)
        return obj is self.__dict__ or any(obj is own for own in self.__dict__.values())

    def leads_to(self, obj: Any) -> List[Any]:
        """All that an object refers to, that through C++ included."""
        found = static.referents(obj)
        cls = type(obj)
        if self.t.is_tensor(cls):
            found += [self.t.grad_fn(obj), self.t.grad(obj)]
        elif self.t.is_node(cls):
            found += [*self.t.saved(obj), *(node for node, _ in obj.next_functions)]
        return found

    def let_go(self) -> None:
        """Lets go of all that was seen, at once: this object is part of cycles."""
        for seen in (self._seen, self._edges, self._queue, self.tensors, self.modules, self.optimizers, self._graph_seen,
                     self._visits, self._getters, self._kinds, self._libraries, self._shown, self._called):  # fmt: skip
            seen.clear()

    def _roots(self) -> None:
        main = sys.modules.get("__main__")
        mine: List[Tuple[str, Any]] = []
        for name, module in list(sys.modules.items()):
            variables = static.dict_of(module) if type(module) is types.ModuleType else None
            if variables is None or module is main or name == "__mp_main__" or name.split(".")[0] == OWN:
                continue
            if _of_library(variables.get("__file__")):
                self._libraries[name] = variables
            else:
                mine.append((name, variables))
        if main is not None:
            self._push(_without_outputs(static.dict_of(main)), -1, "main")
        for name, variables in mine:
            self._push(variables, -1, name)
        stacks = sys._current_frames()
        for thread in list(stacks):
            self._stack(stacks.pop(thread))  # no variable here may keep a frame: one of them is this function's own
        self._failure()
        contexts = sys.modules.get("contextvars")
        for variable, value in contexts.copy_context().items() if contexts is not None else ():
            self._push(value, -1, f"contextvars.{variable.name}")

    def _failure(self) -> None:
        """Once the program has ended, what its failure keeps are the variables of its functions."""
        last = getattr(sys, "last_value", None)
        if self.ended and static.is_kind(type(last), BaseException):
            for edge, variables in reach.exception(last):
                if " of " in edge:
                    self._push(variables, -1, edge.rpartition(" of ")[2])

    def _stack(self, frame: Any) -> None:
        """The functions of a thread, the outermost first."""
        frames = []
        while frame is not None:
            if frame.f_code.co_flags & 1 and not (self.skip and frame.f_code.co_filename.startswith(self.skip)):
                frames.append(frame)
            frame = frame.f_back
        while frames:
            frame = frames.pop()
            if not static.reads(frame):
                self._called.append((static.locals_of(frame), frame.f_code.co_name + "()", _of_library(frame.f_code.co_filename)))

    def _push(self, obj: Any, parent: int, edge: str) -> None:
        if id(type(obj)) in static.ATOM_IDS or id(obj) in self._seen:
            return
        self._seen[id(obj)] = obj
        self._edges.append((parent, edge))
        self._queue.append((obj, len(self._edges) - 1))

    def _visit(self, obj: Any, number: int) -> None:
        cls = type(obj)
        visit = self._visits.get(id(cls))
        if visit is None:
            visit = self._plain if id(cls) in static.CONTAINERS else static.first_of(cls, self._kinds) or self._nothing
            self._visits[id(cls)] = visit
        if visit(obj, number):
            self._attributes(obj, cls, number)

    @staticmethod
    def _nothing(obj: Any, number: int) -> bool:
        """How objects of a class are looked into; it says whether attributes may hold more."""
        return True

    def _class(self, obj: Any, number: int) -> bool:
        module = static.module_of(obj)
        library = type(module) is str and module in self._libraries
        for edge, value in reach.class_of(obj, METHODS if library else static.ATOM_IDS):
            self._push(value, number, edge)
        return False

    def _follow(self, edges: Callable[[Any], reach.Edges], more: bool, obj: Any, number: int) -> bool:
        for edge, value in edges(obj):
            self._push(value, number, edge)
        if edges is reach.cache:
            self._bounds[number] = reach.bound_of_cache(obj)
        return more

    def _tensor(self, obj: Any, number: int) -> bool:
        self.tensors.append((obj, number))
        self._push(self.t.grad(obj), number, ".grad")
        self._push(self.t.hooks(obj), number, "._backward_hooks")
        return True

    def _module(self, obj: Any, number: int) -> bool:
        self.modules[id(obj)] = obj
        self.ways[id(obj)] = number
        return True

    def _optimizer(self, obj: Any, number: int) -> bool:
        self.optimizers[id(obj)] = obj
        return True

    def _container(self, obj: Any, number: int) -> bool:
        parent, edge = self._edges[number]
        kind = static.container_of(type(obj))
        variables = kind is dict and (parent < 0 and number not in self._lost or edge.endswith("()"))
        single = kind is not dict or dict.__len__(obj) <= MAX_KEYS
        most = static.bound_of(obj)
        if most is not None:
            self._bounds[number] = (most, deque.__len__(obj))
        elif kind is not tuple and kind.__len__(obj) > MAX_KEYS and not variables:
            self._bounds[number] = None
        for key, value in static.elements(obj):
            self._push(value, number, "." + key if variables and type(key) is str else self._index(key, single))
        return True

    def _plain(self, obj: Any, number: int) -> bool:
        self._container(obj, number)
        return False

    def _attributes(self, obj: Any, cls: type, number: int) -> None:
        getters = self._getters.get(id(cls))
        if getters is None:
            more = static.is_opaque(cls) and not self.t.is_tensor(cls)
            getters = self._getters[id(cls)] = (static.dict_getter(cls), static.slots_of(cls), more)
            self._push(cls, number, ".__class__")
        own = getters[0](obj) if getters[0] is not None else None
        if type(own) is dict:
            for name, value in list(own.items()):
                if id(type(value)) in static.ATOM_IDS or type(name) is not str:
                    continue
                if name in ("_parameters", "_modules", "_buffers") and static.container_of(type(value)) is dict:
                    for key, part in static.elements(value):
                        self._push(part, number, "." + key if type(key) is str else "[*]")
                else:
                    self._push(value, number, "." + name)
        for name, member in getters[1]:
            try:
                self._push(member.__get__(obj), number, "." + name)
            except AttributeError:
                pass
        if getters[2]:
            for value in static.referents(obj):
                if value is not own:
                    self._push(value, number, "")

    @staticmethod
    def _index(key: Any, single: bool) -> str:
        if key is None:
            return "{}"
        if key is static.Key:
            return ""
        if not single:
            return "[*]"
        if type(key) is str:
            return f"[{key[:60]!r}]"
        return f"[{key}]" if type(key) is int else "[*]"

    def path(self, number: int) -> str:
        """The way to what has this number, from its root."""
        parts = []
        while number >= 0:
            number, edge = self._edges[number]
            parts.append(edge)
        return "".join(reversed(parts))[:MAX_PATH]

    def held(self, known: Set[Tuple[int, int]], everywhere: bool = True) -> List[Held]:
        """What each variable holds of what isn't known by a name, with the graphs behind it; everywhere, or only where
        the program's own variables lead."""
        groups: Dict[Tuple[str, int], Held] = {}
        claimed = set(known)
        self._group(groups, claimed, self.tensors)
        for more in (self._of_libraries, self._of_nobody) if everywhere else ():
            left = self._left(claimed)
            if not left or not self.complete:
                break
            reached = len(self.tensors)
            more(left)
            self._through()
            self._group(groups, claimed, self.tensors[reached:])
        return [group._replace(shown=self._parts(group)) for group in groups.values()]

    def _parts(self, group: Held) -> Tuple[int, ...]:
        """What tensors show of each storage, unless a graph may need the rest, or they show all of each."""
        places = [(group.device, address) for address in group.tensors]
        if group.graph or all(self._shown[place] >= self.t.sizes[place] for place in places):
            return ()
        return tuple(min(self._shown[place], self.t.sizes[place]) for place in places)

    def _group(self, groups: Dict[Tuple[str, int], Held], claimed: Set[Tuple[int, int]], tensors: List[Tuple[Any, int]]) -> None:
        """Adds tensors to what their variables hold, unless somebody claims them."""
        found = []
        for tensor, number in tensors:
            place = self.t.address(tensor)
            if place is None:
                continue
            fresh = place not in claimed
            claimed.add(place)
            self._shown[place] = self._shown.get(place, 0) + self.t.shown(tensor)
            found.append((tensor, number, place, fresh))
        for tensor, number, place, fresh in found:
            graph = self._graph(self.t.grad_fn(tensor), claimed)
            if not fresh and not graph:
                continue
            path = self.path(number)
            key = (_together(path), place[0])
            group = groups.get(key)
            if group is None:
                group = groups[key] = Held(path, place[0], [], [], self._root(number) in self._cycles, bound=self._bound(number))
            elif len(group.path) and group.path != key[0]:
                group = groups[key] = group._replace(path=key[0])
            if fresh:
                group.tensors.append(place[1])
            group.graph.extend(address for device, address in graph if device == place[0])

    def _bound(self, number: int) -> Optional[Tuple[int, int]]:
        """Of the innermost container on the way that has a bound, unless one that may grow stands within."""
        while number >= 0 and number not in self._bounds:
            number = self._edges[number][0]
        return self._bounds.get(number)

    def _root(self, number: int) -> int:
        while self._edges[number][0] >= 0:
            number = self._edges[number][0]
        return number

    def _left(self, claimed: Set[Tuple[int, int]]) -> List[Any]:
        """The tensors that nobody was found to hold, if they are worth looking for."""
        tensors, size = [], 0
        for obj in static.instances(gc.get_objects(), static.subclasses(self.t.tensor)):
            if id(obj) not in self._seen:
                place = self.t.address(obj)
                if place is not None and place not in claimed:
                    tensors.append(obj)
                    size += self.t.sizes[place]
        return tensors if size >= LEAST_LEFT else []

    def _of_libraries(self, _: List[Any]) -> None:
        """Goes on from the variables of libraries."""
        for name, variables in self._libraries.items():
            self._push({k: v for k, v in list(variables.items()) if id(type(v)) not in CODE}, -1, name)

    def _of_nobody(self, left: List[Any]) -> None:
        """Goes on from the objects that hold what no variable leads to."""
        for root in lost.roots(self, left, gc.get_objects()):
            if not self.saw(root.obj):
                self._lost.add(len(self._edges))
                if root.cycle:
                    self._cycles.add(len(self._edges))
            self._push(root.obj, -1, root.name)

    def _graph(self, node: Any, claimed: Set[Tuple[int, int]]) -> List[Tuple[int, int]]:
        """The storages that the graph behind a node has saved, and that nobody else was found to hold."""
        found: List[Tuple[int, int]] = []
        todo = [node] if node is not None else []
        while todo and len(self._graph_seen) < MAX_NODES:
            node = todo.pop()
            if id(node) in self._graph_seen:
                continue
            self._graph_seen[id(node)] = node
            if len(self._graph_seen) & 255 == 0 and time.thread_time() > self.stop:
                self.complete = False
                break
            for tensor in self.t.saved(node):
                place = self.t.address(tensor)
                if place is not None and place not in claimed:
                    claimed.add(place)
                    found.append(place)
            todo.extend(following for following, _ in node.next_functions if following is not None)
        return found


def _of_library(file: Any) -> bool:
    """Whether a file isn't the program's own."""
    return type(file) is not str or "-packages" in file or file.startswith((os.path.dirname(os.__file__), "<frozen"))


def _without_outputs(variables: Any) -> Any:
    """A notebook's variables without the names that it gives to the outputs of cells, all of which `Out` holds, too."""
    if static.is_kind(type(variables), dict) and type(variables.get("Out")) is dict and "_oh" in variables:
        return {k: v for k, v in list(dict.items(variables)) if not (type(k) is str and k[:1] == "_" and k.strip("_").isdigit())
                and k not in ("_", "__", "___", "_oh")}  # fmt: skip
    return variables


def _together(path: str) -> str:
    """The path of all elements of the same containers: `a[3].k` and `a[4].k` are told as `a[*].k`, `b[1]` and
    `b[2]` as `b`."""
    parts: List[str] = []
    for part in path.split("["):
        index, closed, rest = part.partition("]")
        parts.append(f"*]{rest}" if parts and closed and index.lstrip("-").isdigit() else part)
    joined = "[".join(parts)
    while joined.endswith("[*]"):
        joined = joined[:-3]
    return joined
