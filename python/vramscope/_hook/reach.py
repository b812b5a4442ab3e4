"""What objects of the interpreter's own kinds lead to, and what that is called in a path.

Each function takes an object and yields pairs of what is added to its path and what
is there. None of them runs any of the program's code.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from typing import Any, Callable, Dict, FrozenSet, Iterator, Optional, Tuple

from . import static

Edges = Iterator[Tuple[str, Any]]

_context = BaseException.__dict__["__context__"].__get__
_cause = BaseException.__dict__["__cause__"].__get__
_traceback = BaseException.__dict__["__traceback__"].__get__
_arguments = BaseException.__dict__["args"].__get__
_builtin_self = types.BuiltinFunctionType.__dict__["__self__"].__get__
_wrapper_self = types.MethodWrapperType.__dict__["__self__"].__get__
cached = type(functools.lru_cache(maxsize=1)(lambda: None))


def variables(names: Any) -> Edges:
    """The variables of a dictionary that is a namespace."""
    for name, value in list(dict.items(names)):
        if id(type(value)) not in static.ATOM_IDS and type(name) is str:
            yield "." + name, value


def frame(obj: Any) -> Edges:
    if obj is not None:
        yield "()", static.locals_of(obj)


def frames(obj: Any) -> Edges:
    """Those of a traceback."""
    while obj is not None:
        if obj.tb_frame.f_code.co_flags & 1 and not static.reads(obj.tb_frame):
            yield f" of {obj.tb_frame.f_code.co_name}()", static.locals_of(obj.tb_frame)
        obj = obj.tb_next


def function(obj: Any) -> Edges:
    code = obj.__code__
    for name, cell in zip(code.co_freevars, obj.__closure__ or ()):
        yield from cell_of(cell, "." + name)
    defaults = obj.__defaults__ or ()
    for name, value in zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults):
        yield "." + name, value
    yield from variables(obj.__kwdefaults__ or {})
    yield from variables(static.dict_of(obj) or {})


def cell_of(cell: Any, name: str = "") -> Edges:
    try:
        yield name, cell.cell_contents
    except ValueError:
        pass  # empty


def method(obj: Any) -> Edges:
    yield ".__self__", obj.__self__
    yield ".__func__", obj.__func__


def builtin(obj: Any) -> Edges:
    owner = _builtin_self(obj)
    if not static.is_binding(type(owner)):
        yield ".__self__", owner


def wrapper(obj: Any) -> Edges:
    yield ".__self__", _wrapper_self(obj)


def exception(obj: Any) -> Edges:
    for edge, value in frames(_traceback(obj)):
        yield ".__traceback__" + edge, value
    yield ".args", _arguments(obj)
    yield ".__cause__", _cause(obj)
    yield ".__context__", _context(obj)


def class_of(obj: Any, left_out: FrozenSet[int]) -> Edges:
    """What a class has of its own, but for kinds that hold nothing there; nothing of those that the interpreter is made of."""
    if static.is_made(obj):
        for name, value in list(static.class_dict(obj).items()):
            if not name.startswith("__") and id(type(value)) not in left_out:
                yield "." + name, value


def wrapped(obj: Any) -> Edges:
    """The functions in a property, class method or static method."""
    for found in static.referents(obj):
        yield "", found


def cache(obj: Any) -> Edges:
    """What functools.lru_cache keeps, results and arguments."""
    own = static.dict_of(obj)
    yield from variables(own or {})
    for found in static.referents(obj):
        if type(found) is not dict:
            yield ".lru_cache", found
        elif found is not own:
            for key, value in static.elements(found):
                yield ".lru_cache", value


def bound_of_cache(obj: Any) -> Optional[Tuple[int, int]]:
    """How many results functools.lru_cache may keep, and keeps; None without a bound."""
    _, _, most, held = cached.__dict__["cache_info"](obj)
    return None if most is None else (most, held)


def own_of_threads(obj: Any) -> Edges:
    """The variables of a threading.local, of all threads."""
    todo = static.referents(obj)
    while todo:
        found = todo.pop()
        if type(found) is not dict:
            continue
        for key, value in list(dict.items(found)):
            if type(key) is str:
                yield "." + key, value
            elif type(value) is dict:
                todo.append(value)


def array(numpy: Any) -> Callable[[Any], Edges]:
    """What looks into NumPy's arrays of objects."""
    of, hold = numpy.ndarray.dtype.__get__, type(numpy.dtype(object)).hasobject.__get__
    size, listed = numpy.ndarray.size.__get__, numpy.ndarray.tolist

    def look(obj: Any) -> Edges:
        if hold(of(obj)) and size(obj) <= static.MAX_ELEMENTS:
            yield "", listed(obj)

    return look


Look = Tuple[Callable[[Any], Edges], bool]

# By the id of a kind what looks into it, and whether attributes may hold more.
KINDS: Dict[int, Look] = {id(kind): (look, more) for kind, look, more in (
    (types.FunctionType, function, False),
    (types.MethodType, method, False),
    (types.BuiltinFunctionType, builtin, False),
    (types.MethodWrapperType, wrapper, False),
    (types.GeneratorType, lambda obj: frame(obj.gi_frame), False),
    (types.CoroutineType, lambda obj: frame(obj.cr_frame), False),
    (types.AsyncGeneratorType, lambda obj: frame(obj.ag_frame), False),
    (types.FrameType, frame, False),
    (types.TracebackType, frames, False),
    (types.CellType, cell_of, False),
    (types.ModuleType, lambda obj: iter(()), False),
    (BaseException, exception, True),
    (property, wrapped, False),
    (classmethod, wrapped, False),
    (staticmethod, wrapped, False),
    (cached, cache, False),
    (threading.local, own_of_threads, False),
)}  # fmt: skip


def kinds() -> Dict[int, Look]:
    """All kinds, NumPy's arrays where there are any."""
    numpy: Any = sys.modules.get("numpy")
    return {**KINDS, **({id(numpy.ndarray): (array(numpy), True)} if hasattr(numpy, "ndarray") else {})}
