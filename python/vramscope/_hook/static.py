"""Looks into objects without running any of the program's code.

Attributes are read from the instance's dictionary and slots by the interpreter's
own descriptors, and what else an object refers to is asked of the garbage collector:
no `__getattr__`, no property, no `__iter__` of the program is called, and no tensor's
values are read.
"""

from __future__ import annotations

import gc
import itertools
import threading
import types
from collections import deque
from typing import Any, Dict, Iterator, List, Optional, Tuple

_dict_of = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__  # None for a class of C that was never made ready
_size_of = type.__dict__["__basicsize__"].__get__
_base_of = type.__dict__["__base__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_module_of = type.__dict__["__module__"].__get__
name_of = type.__dict__["__name__"].__get__

# Types whose instances lead to no tensor.
ATOMS = frozenset(
    (type(None), bool, int, float, complex, str, bytes, bytearray, range, slice,
     types.CodeType, types.ModuleType, type(Ellipsis), type(NotImplemented), types.GetSetDescriptorType,
     types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)
)  # fmt: skip

# Elements of one container that are looked at, and of those that seem to be plain data.
MAX_ELEMENTS = 100_000
PROBE = 256


# Torch's modules that read checkpoints: what a call of theirs remembers is gone with the call.
READERS = ("torch.serialization", "torch._weights_only_unpickler")
FILES_OF_READERS = tuple("-packages/" + name.replace(".", "/") + ".py" for name in READERS)

# By id: classes are hashed and compared by their metaclasses, which may be the program's.
ATOM_IDS = frozenset(map(id, ATOMS))


def is_kind(cls: type, kind: type) -> bool:
    """issubclass without `__subclasscheck__` or `__eq__`."""
    return any(base is kind for base in _mro_of(cls) or ())


def subclasses(kind: type) -> Dict[int, type]:
    """A class and all that derive from it, by id, without `__subclasses__` of a metaclass."""
    found: Dict[int, type] = {}
    todo = [kind]
    while todo:
        cls = todo.pop()
        if id(cls) not in found:
            found[id(cls)] = cls
            todo += type.__subclasses__(cls)
    return found


def instances(objects: List[Any], kinds: Dict[int, Any]) -> Iterator[Any]:
    """Those objects whose class is one of these, by id, without a line of Python for each."""
    return itertools.compress(objects, map(kinds.__contains__, map(id, map(type, objects))))


CONTAINERS = {id(kind): kind for kind in (dict, list, tuple, set, frozenset, deque)}


def container_of(cls: type) -> Any:
    """Which of the containers a class is; isinstance would ask an object for its `__class__`."""
    return first_of(cls, CONTAINERS)


def first_of(cls: type, kinds: Dict[int, Any]) -> Any:
    """What is said of a class, or of the nearest of those that it derives from; None without any."""
    for base in _mro_of(cls) or ():
        found = kinds.get(id(base))
        if found is not None:
            return found
    return None


def module_of(cls: type) -> Any:
    """The name of the module of a class; anything where the program says so."""
    return _module_of(cls)


def is_reader(cls: type) -> bool:
    """Whether a class is of those that read checkpoints."""
    module = _module_of(cls)
    return type(module) is str and module in READERS


def reads(frame: Any) -> bool:
    """Whether a frame is of a call that reads a checkpoint."""
    return str(frame.f_code.co_filename).replace("\\", "/").endswith(FILES_OF_READERS)


def lookup(cls: type, name: str) -> Any:
    """The attribute of a class as it stands there, None without one."""
    for base in _mro_of(cls) or ():
        found = _dict_of(base).get(name)
        if found is not None:
            return found
    return None


def members(cls: type, prefix: str) -> List[Any]:
    """What a class has under names that begin alike."""
    return [found for base in _mro_of(cls) or () for name, found in _dict_of(base).items() if name.startswith(prefix)]


def dict_getter(cls: type) -> Any:
    """What reads the dictionary of a class' instances; None where they have none, the program shows another, or each
    thread has its own, for which `__init__` is called."""
    if is_kind(cls, threading.local):
        return None
    getter = lookup(cls, "__dict__")
    return getter.__get__ if type(getter) in (types.GetSetDescriptorType, types.MemberDescriptorType) else None


def dict_of(obj: Any) -> Optional[Dict[str, Any]]:
    """The instance's dictionary."""
    getter = dict_getter(type(obj))
    found = getter(obj) if getter is not None else None
    return found if is_kind(type(found), dict) else None


def bound_of(obj: Any) -> Optional[int]:
    """How many elements a deque may hold; None for one without a bound, and for other objects."""
    if container_of(type(obj)) is not deque:
        return None
    found: Optional[int] = deque.__dict__["maxlen"].__get__(obj)
    return found


def class_dict(cls: type) -> Any:
    """A class's own dictionary."""
    return _dict_of(cls)


HEAP_TYPE = 1 << 9


def is_made(cls: type) -> bool:
    """Whether a class was made while the program ran: the others can't be given attributes."""
    return bool(_flags_of(cls) & HEAP_TYPE)


def is_binding(cls: type) -> bool:
    """Whether it is of functions of C++, of which there are tens of thousands."""
    return bool(name_of(cls).startswith(("instancemethod", "pybind11_", "PyCapsule")))


def is_opaque(cls: type) -> bool:
    """Whether instances have room for more than slots, a dictionary and weak references: fields of C that no
    descriptor shows."""
    if is_binding(cls):
        return False
    for base in _mro_of(cls) or ():
        if base is object or id(base) in CONTAINERS:
            continue
        own = _dict_of(base)
        shown = 0 if _module_of(base) == "builtins" else sum(type(m) is types.MemberDescriptorType for m in own.values())
        if _size_of(base) > _size_of(_base_of(base)) + 8 * (shown + ("__dict__" in own) + ("__weakref__" in own)):
            return True
    return False


def referents(obj: Any) -> List[Any]:
    """All that an object refers to, as its class tells the garbage collector, but for the class."""
    cls = type(obj)
    return [found for found in gc.get_referents(obj) if found is not cls]


def slots_of(cls: type) -> List[Tuple[str, Any]]:
    """Slots and the descriptors that read them."""
    found = []
    for base in _mro_of(cls) or ():
        if _module_of(base) != "builtins":
            found += [(n, m) for n, m in _dict_of(base).items() if type(m) is types.MemberDescriptorType]
    return found


def attribute(obj: Any, name: str) -> Any:
    """One attribute of an instance, None without it."""
    own = dict_of(obj)
    if own is not None and name in own:
        return own[name]
    member = lookup(type(obj), name)
    if type(member) is types.MemberDescriptorType:
        try:
            return member.__get__(obj)
        except AttributeError:
            pass
    return None


class Key:
    """Stands for the key of what is itself a key."""


def elements(obj: Any) -> Iterator[Tuple[Any, Any]]:
    """What a container holds, with the key or position of each; None for sets, Key for keys."""
    kind = container_of(type(obj))
    if kind is dict:
        pairs: Iterator[Tuple[Any, Any]] = iter(dict.items(obj))
    elif kind is list:
        pairs = enumerate(list.__iter__(obj))
    elif kind is tuple:
        pairs = enumerate(tuple.__iter__(obj))
    elif kind is deque:
        pairs = enumerate(deque.__iter__(obj))
    else:
        pairs = ((None, value) for value in (set if kind is set else frozenset).__iter__(obj))
    plain = True
    for n, (key, value) in enumerate(itertools.islice(pairs, MAX_ELEMENTS)):
        if id(type(key)) not in ATOM_IDS:
            yield Key, key
        if id(type(value)) in ATOM_IDS:
            if plain and n >= PROBE:
                return  # a vocabulary, a list of token ids
            continue
        plain = False
        yield key, value


_codes = {types.GeneratorType: "gi_code", types.CoroutineType: "cr_code", types.AsyncGeneratorType: "ag_code"}


def code_of(obj: Any) -> types.CodeType:
    """The code of a generator or coroutine."""
    found: types.CodeType = type(obj).__dict__[_codes[type(obj)]].__get__(obj)
    return found


def locals_of(frame: Any) -> Dict[str, Any]:
    """A frame's variables. Before Python 3.13 the frame keeps what it shows, and with it every tensor alive:
    that copy is emptied again."""
    shown = frame.f_locals
    if not frame.f_code.co_flags & 1:  # a module's or class's own dictionary
        return shown if type(shown) is dict else {}
    found = dict(shown)
    if type(shown) is dict:
        shown.clear()
    return found
