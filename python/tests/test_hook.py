"""The parts of the recorder by themselves."""

from __future__ import annotations

import gc
import gzip
import json
import os
import pickle
import re
import signal
import sys
from typing import Any, Optional, Tuple

import pytest
import vramscope
from conftest import HERE, Lab
from vramscope._hook import files, host, options, static
from vramscope._hook.holders import _together


@pytest.mark.parametrize(
    "text, stacks, steps, ranks",
    [
        ("", "all", None, None),
        ("stacks=none,ring=1048576,steps=3:5,holders=0,ranks=0+2-3", "none", (3, 5), ((0, 0), (2, 3))),
        ("stacks=some,ring=x,steps=a,ranks=", "all", None, None),
    ],
)
def test_options(text: str, stacks: str, steps: Optional[Tuple[int, int]], ranks: Any) -> None:
    o = options.read({"VRAMSCOPE_RUN": "d", "VRAMSCOPE_OPTIONS": text})
    assert (o.dir, o.stacks, o.steps, o.ranks) == ("d", stacks, steps, ranks)
    assert o.entries == (1 << 20 if "1048576" in text else 1 << 30) // options.EVENT_BYTES[stacks]


def test_wanted_ranks() -> None:
    o = options.Options("d", ranks=((0, 0), (2, 3)))
    assert [r for r in range(5) if o.wants(r)] == [0, 2, 3]
    assert o.wants(None)


@pytest.mark.parametrize(
    "path, together",
    [
        ("main.a[3].k", "main.a[*].k"),
        ("main.a[3][-1]", "main.a"),
        ("main.a['x'][3]", "main.a['x']"),
        ("f().history[12]", "f().history"),
        ("main.model", "main.model"),
    ],
)
def test_paths_of_elements(path: str, together: str) -> None:
    assert _together(path) == together


def test_a_file_is_whole_or_not_there(tmp_path: Any) -> None:
    good = str(tmp_path / "a")
    files.write_json(good, [1])
    with pytest.raises(files.TooLarge):
        files.write_pickle(good, os.urandom(10_000), limit=1000)
    assert open(good).read() == "[1]"
    assert os.listdir(tmp_path) == ["a"]


def test_locals_are_let_go() -> None:
    """Before Python 3.13 a frame keeps what it shows of itself."""

    class Big:
        pass

    def show() -> "list[str]":
        big = Big()
        found = sorted(static.locals_of(sys._getframe()))
        del big
        gc.collect()
        return [*found, str(sum(type(o) is Big for o in gc.get_objects()))]

    assert show() == ["big", "0"] or show() == ["Big", "big", "0"]


GROUPS = {
    "two": {"/proc/self/cgroup": "0::/user/a\n", "/sys/fs/cgroup/user/a/memory.max": "17179869184\n",
            "/sys/fs/cgroup/user/a/memory.current": "16179869184\n", "/sys/fs/cgroup/user/a/memory.stat": "anon 1\ninactive_file 500\n"},
    "container": {"/proc/self/cgroup": "0::/../b\n", "/sys/fs/cgroup/memory.max": "8589934592\n",
                  "/sys/fs/cgroup/memory.current": "8589934592\n", "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    4 kB\n"},
    "one": {"/proc/self/cgroup": "3:cpu:/x\n4:memory:/job\n", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4294967296\n",
            "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "4294967295\n",
            "/sys/fs/cgroup/memory/job/memory.stat": "inactive_file 9\ntotal_inactive_file 7\n"},
    "unbounded": {"/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/memory.max": "max\n", "/proc/meminfo": "MemAvailable: 2 kB\n"},
    "elsewhere": {},
}  # fmt: skip


@pytest.mark.parametrize(
    "group, ranks, limit, ring, available",
    [
        ("two", "", 16 << 30, 1 << 30, 1_000_000_500),
        ("two", "8", 2 << 30, 256 << 20, 1_000_000_500),
        ("container", "1", 8 << 30, 1 << 30, 0),
        ("one", "", 4 << 30, 512 << 20, 8),
        ("one", "100000", 42949, 1 << 20, 8),
        ("unbounded", "8", None, 1 << 30, 2048),
        ("elsewhere", "x", None, 1 << 30, None),
    ],
)
def test_memory_of_the_host(group: str, ranks: str, limit: Any, ring: int, available: Any) -> None:
    """The ring is an eighth of what a process may take at most."""
    h = host.Host({"LOCAL_WORLD_SIZE": ranks}, lambda name: GROUPS[group].get(name, ""))
    assert (h.limit(), h.ring(1 << 30), h.available()) == (limit, ring, available)


@pytest.mark.parametrize("free, events", [(10, 0), (1 << 40, 1)])
def test_no_room_for_events(lab: Lab, free: int, events: int) -> None:
    """Where the dump would have the kernel end the program, its events are left out."""
    r = lab.run(f"""
        import sys, torch
        kept = torch.zeros(1 << 20)
        sys.modules["vramscope_hook"]._started.host.available = lambda: {free}
        """)
    assert (r.code, r.why) == (0, [["exit"]])
    (file,) = lab.out.glob("*.pickle.gz")
    snapshot = pickle.loads(gzip.decompress(file.read_bytes()))
    assert len(snapshot["segments"]) == 1 and bool(snapshot["device_traces"][0]) == bool(events)
    assert any("has no room" in n for n in r.processes[0]["notes"]) == (not events)
    assert "main.kept" in r.holders("exit")


def snapshots(lab: Lab) -> "dict[str, Any]":
    return {p.name.split("-", 1)[1]: pickle.loads(gzip.decompress(p.read_bytes())) for p in lab.out.glob("*.pickle.gz")}


def test_events_from_a_step_on(lab: Lab) -> None:
    r = lab.run("""
        import torch
        optimizer, kept = torch.optim.Optimizer([]), []
        for _ in range(4):
            kept.append(torch.zeros(1 << 20))
            optimizer.step()
        """, "--steps", "3:")  # fmt: skip
    assert (r.code, r.why, r.processes[0]["recording"]) == (0, [["exit"]], "all")
    (snapshot,) = snapshots(lab).values()
    assert sum(e["action"] == "alloc" for e in snapshot["device_traces"][0]) == 2


def test_a_step_that_never_came(lab: Lab) -> None:
    r = lab.run("import torch\nkept = torch.zeros(1 << 20)\ntorch.optim.Optimizer([]).step()", "--steps", "30:")
    assert (r.code, r.processes[0]["recording"]) == (0, "later")
    assert "no events were recorded: the first optimizer made 1 steps, 29 were to come before" in r.stderr


def test_regular_dumps(lab: Lab) -> None:
    """They have events where more is held than before; of many, evenly many stay, the first and the last among them."""
    r = lab.run("""
        import sys, torch
        optimizer, kept = torch.optim.Optimizer([]), []
        started = sys.modules["vramscope_hook"]._started
        torch.zeros(1)
        started.options = started.options._replace(every=1e-9)
        for step in range(1, 61):
            if step in (1, 3):
                kept.append(torch.zeros(100 << 20))
            optimizer.step()
        """, "--every", "1h")  # fmt: skip
    found = snapshots(lab)
    events = {int(name.split("-")[0]): bool(s["device_traces"][0]) for name, s in found.items() if "every" in name}
    assert {n: events.get(n) for n in (0, 59)} == {0: False, 59: False} and 5 <= len(events) <= 20
    assert [d["event"] for d in r.processes[0]["dumps"]][:3] == [2, 2, 3]
    assert [d["bytes"] > 0 for d in r.processes[0]["dumps"]].count(True) == len(found)
    report = vramscope.analyze(lab.out)
    (device,) = report.devices
    assert device["history"] == "complete" and device["at_end"]["allocated_bytes"] == 200 << 20


def test_regular_dumps_have_events_after_growth(lab: Lab) -> None:
    lab.run("""
        import sys, torch
        optimizer, kept = torch.optim.Optimizer([]), []
        torch.zeros(1)
        started = sys.modules["vramscope_hook"]._started
        started.options = started.options._replace(every=1e-9)
        for size in (100, 0, 100, 0):
            kept.append(torch.zeros(size << 20)) if size else None
            optimizer.step()
        """, "--every", "1h", "--no-analyze")  # fmt: skip
    assert [bool(snapshots(lab)[f"{n}-every.pickle.gz"]["device_traces"][0]) for n in range(4)] == [False, False, True, False]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_regular_dumps_of_programs_without_steps(lab: Lab) -> None:
    r = lab.run("""
        import os, time, torch
        kept = torch.zeros(1 << 20)
        end = time.monotonic() + 60
        while not any(name.endswith("-every.pickle.gz") for name in os.listdir("out")) and time.monotonic() < end:
            time.sleep(0.02)
        """, "--every", "1s")  # fmt: skip
    assert r.why[0][0] == "every" and "main.kept" in r.holders("exit")


def test_somebody_watches(lab: Lab) -> None:
    """After a step, once a second: the counters, the device's size, and who held most at the last look."""
    r = lab.run("""
        import json, os, sys, torch
        optimizer, kept = torch.optim.Optimizer([]), []
        torch.zeros(1)
        started = sys.modules["vramscope_hook"]._started
        started.options = started.options._replace(live=True)
        for step in range(1, 6):
            kept.append(torch.zeros(1 << 20))
            started.shown -= 2
            optimizer.step()
            (name,) = os.listdir("out/.hook/processes")
            said = json.load(open("out/.hook/processes/" + name))
            assert said["steps"] == step and said["memory_stats"]["0"]["allocated_bytes.all.current"] == step << 20, said
            assert list(said["capacity"]) == ["0"]
            held = [{"path": "main.kept", "bytes": 3 << 20, "step": 3}] if step >= 3 else []
            assert said["holders"] == held, said
        """, "--no-analyze")  # fmt: skip
    assert r.code == 0, r.stderr


def test_nothing_is_kept_alive(lab: Lab) -> None:
    """What was looked at dies when it would have died, without the garbage collector."""
    r = lab.run("""
        import gc, torch, weakref
        gc.disable()
        optimizer = torch.optim.Optimizer([])
        def step():
            made = torch.zeros(1 << 20)
            made._grad = torch.zeros(1 << 20)
            result = torch.operation(made, 1 << 20)
            optimizer.step()
            return weakref.ref(made), weakref.ref(made._grad), weakref.ref(result)
        for _ in range(4):
            assert [r() for r in step()] == [None, None, None]
        assert torch.cuda._device.used == 0
        """, "--steps", "2:4")  # fmt: skip
    assert r.code == 0, r.stderr


def test_variables_of_a_function_that_ended(lab: Lab) -> None:
    """At the exit they are gone: the last look at them, at a step's end, tells."""
    r = lab.run("""
        import torch
        def train():
            optimizer, losses = torch.optim.Optimizer([]), []
            for _ in range(5):
                losses.append(torch.zeros(1 << 20))
                optimizer.step()
        train()
        """)
    assert r.why == [["exit"]]
    held = r.holders("exit")["train().losses"]
    assert (held["event"], len(held["tensors"])) == (3, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="timers of the kernel")
@pytest.mark.parametrize("size, more", [(1 << 10, 3), (1 << 20, 1.1)])
def test_looks_where_nothing_steps(lab: Lab, size: int, more: float) -> None:
    """They come by the time of the processor and the allocations freed, of which loading makes none, or as memory grows; the last
    ones are told, by the number of allocations."""
    r = lab.run("""
        import sys, time, torch
        recorder = None
        def serve():
            global recorder
            model = [torch.zeros(1 << 10) for _ in range(1 << 9)]
            kept = {}
            for request in range(1 << 20):
                for _ in range(20):
                    torch.zeros(1 << 10)
                kept[request] = torch.zeros(SIZE)
                recorder = recorder or sys.modules["vramscope_hook"]._started
                if len(recorder.looked) > 1 or time.process_time() > 60:
                    break
        serve()
        assert not recorder.ticks.timers or len(recorder.looked) > 1
        """.replace("SIZE", str(size)))
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr
    (name,) = [d["file"] for d in r.processes[0]["dumps"]]
    held = json.loads((lab.out / name.replace(".pickle.gz", ".holders.json")).read_text())["holders"]
    events = [h["event"] for h in held if h["path"].startswith("serve().kept")]
    assert len(events) > 1
    later, earlier = (events[i] - (1 << 9) for i in (0, 1))
    assert later >= more * earlier > 0


@pytest.mark.skipif(sys.platform != "linux", reason="timers of the kernel")
@pytest.mark.parametrize("what", ["os.execv(sys.executable, [sys.executable, '-c', burn])", "exec(burn)", "fork()"])
def test_time_passes_unseen(lab: Lab, what: str) -> None:
    """No tick reaches what a program becomes or forks, and none what it waits for."""
    r = lab.run(f"""
        import os, sys, torch
        kept = torch.zeros(1 << 20)
        burn = "import time\\nwhile time.process_time() < 1: pass\\nprint('done', flush=True)"
        def fork():
            child = os.fork()
            if child == 0:
                exec(burn)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        {what}
        """)
    assert (r.code, r.stdout) == (0, "done\n"), r.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGURG"), reason="no such signal")
def test_another_use_of_the_signal(lab: Lab) -> None:
    """Where a program has taken it, there are no ticks."""
    r = lab.run("""
        import signal, sys, torch
        signal.signal(signal.SIGURG, signal.SIG_IGN)
        kept = torch.zeros(1 << 20)
        assert signal.getsignal(signal.SIGURG) == signal.SIG_IGN
        assert sys.modules["vramscope_hook"]._started.ticks.timers == []
        """)
    assert r.code == 0, r.stderr


def test_holders_of_all_kinds(lab: Lab) -> None:
    r = lab.run("""
        import collections, torch
        class Slots:
            __slots__ = ("a",)
        def closure(kept):
            return lambda: kept
        def generate(kept):
            yield 1
            yield kept
        def fail(kept):
            raise ValueError()
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self._parameters["w"] = torch.zeros(1 << 20)
                self._buffers["b"] = torch.zeros(1 << 20)
                self.__dict__["cache"] = torch.zeros(1 << 20)
        slots = Slots(); slots.a = torch.zeros(1 << 20)
        queue = collections.deque([torch.zeros(1 << 20), torch.zeros(1 << 20)])
        call = closure(torch.zeros(1 << 20))
        lazy = generate(torch.zeros(1 << 20)); next(lazy)
        try:
            fail(torch.zeros(1 << 20))
        except ValueError as e:
            error = e
        losses = []
        for _ in range(3):
            losses.append(torch.operation(torch.zeros(1 << 20), 1 << 10))
        many = {f"name {i}": torch.zeros(1 << 10) for i in range(40)}
        model = Model()
        optimizer = torch.optim.Optimizer([model.__dict__["_parameters"]["w"]])
        next(iter(optimizer.state.values()))["exp_avg"] = torch.zeros(1 << 20)
        """)
    assert r.code == 0, r.stderr
    held = r.holders("exit")
    assert {p: (len(h["tensors"]), len(h["graph"])) for p, h in held.items()} == {
        "main.slots.a": (1, 0),
        "main.queue": (2, 0),
        "main.call.kept": (1, 0),
        "main.lazy().kept": (1, 0),
        "main.error.__traceback__ of fail().kept": (1, 0),
        "main.losses": (3, 3),
        "main.many": (40, 0),
        "main.model.cache": (1, 0),
    }
    (file,) = lab.out.glob("*.labels.json")
    labels = {x["name"]: x["category"] for x in json.loads(file.read_text())["labels"]}
    assert labels == {"w": "weights", "b": "weights", "w.exp_avg": "optimizer_state"}


def test_the_table_of_pitfalls() -> None:
    """README.md numbers the pitfalls and names tests that are there."""
    root = HERE.parent.parent
    table = (root / "python" / "tests" / "README.md").read_text()
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    numbers = [int(r[1]) for r in rows if r[1].strip()]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 20
    there = "".join(p.read_text() for p in [*HERE.glob("test_*.py"), *(root / "run").glob("*_test.go")])
    for row in rows:
        named = re.findall(r"`([Tt]est\w+)`", row[3])
        assert named and all(re.search(rf"(def|func) {n}\(", there) for n in named), row
