"""Where programs keep tensors, and what each place is called."""

from __future__ import annotations

import importlib.util
import json
import sys

from conftest import HERE, Lab

PATHS = {
    "list in dict in attribute": "main.trainer.logs['outputs'][0]",
    "deque": "main.history[0]",
    "object behind a weak reference": "main.behind.kept",
    "saved for backward": "main.loss",
    "ctx": "main.scaled",
    "generator": "main.lazy().kept",
    "thread": "work().kept",
    "traceback": "main.error.__traceback__ of fail().kept",
    "closure": "main.call.kept",
    "default": "main.default.kept",
    "package": "package_of_the_program.CACHE",
    "partial": "main.partial.args[0]",
    "loader's generator": "main.loader.batches().kept",
    "progress bar": "main.bar.postfix['loss']",
    "log record": "main.handler.buffer[0].args[0]",
    "hook of a module": "main.model._forward_hooks[1].kept",
    "view": "main.view",
    "slot": "main.slots.kept",
    "frozen dataclass": "main.results[0].output",
    "queue": "main.waiting.queue[0]",
    "bound method": "main.bound.__self__.kept",
    "local variable": "run().kept",
    "class attribute": "main.Buffer.items[0]",
    "class attribute of a module": "main.Model.seen[0]",
    "lru_cache": "main.encode.lru_cache",
    "bounded lru_cache": "main.bounded.lru_cache",
    "function attribute": "main.step.cache['a']",
    "reference cycle": "Node.value",
    "hook of a tensor": "main.hooked._backward_hooks[0].kept",
    "keyword default": "main.keyword.kept",
    "mapping proxy": "main.proxy['a']",
    "list iterator": "main.iterator[0]",
    "tee": "main.tee[0]",
    "context variable": "contextvars.variable",
    "thread's own": "main.local.kept",
    "method of a list": "main.callback.__self__[0]",
    "key": "main.keys[1]",
    "asynchronous generator": "main.streaming().kept",
    "context of an exception": "main.second.__context__.__traceback__ of fail().kept",
    "static method's cache": "main.Namespaces.cached.lru_cache",
    "array of objects": "main.array[1]",
}


def test_every_place_is_found(lab: Lab) -> None:
    lab.write("package_of_the_program.py", "CACHE = None\n")
    program = lab.write("program.py", (HERE / "planted.py").read_text())
    numpy = ["numpy"] if importlib.util.find_spec("numpy") else []
    r = lab.run(command=[sys.executable, str(program), *numpy], STUB_TORCH_CAPACITY=str(1 << 40))
    assert r.code == 0, r.stderr
    planted = json.loads(r.stdout)
    held = r.holders("oom")
    path = {address: h["path"] for h in held.values() for address in [*h["tensors"], *h["graph"]]}
    (file,) = lab.out.glob("*-oom.labels.json")
    labels = {x["address"]: x["name"] for x in json.loads(file.read_text())["labels"]}
    assert labels[planted.pop("optimizer's state")].endswith(".exp_avg")
    found = {place: path.get(address) for place, address in planted.items()}
    task = found.pop("task")
    assert task is not None and task.startswith("main.loop.loop") and task.endswith("().kept")
    assert found == {place: path for place, path in PATHS.items() if place in planted}
    assert [h["path"] for h in held.values() if h.get("cycle")] == ["Node.value"]
    assert r.processes[0]["notes"] == []


def test_bounds(lab: Lab) -> None:
    """Of deques and caches, with how many elements they hold; none of a list that grows within."""
    r = lab.run("""
        import collections, functools, torch
        ring = collections.deque([{"x": torch.zeros(1 << 20)}, {"x": torch.zeros(1 << 20)}], maxlen=16)
        grows = collections.deque([[torch.zeros(1 << 16) for _ in range(40)]], maxlen=16)
        free = collections.deque([torch.zeros(1 << 20)])
        @functools.lru_cache(maxsize=8)
        def encode(x):
            return torch.zeros(1 << 20)
        @functools.lru_cache(maxsize=None)
        def forever(x):
            return torch.zeros(1 << 20)
        encode(1), encode(2), encode(3), forever(1)
        """)
    bounds = {path: (h.get("bound"), h.get("elements")) for path, h in r.holders("exit").items()}
    assert bounds == {
        "main.ring[*]['x']": (16, 2), "main.grows": (None, None), "main.free[0]": (None, None),
        "main.encode.lru_cache": (8, 3), "main.forever.lru_cache": (None, None),
    }  # fmt: skip


def test_several_models(lab: Lab) -> None:
    """The names of each begin with the variable that leads to it."""
    r = lab.run("""
        import torch
        class Model(torch.nn.Module):
            def __init__(self):
                self._parameters = {"w": torch.zeros(1 << 20)}
        results = {0: {"model": Model()}, 1: {"model": Model()}}
        teacher = Model()
        """)
    assert r.code == 0, r.stderr
    (file,) = lab.out.glob("*.labels.json")
    names = [x["name"] for x in json.loads(file.read_text())["labels"]]
    assert sorted(names) == ["main.results[0]['model'].w", "main.results[1]['model'].w", "main.teacher.w"]


def test_outputs_of_a_notebook(lab: Lab) -> None:
    """They are told as `Out`, of which the names with underscores are copies."""
    r = lab.run("""
        import torch
        _oh = Out = {3: torch.zeros(1 << 20), 5: torch.zeros(1 << 20)}
        _3, _5, _, mine = Out[3], Out[5], Out[5], Out[5]
        """)
    assert {path: len(h["tensors"]) for path, h in r.holders("exit").items()} == {"main.Out[3]": 1, "main.mine": 1}


def test_what_a_failure_keeps(lab: Lab) -> None:
    """At the exit they are the variables of the functions, not of an exception."""
    r = lab.run("""
        import torch
        def serve():
            sessions = [torch.zeros(1 << 20)]
            raise KeyboardInterrupt
        serve()
        """)
    assert set(r.holders("exit")) == {"serve().sessions[0]"}


def test_libraries_come_last(lab: Lab) -> None:
    """What the program's variables don't lead to may be in a library's."""
    lab.write("site-packages/library.py", "CACHE = []\n")
    r = lab.run("""
        import sys
        sys.path.append("site-packages")
        import library, torch
        library.CACHE += [torch.zeros(1 << 20), torch.zeros(1 << 20)]
        """)
    assert set(r.holders("exit")) == {"library.CACHE"}


def test_objects_that_keep_each_other(lab: Lab) -> None:
    """Those of a class are told together, whether or not they are the ones that were asked about."""
    r = lab.run("""
        import gc, torch
        gc.disable()
        class Node:
            def __init__(self, parent=None):
                self.value, self.parent, self.children = torch.zeros(1 << 20), parent, []
                if parent:
                    parent.children.append(self)
        def search():
            root = Node()
            Node(root), Node(root)
        def fail():
            kept = torch.zeros(1 << 20)
            try:
                raise ValueError
            except ValueError as e:
                error = e
        for _ in range(20):
            search()
        fail()
        """)
    assert {path: (len(h["tensors"]), h.get("cycle")) for path, h in r.holders("exit").items()} == {
        "Node.value": (60, True),
        "ValueError.__traceback__ of fail().kept": (1, True),
    }


def test_checkpoints_being_read(lab: Lab) -> None:
    """A dictionary without a name holds all that lies in it; the memo of a call that reads on holds nothing that stays."""
    lab.write("site-packages/torch/serialization.py", """
        class Unpickler:
            pass
        def _load():
            unpickler = Unpickler()
            unpickler.memo = {0: torch.zeros(1 << 20)}
            raise KeyboardInterrupt
        """)
    r = lab.run("""
        import collections, gc, torch
        gc.disable()
        place = "site-packages/torch/serialization.py"
        reads = {"torch": torch, "__name__": "torch.serialization"}
        exec(compile(open(place).read(), place, "exec"), reads)
        def lose():
            lost = collections.OrderedDict((str(key), torch.zeros(1 << 20)) for key in range(20))
            lost["itself"] = lost
        lose()
        reads["_load"]()
        """)
    assert {path: len(h["tensors"]) for path, h in r.holders("exit").items()} == {"OrderedDict": 20}
