"""Which variable of the program keeps a tensor alive.

Breadth first from the globals of the program's modules and the local variables of
all threads, so that the shortest path to a tensor is found: the path of the list
is said, not that of the thing that also knows the list. Behind a tensor with a
`grad_fn` stands its autograd graph, whose saved tensors only the tensor keeps alive.
"""

from __future__ import annotations

import os
import sys
import time
import types
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Set, Tuple

from . import static

MAX_OBJECTS = 1_000_000
MAX_NODES = 200_000  # of autograd graphs
MAX_SECONDS = 3.0  # of the processor
MAX_PATH = 300  # characters
MAX_KEYS = 16  # more keys of one dictionary are told as one

CODE = frozenset((types.FunctionType, type, *static.ATOMS))  # which holds no tensors in a library's modules
OWN = __name__.split(".")[0]  # the recorder's own package isn't the program's


class Held(NamedTuple):
    """What one variable holds."""

    path: str
    device: int
    tensors: List[int]  # addresses of storages
    graph: List[int]


class Torch:
    """The few things of PyTorch that tell a tensor's storage, past any subclass."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.tensor = torch.Tensor
        self.module = torch.nn.Module
        self.optimizer = torch.optim.Optimizer
        self.base = torch._C._TensorBase if not hasattr(torch._C, "TensorBase") else torch._C.TensorBase
        self.off = torch._C.DisableTorchFunctionSubclass
        self.function_base = torch._C._FunctionBase
        self.sizes: Dict[Tuple[int, int], int] = {}  # bytes of the storages that were met

    def address(self, tensor: Any) -> Optional[Tuple[int, int]]:
        """A CUDA tensor's device and its storage's address; None for any other. Of a tensor that is spread over
        ranks, those of the part that is here."""
        local = static.attribute(tensor, "_local_tensor")
        if local is not None and static.is_kind(type(local), self.tensor):
            tensor = local
        try:
            with self.off():
                if not self.base.is_cuda.__get__(tensor):
                    return None
                storage = self.base.untyped_storage(tensor)
                place = (self.base.get_device(tensor), storage.data_ptr())
                self.sizes[place] = storage.nbytes()
                return place if place[1] else None
        except Exception:
            return None

    def grad(self, tensor: Any) -> Any:
        try:
            with self.off():
                return self.base.grad.__get__(tensor) if self.base.is_leaf.__get__(tensor) else None
        except Exception:
            return None

    def grad_fn(self, tensor: Any) -> Any:
        try:
            with self.off():
                return self.base.grad_fn.__get__(tensor)
        except Exception:
            return None


class Walk:
    """One look at everything that the program holds."""

    def __init__(self, torch: Any, skip: str = "") -> None:
        self.t = Torch(torch)
        self.skip = skip  # frames of files in this folder are the recorder's own
        self.stop = time.thread_time() + MAX_SECONDS
        self.modules: Dict[int, Any] = {}
        self.optimizers: Dict[int, Any] = {}
        self.tensors: List[Tuple[Any, int]] = []  # with the number of its path
        self.complete = True
        self._edges: List[Tuple[int, str]] = []  # parent, what is added to its path
        self._queue: Deque[Tuple[Any, int]] = deque()
        self._seen: Dict[int, Any] = {}  # by id; held, so that no id comes again
        self._getters: Dict[type, Tuple[Any, List[Tuple[str, Any]]]] = {}
        self._nodes: Dict[type, List[Any]] = {}
        self._visits: Dict[type, Callable[[Any, int], bool]] = {}
        self._graph_seen: Dict[int, Any] = {}

    def run(self) -> None:
        """Finds the program's tensors, modules and optimizers."""
        self._seen[id(self)] = self
        self._roots()
        objects = 0
        while self._queue:
            obj, number = self._queue.popleft()
            objects += 1
            if objects > MAX_OBJECTS or (objects & 255 == 0 and time.thread_time() > self.stop):
                self.complete = False
                return
            try:
                self._visit(obj, number)
            except Exception:  # changed by another thread, or of an odd type: the others still count
                self.complete = False

    def let_go(self) -> None:
        """Lets go of all that was seen, at once: this object is part of cycles."""
        for seen in (self._seen, self._edges, self._queue, self.tensors, self.modules, self.optimizers, self._graph_seen,
                     self._visits, self._getters, self._nodes):  # fmt: skip
            seen.clear()

    def _roots(self) -> None:
        main = sys.modules.get("__main__")
        mine: List[Tuple[str, Any]] = []
        theirs: List[Tuple[str, Any]] = []
        for name, module in list(sys.modules.items()):
            variables = static.dict_of(module) if type(module) is types.ModuleType else None
            if variables is None or module is main or name == "__mp_main__" or name.split(".")[0] == OWN:
                continue
            file = variables.get("__file__")
            library = not isinstance(file, str) or "-packages" in file or file.startswith(os.path.dirname(os.__file__))
            (theirs if library else mine).append((name, variables))
        if main is not None:
            self._push(static.dict_of(main), -1, "main")
        for name, variables in mine:
            self._push(variables, -1, name)
        stacks = sys._current_frames()
        for thread in list(stacks):
            self._stack(stacks.pop(thread))  # no variable here may keep a frame: one of them is this function's own
        for name, variables in theirs:
            self._push({k: v for k, v in list(variables.items()) if type(v) not in CODE}, -1, name)

    def _stack(self, frame: Any) -> None:
        """The functions of a thread, the outermost first."""
        frames = []
        while frame is not None:
            if frame.f_code.co_flags & 1 and not (self.skip and frame.f_code.co_filename.startswith(self.skip)):
                frames.append(frame)
            frame = frame.f_back
        while frames:
            frame = frames.pop()
            self._push(static.locals_of(frame), -1, frame.f_code.co_name + "()")

    def _push(self, obj: Any, parent: int, edge: str) -> None:
        if type(obj) in static.ATOMS or id(obj) in self._seen:
            return
        self._seen[id(obj)] = obj
        self._edges.append((parent, edge))
        self._queue.append((obj, len(self._edges) - 1))

    def _visit(self, obj: Any, number: int) -> None:
        cls = type(obj)
        visit = self._visits.get(cls)
        if visit is None:
            visit = self._visits[cls] = self._visit_of(cls)
        if visit(obj, number):
            self._attributes(obj, cls, number)

    def _visit_of(self, cls: type) -> Callable[[Any, int], bool]:
        """How objects of a class are looked into; what the method returns is whether attributes may hold more."""
        kinds: List[Tuple[type, Callable[[Any, int], bool]]] = [
            (self.t.tensor, self._tensor), (self.t.module, self._module), (self.t.optimizer, self._optimizer),
            (types.FunctionType, self._function), (types.MethodType, self._method), (types.GeneratorType, self._generator),
            (types.CoroutineType, self._coroutine), (BaseException, self._exception), (type, self._class),
        ]  # fmt: skip
        for kind, visit in kinds:
            if static.is_kind(cls, kind):
                return visit
        if cls in static.CONTAINERS:
            return self._plain
        return self._container if static.container_of(cls) is not None else lambda obj, number: True

    def _tensor(self, obj: Any, number: int) -> bool:
        self.tensors.append((obj, number))
        self._push(self.t.grad(obj), number, ".grad")
        return True

    def _module(self, obj: Any, number: int) -> bool:
        self.modules[id(obj)] = obj
        return True

    def _optimizer(self, obj: Any, number: int) -> bool:
        self.optimizers[id(obj)] = obj
        return True

    def _container(self, obj: Any, number: int) -> bool:
        parent, edge = self._edges[number]
        kind = static.container_of(type(obj))
        variables = kind is dict and (parent < 0 or edge.endswith("()"))
        single = kind is not dict or dict.__len__(obj) <= MAX_KEYS
        for key, value in static.elements(obj):
            self._push(value, number, f".{key}" if variables else self._index(key, single))
        return True

    def _plain(self, obj: Any, number: int) -> bool:
        self._container(obj, number)
        return False

    def _function(self, obj: Any, number: int) -> bool:
        for name, cell in zip(obj.__code__.co_freevars, obj.__closure__ or ()):
            self._cell(cell, number, name)
        for value in obj.__defaults__ or ():
            self._push(value, number, ".__defaults__")
        return False

    def _method(self, obj: Any, number: int) -> bool:
        self._push(obj.__self__, number, ".__self__")
        return False

    def _generator(self, obj: Any, number: int) -> bool:
        return self._suspended(obj.gi_frame, number)

    def _coroutine(self, obj: Any, number: int) -> bool:
        return self._suspended(obj.cr_frame, number)

    def _suspended(self, frame: Any, number: int) -> bool:
        if frame is not None:
            self._push(static.locals_of(frame), number, "()")
        return False

    def _exception(self, obj: Any, number: int) -> bool:
        traceback = BaseException.__dict__["__traceback__"].__get__(obj)
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_flags & 1:
                self._push(static.locals_of(frame), number, f".__traceback__ of {frame.f_code.co_name}()")
            traceback = traceback.tb_next
        return True

    def _class(self, obj: Any, number: int) -> bool:
        for name, value in list(static.class_dict(obj).items()):
            if not name.startswith("__"):
                self._push(value, number, "." + name)
        return False

    def _cell(self, cell: Any, number: int, name: str) -> None:
        try:
            self._push(cell.cell_contents, number, "." + name)
        except ValueError:
            pass  # empty

    def _attributes(self, obj: Any, cls: type, number: int) -> None:
        getters = self._getters.get(cls)
        if getters is None:
            getters = self._getters[cls] = (static.dict_getter(cls), static.slots_of(cls))
        own = getters[0](obj) if getters[0] is not None else None
        if type(own) is dict:
            for name, value in list(own.items()):
                if type(value) in static.ATOMS:
                    continue
                if name in ("_parameters", "_modules", "_buffers") and static.container_of(type(value)) is dict:
                    for key, part in static.elements(value):
                        self._push(part, number, f".{key}")
                else:
                    self._push(value, number, f".{name}")
        for name, member in getters[1]:
            try:
                self._push(member.__get__(obj), number, "." + name)
            except AttributeError:
                pass

    @staticmethod
    def _index(key: Any, single: bool) -> str:
        if key is None:
            return "{}"
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

    def held(self, known: Set[Tuple[int, int]]) -> List[Held]:
        """What each variable holds of what isn't known by a name, with the graphs behind it."""
        groups: Dict[Tuple[str, int], Held] = {}
        claimed = set(known)
        found = []
        for tensor, number in self.tensors:
            place = self.t.address(tensor)
            if place is None:
                continue
            fresh = place not in claimed
            claimed.add(place)
            found.append((tensor, number, place, fresh))
        for tensor, number, place, fresh in found:
            graph = self._graph(self.t.grad_fn(tensor), claimed)
            if not fresh and not graph:
                continue
            path = self.path(number)
            key = (_together(path), place[0])
            group = groups.get(key)
            if group is None:
                group = groups[key] = Held(path, place[0], [], [])
            elif len(group.path) and group.path != key[0]:
                group = groups[key] = group._replace(path=key[0])
            if fresh:
                group.tensors.append(place[1])
            group.graph.extend(address for device, address in graph if device == place[0])
        return list(groups.values())

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
            for tensor in self._saved(node):
                place = self.t.address(tensor)
                if place is not None and place not in claimed:
                    claimed.add(place)
                    found.append(place)
            todo.extend(following for following, _ in node.next_functions if following is not None)
        return found

    def _saved(self, node: Any) -> List[Any]:
        """The tensors that a node saved, unless packing hooks of the program would have to unpack them."""
        found: List[Any] = []
        cls = type(node)
        getters = self._nodes.get(cls)
        if getters is None:
            getters = [g for base in cls.__mro__ for n, g in base.__dict__.items() if n.startswith("_raw_saved")]
            self._nodes[cls] = getters
        for getter in getters:
            try:
                raw = getter.__get__(node)
            except Exception:  # freed by its backward pass
                continue
            for saved in raw if isinstance(raw, (tuple, list)) else (raw,):
                data = getattr(saved, "data", None)  # of PyTorch's own class; older versions lack it
                if static.is_kind(type(data), self.t.tensor):
                    found.append(data)
        if static.is_kind(cls, self.t.function_base):  # ctx.name = tensor
            for value in (static.dict_of(node) or {}).values():
                for part in value if type(value) in (tuple, list) else (value,):
                    if static.is_kind(type(part), self.t.tensor):
                        found.append(part)
        return found


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
