"""Looks into objects without running any of the program's code.

Attributes are read from the instance's dictionary and slots by the interpreter's
own descriptors: no `__getattr__`, no property, no `__iter__` of the program is
called, and no tensor's values are read.
"""

from __future__ import annotations

import itertools
import types
from collections import deque
from typing import Any, Dict, Iterator, List, Optional, Tuple

_dict_of = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__

# Types whose instances lead to no tensor.
ATOMS = frozenset(
    (type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, type, types.BuiltinFunctionType,
     types.CodeType, types.ModuleType, type(Ellipsis), type(NotImplemented), types.GetSetDescriptorType,
     types.MemberDescriptorType, property, classmethod, staticmethod, types.WrapperDescriptorType,
     types.MethodDescriptorType, types.MethodWrapperType)
)  # fmt: skip

# Elements of one container that are looked at, and of those that seem to be plain data.
MAX_ELEMENTS = 100_000
PROBE = 256


def is_kind(cls: type, kind: type) -> bool:
    """issubclass without `__subclasscheck__` or `__eq__`."""
    return any(base is kind for base in _mro_of(cls))


CONTAINERS = (dict, list, tuple, set, frozenset, deque)


def container_of(cls: type) -> Any:
    """Which of the containers a class is; isinstance would ask an object for its `__class__`."""
    for base in _mro_of(cls):
        if base in CONTAINERS:
            return base
    return None


def lookup(cls: type, name: str) -> Any:
    """The attribute of a class as it stands there, None without one."""
    for base in _mro_of(cls):
        found = _dict_of(base).get(name)
        if found is not None:
            return found
    return None


def dict_getter(cls: type) -> Any:
    """What reads the dictionary of a class' instances; None where they have none, or the program shows another."""
    getter = lookup(cls, "__dict__")
    return getter.__get__ if type(getter) in (types.GetSetDescriptorType, types.MemberDescriptorType) else None


def dict_of(obj: Any) -> Optional[Dict[str, Any]]:
    """The instance's dictionary."""
    getter = dict_getter(type(obj))
    found = getter(obj) if getter is not None else None
    return found if is_kind(type(found), dict) else None


def class_dict(cls: type) -> Any:
    """A class's own dictionary."""
    return _dict_of(cls)


def slots_of(cls: type) -> List[Tuple[str, Any]]:
    """Slots and the descriptors that read them."""
    found = []
    for base in _mro_of(cls):
        for name, member in _dict_of(base).items():
            if type(member) is types.MemberDescriptorType and base.__module__ != "builtins":
                found.append((name, member))
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


def elements(obj: Any) -> Iterator[Tuple[Any, Any]]:
    """What a container holds, with the key or position of each; None for sets."""
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
        if type(value) in ATOMS:
            if plain and n >= PROBE:
                return  # a vocabulary, a list of token ids
            continue
        plain = False
        yield key, value


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
