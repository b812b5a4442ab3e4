"""A program that keeps one tensor in each place where programs keep them, and then runs out of memory.

It prints where it planted what: the name of the place, and the address of the storage there.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import dataclasses
import functools
import gc
import itertools
import json
import logging
import queue
import sys
import threading
import types
import weakref
from typing import Any, Dict, List

import package_of_the_program
import torch

ADDRESSES: Dict[str, int] = {}


def plant(place: str) -> Any:
    tensor = torch.zeros(1 << 20)
    ADDRESSES[place] = tensor.untyped_storage().data_ptr()
    return tensor


class Plain:
    def method(self) -> None: ...


class Slots:
    __slots__ = ("kept",)


@dataclasses.dataclass(frozen=True)
class Result:
    output: Any


class Buffer:
    items: List[Any] = []


class Model(torch.nn.Module):
    seen: List[Any] = []


class ScaleBackward(torch._C._FunctionBase):
    """What PyTorch makes of a Function of the program's: its ctx, which is the node, too."""

    next_functions = ()


class Node:
    def __init__(self, value: Any) -> None:
        self.value, self.me = value, self


class Progress:
    """As tqdm does it: an iterable object with the last item as an attribute."""

    def __init__(self, postfix: Any) -> None:
        self.postfix = postfix


class Loader:
    def __init__(self, batches: Any) -> None:
        self.batches = batches


@functools.lru_cache(maxsize=None)
def encode(text: str) -> Any:
    return plant("lru_cache")


@functools.lru_cache(maxsize=8)
def bounded(text: str) -> Any:
    return plant("bounded lru_cache")


def step() -> None: ...


def default(x: int, kept: Any = None, y: int = 1) -> None: ...


def keyword(*, kept: Any = None) -> None: ...


def closure(kept: Any) -> Any:
    return lambda *_: kept


def generate(kept: Any) -> Any:
    yield 1
    yield kept


async def wait(kept: Any) -> Any:
    await asyncio.sleep(3600)
    return kept


async def stream(kept: Any) -> Any:
    yield 1
    yield kept


def fail(kept: Any) -> None:
    raise ValueError(kept is None)


def work(kept: Any, planted: Any, end: Any) -> None:
    planted.set()
    end.wait()


class Loop:
    """An object with all of asyncio's."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def start(self, coroutine: Any) -> None:
        self.loop.create_task(coroutine)
        self.loop.run_until_complete(asyncio.sleep(0))


class Trainer:
    def __init__(self) -> None:
        self.logs = {"outputs": [plant("list in dict in attribute")]}


def run(trainer: Any) -> None:
    kept = plant("local variable")
    torch.zeros(1 << 50)
    del kept


gc.disable()  # or it frees the cycle
trainer = Trainer()
history = collections.deque([plant("deque")])
behind = Plain()
behind.kept = plant("object behind a weak reference")
reference = weakref.ref(behind)
weight = torch.zeros(1 << 20)
optimizer = torch.optim.Optimizer([weight])
optimizer.state[weight]["exp_avg"] = plant("optimizer's state")
loss = torch.operation(plant("saved for backward"), 1 << 10)
scaled = torch.zeros(1 << 10)
scaled._fn = ScaleBackward()
scaled._fn.kept = {"all": [plant("ctx")]}
lazy = generate(plant("generator"))
next(lazy)
threads = threading.Event(), threading.Event()
threading.Thread(target=work, args=(plant("thread"), *threads), daemon=True).start()
threads[0].wait()
try:
    fail(plant("traceback"))
except ValueError as e:
    error = e
call = closure(plant("closure"))
default.__defaults__ = (plant("default"), 1)
package_of_the_program.CACHE = plant("package")
partial = functools.partial(print, plant("partial"))
loader = Loader(generate(plant("loader's generator")))
next(loader.batches)
bar = Progress({"loss": plant("progress bar")})
handler = logging.Handler()
handler.buffer = [logging.LogRecord("a", 10, "b", 1, "%s", (plant("log record"),), None)]
model = Model()
model._forward_hooks = {1: closure(plant("hook of a module"))}
view = plant("view").view()
slots = Slots()
slots.kept = plant("slot")
results = [Result(plant("frozen dataclass"))]
waiting: "queue.Queue[Any]" = queue.Queue()
waiting.put(plant("queue"))
owner = Plain()
owner.kept = plant("bound method")
bound = owner.method
del owner

Buffer.items.append(plant("class attribute"))
Model.seen.append(plant("class attribute of a module"))
encode("a")
bounded("a")
step.cache = {"a": plant("function attribute")}
Node(plant("reference cycle"))
hooked = torch.zeros(1 << 10)
hooked._backward_hooks = {0: closure(plant("hook of a tensor"))}
loop = Loop()
loop.start(wait(plant("task")))
keyword.__kwdefaults__["kept"] = plant("keyword default")
proxy = types.MappingProxyType({"a": plant("mapping proxy")})
iterator = iter([plant("list iterator")])
tee = itertools.tee(iter([plant("tee")]))
next(tee[0])
variable: "contextvars.ContextVar[Any]" = contextvars.ContextVar("variable")
variable.set(plant("context variable"))
local = threading.local()
local.kept = plant("thread's own")
callback = [plant("method of a list")].append
keys = {(1, plant("key")): 2}
streaming = stream(plant("asynchronous generator"))
try:
    streaming.__anext__().send(None)
except StopIteration:
    pass
try:
    try:
        fail(plant("context of an exception"))
    except ValueError:
        raise KeyError from None
except KeyError as e:
    second = e


class Namespaces:
    cached = staticmethod(functools.lru_cache(maxsize=None)(lambda: plant("static method's cache")))


Namespaces.cached()
if "numpy" in sys.argv:
    import numpy

    array = numpy.empty(2, dtype=object)
    array[1] = plant("array of objects")
try:
    run(trainer)
except torch.OutOfMemoryError:
    pass
threads[1].set()
print(json.dumps(ADDRESSES))
