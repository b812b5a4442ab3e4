"""Records a process from the moment CUDA comes up, and dumps what it recorded.

The recorder starts no thread and no process, prints nothing and lets no exception
out. It works in the process that brought CUDA up, and in none that is forked from
it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import itertools
import os
import platform
import re
import signal
import sys
import time
import types
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from . import files, options
from .holders import Walk
from .host import Host
from .names import Names
from .samples import Samples
from .ticks import Ticks

HERE = os.path.dirname(os.path.abspath(__file__))
SLOW_DUMP = 60.0  # seconds; after such a dump C++ frames are no longer recorded
MANY_OOMS = (30.0, 0.2)  # seconds, or share of the run's time, that dumps at out-of-memory errors may take
LOOKS = frozenset(a * 10**b for b in range(8) for a in (1, 3)) - {1}  # steps at whose end holders are looked for
GROWTH = (1.02, 16 << 20)  # times, and bytes, by which more must be allocated for a regular dump to have events
REGULAR = 20  # regular dumps that stay
LARGEST = 10  # holders that a process tells of
LOOKING = (1.0, 0.02)  # processor seconds that such looks may take; what is added to them of the run's time, as a share
FREED = 16  # allocations from which on something was computed, not loaded alone
MORE = (3, 1.3)  # where nothing steps: times as many allocations freed as by the last look, or as many bytes as at any
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                       "PYTORCH_NO_CUDA_MEMORY_CACHING")  # fmt: skip


def guarded(method: Callable[..., Any]) -> Callable[..., None]:
    """A method whose failure the program never sees."""

    @functools.wraps(method)
    def call(self: "Recorder", *args: Any) -> None:
        try:
            method(self, *args)
        except Exception as e:
            self.failed(method.__name__, e)

    return call


def install(torch: Any, environment: Mapping[str, str]) -> "Recorder":
    """Prepares the recording of this process; CUDA isn't up yet, or at least not touched here."""
    recorder = Recorder(torch, options.read(environment))
    recorder.report()
    recorder.wrap()
    torch.cuda._lazy_call(recorder.begin)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.forked)
    return recorder


OWN, HANDED, PYTHON, OTHER = b"OHPC"  # frames: the recorder's, PyTorch's that hands functions to it, others of Python, of C++
# The recorder's own, PyTorch's that handed it the function, and the function itself, which was entered twice.
AGAIN = re.compile(rb"O[OC]*(?:H(?:C*[PH])?)?")
LEFT_OUT = bytes.maketrans(b"OHP", bytes(3))
KEPT = b"\0" + b"\1" * 255


def without_own_frames(snapshot: Dict[str, Any]) -> None:
    """Takes out of stacks what stands before each operator of a simulated GPU, and the call that goes on from there."""
    kinds: Dict[int, int] = {}  # of frames, which stacks share
    masks: Dict[bytes, bytes] = {}  # which frames of a stack stay, by their kinds
    seen: Dict[int, Any] = {}
    held: List[Any] = []  # so that no id comes again
    for holders in (*snapshot.get("device_traces", ()), *(s.get("blocks", ()) for s in snapshot.get("segments", ()))):
        for holder in holders:
            frames = holder.get("frames")
            if not frames or id(frames) in seen:
                continue
            seen[id(frames)] = frames
            try:
                stack = bytes(map(kinds.__getitem__, map(id, frames)))
            except KeyError:
                held += frames
                stack = bytes(kinds.setdefault(id(f), _kind_of(f)) for f in frames)
            if OWN not in stack:
                continue
            mask = masks.get(stack)
            if mask is None:
                mask = masks[stack] = AGAIN.sub(lambda m: m[0].translate(LEFT_OUT), stack).translate(KEPT)
            frames[:] = itertools.compress(frames, mask)


def _kind_of(frame: Any) -> int:
    file = frame["filename"]
    if file.startswith(HERE):
        return OWN
    return HANDED if frame["name"] == "handle_torch_function" else PYTHON if file.endswith(".py") else OTHER


class Recorder:
    """The recording of one process."""

    def __init__(self, torch: Any, o: options.Options) -> None:
        self.torch, self.options = torch, o
        self.record: Any = torch.cuda.memory._record_memory_history
        self.exit_now = os._exit
        self.ticks = Ticks(self.tick)
        self.stand_in: Any = None
        self.simulated: Any = None  # the GPU that isn't there
        self.host = Host(os.environ)
        self._reset()

    def _reset(self) -> None:
        self.pid = os.getpid()
        self.began = time.time()
        self.state = "torch"  # imported; then cuda, finished
        self.mode: Optional[str] = None  # all, python, none; later, user, off, unavailable, unwanted
        self.notes: List[str] = []
        self.dumps: List[Dict[str, Any]] = []
        self.ooms = 0
        self.steps = 0
        self.overhead = 0.0
        self.signals = False
        self.stats: Dict[str, Any] = {}
        self.busy = False
        self.deadly: Optional[int] = None  # a signal that came during a dump
        self.looked: List[List[Dict[str, Any]]] = []  # the holders of the last three looks or dumps before the end
        self.freed, self.most = 0, 0  # allocations by the last of those; bytes there, at most, at one of them
        self.looking, self.looks = False, 0.0  # now; seconds so far
        self.largest: List[Dict[str, Any]] = []  # of those, and what has names, by bytes
        self.capacity: Dict[str, int] = {}  # of the devices that were used
        self.shown = time.monotonic()  # to somebody who watches
        self.stepped: Optional[int] = None  # the optimizer whose steps are counted
        self.samples: Optional[Samples] = None  # in place of dumps
        self.entries = 0  # of the ring
        self.again = False  # blocks of an earlier recording may have stacks and no events, which isn't the ring's fault
        self.last = time.monotonic()  # of the regular dumps
        self.level: Optional[int] = None  # what was allocated at the last that had events, or at the first
        self.asked_at = 0  # when `vramscope run` last asked for one

    # What the process says of itself.

    def report(self) -> None:
        """Writes what is known of this process, for `vramscope run` to read."""
        folder = os.path.join(self.options.dir, ".hook", "processes")
        os.makedirs(folder, 0o700, exist_ok=True)
        files.write_json(os.path.join(folder, f"{self.pid}-{int(self.began * 1000)}.json"), self.facts(), 0o600)

    def facts(self) -> Dict[str, Any]:
        torch = self.torch
        return {
            "schema": "vramscope.process/1",
            "pid": self.pid,
            "host": platform.node(),
            "start": self.began,
            "state": self.state,
            "rank": self.rank(),
            "world_size": self.world(),
            "recording": self.mode,
            "signals": self.signals,
            "notes": self.notes[:20],
            "dumps": self.dumps,
            "ooms": self.ooms,
            "steps": self.steps,
            "overhead_seconds": round(self.overhead, 3),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "gpu": self.gpu(),
            "allocator_settings": {k: os.environ[k] for k in ALLOCATOR_VARIABLES if k in os.environ},
            "memory_stats": self.stats,
            "capacity": self.capacity,
            "holders": self.largest,
            "simulated": self.simulated.facts() if self.simulated is not None else None,
        }

    def gpu(self) -> Optional[str]:
        try:
            return self.torch.cuda.get_device_name() if self.torch.cuda.is_initialized() else None
        except Exception:
            return None

    def rank(self) -> Optional[int]:
        try:
            distributed = sys.modules.get("torch.distributed")
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                return int(distributed.get_rank())
        except Exception:
            pass
        return options.rank_of(os.environ)

    def world(self) -> Optional[int]:
        try:
            distributed = sys.modules.get("torch.distributed")
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                return int(distributed.get_world_size())
        except Exception:
            pass
        return options.world_of(os.environ)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def failed(self, what: str, e: BaseException) -> None:
        try:
            self.note(f"{what}: {type(e).__name__}: {str(e)[:300]}")
            self.report()
        except Exception:
            pass

    # Its beginning.

    def wrap(self) -> None:
        """Stands in for PyTorch's switch, to leave a recording of the program's own alone."""

        @functools.wraps(self.record)
        def record(enabled: Any = "all", *args: Any, **kwargs: Any) -> Any:
            self.switched(enabled)
            return self.record(enabled, *args, **kwargs)

        self.stand_in = self.torch.cuda.memory._record_memory_history = record

    @guarded
    def switched(self, enabled: Any) -> None:
        """The program itself switches recording on or off."""
        if self.mode == "unwanted" or self.pid != os.getpid():
            return
        if enabled:
            self.mode = "user"
            self.note("the program records itself")
        elif self.mode is not None:
            if self.mode not in ("off", "later"):
                self.dump("stop")
            self.mode = "off"
            self.note("the program switched recording off")

    @guarded
    def begin(self) -> None:
        """CUDA has come up."""
        if self.state != "torch":
            return
        self.pid, self.state = os.getpid(), "cuda"
        if not self.options.wants(self.rank()):
            self.mode = "unwanted"
            self.report()
            return
        if self.mode is None and self.options.since > 1:
            self.mode = "later"
        elif self.mode is None:
            self._switch_on(self._stacks())
        self._attach()
        self._leave()
        self.report()

    def enter(self) -> None:
        """Records from here to `leave`, for a program that asks for that itself: its end and signals stay its own."""
        self.wrap()
        self.state, self.again = "cuda", True
        self._switch_on(self._stacks())
        self._attach()

    def leave(self) -> None:
        """Dumps, and switches off what `enter` switched on."""
        self.ticks.stop()
        self.exit()
        if self.torch.cuda.memory._record_memory_history is self.stand_in:
            self.torch.cuda.memory._record_memory_history = self.record
        if self.mode in options.EVENT_BYTES:
            self.record(None)

    def _stacks(self) -> str:
        """The kind of stacks that this PyTorch records without harm."""
        wanted = self.options.stacks
        if wanted != "all":
            return wanted
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
            self.note("C++ frames are recorded on Linux alone: backward allocations have no stacks")
            return "python"
        if self._version() < (2, 3):  # names of C++ frames come from addr2line alone, which takes minutes
            self.note("this PyTorch needs minutes to name C++ frames: Python stacks alone are recorded")
            return "python"
        return "all"

    def _version(self) -> Tuple[int, ...]:
        numbers = []
        for part in str(self.torch.__version__).split("+")[0].split(".")[:2]:
            numbers.append(int("".join(c for c in part if c.isdigit()) or 0))
        return tuple(numbers)

    @guarded
    def _switch_on(self, stacks: str) -> None:
        ring = self.host.ring(self.options.ring)
        if ring < self.options.ring:
            self.note(f"the ring is {ring >> 20} MiB, an eighth of the host memory that this process may take")
        self.entries = entries = self.options._replace(stacks=stacks, ring=ring).entries
        context = None if stacks == "none" else "all"
        try:
            try:
                self.record("all", context=context, stacks="python" if stacks == "none" else stacks, max_entries=entries)
            except TypeError:  # PyTorch 2.0
                self.record(True, trace_alloc_max_entries=entries, trace_alloc_record_context=context is not None)
            self.mode = stacks
        except Exception as e:
            self.mode, self.samples = "unavailable", Samples(self.torch)
            self.note(f"this allocator keeps no history: {str(e).splitlines()[0][:200]}")

    @guarded
    def _attach(self) -> None:
        attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            try:
                attach(self.oom)
            except Exception:
                self.note("this allocator tells no out-of-memory errors")
        o = self.options
        counts = o.steps is not None or o.since > 1 or o.every or o.live or o.holders or self.samples is not None
        if counts or self.simulated is not None:
            register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
            if register is not None:
                register(self.step)
            elif o.steps is not None or o.since > 1:
                self.note("this PyTorch has no hook for steps: --steps has no effect")
                if self.mode == "later":
                    self._switch_on(self._stacks())

        if o.holders:
            self.ticks.start()

    @guarded
    def _leave(self) -> None:
        """Prepares the end, however it comes; signals only where the program left them alone."""
        atexit.register(self.ended)

        def leave(status: int) -> None:
            self.exit()
            self.exit_now(status)

        os._exit = leave  # type: ignore[assignment]
        try:
            for name, handler in (("SIGTERM", self.terminate), ("SIGUSR2", self.asked)):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, handler)
                    self.signals = self.signals or name == "SIGUSR2"
        except ValueError:
            self.note("CUDA came up outside of the main thread: no dump at SIGTERM and SIGUSR2")

    def forked(self) -> None:
        """This is a child now, without CUDA: it is another process, and records nothing of its parent."""
        try:
            active = self.state == "cuda"
            self.ticks.forked()
            self._reset()
            if active:
                self.state = "forked"
                for number in (signal.SIGTERM, getattr(signal, "SIGUSR2", None)):
                    if number is not None and signal.getsignal(number) in (self.terminate, self.asked):
                        signal.signal(number, signal.SIG_DFL)
        except Exception:
            pass

    # The moments at which it dumps.

    @guarded
    def oom(self, device: int, requested: int, *_: int) -> None:
        """An allocation failed; nothing is unwound yet. Runs on the thread that failed, maybe autograd's."""
        if self.pid != os.getpid() or self.state != "cuda":
            return
        self.ooms += 1
        before = [d for d in self.dumps if d["why"] == "oom"]
        if len(before) > 1 and sum(d["seconds"] for d in before) > max(
            MANY_OOMS[0], MANY_OOMS[1] * (time.time() - self.began)
        ):
            self.note("many out-of-memory errors: not each was dumped")
            return
        if self.dump("oom", {"device": device, "requested_bytes": requested}) and len(before) > 1:
            self._drop(before[-1])  # the first and the last stay

    def step(self, optimizer: Any, *_: Any) -> None:
        """After each step of the first optimizer."""
        if self.stepped is None:
            self.stepped = id(optimizer)
        if self.stepped != id(optimizer) or self.pid != os.getpid() or self.simulated and not self.simulated.is_new_step():
            return
        self.steps += 1
        if self.mode == "later" and self.steps + 1 >= self.options.since:
            self._switch_on(self._stacks())
        if self.samples is not None:
            self._sample()
        elif self.options.every and time.monotonic() - self.last >= self.options.every:
            self._regular()
        elif self.options.steps is not None and self.steps in self.options.steps:
            self._dump_step()
        elif self.steps in LOOKS and self.options.holders and not self._last():
            self._look()
        if self.options.live and time.monotonic() - self.shown >= 1:
            self._show()
        if self.simulated is not None:
            self.simulated.stepped(self.steps)

    def _last(self) -> bool:
        """The simulated program ends here, with a dump."""
        return self.simulated is not None and self.simulated.settings.steps == self.steps

    @guarded
    def _show(self) -> None:
        self._count()
        self.report()
        self.shown = time.monotonic()

    @guarded
    def _sample(self, whole: bool = False) -> None:
        if self.samples is not None and self.samples.take(self.steps, whole):
            self.samples.write(os.path.join(self.options.dir, self._prefix()))

    def _prefix(self) -> str:
        rank = self.rank()
        return f"pid{self.pid}" if rank is None else f"rank{rank}-pid{self.pid}"

    @guarded
    def _look(self) -> None:
        """Notes what holds memory now: when the program has ended, its functions' variables are gone."""
        allowed = LOOKING[0] + LOOKING[1] * (time.time() - self.began)
        if self.busy or self.looking or self.mode == "unwanted" or self.looks > allowed:
            return
        self.looking, collects, began, worked = True, gc.isenabled(), time.monotonic(), time.thread_time()
        gc.disable()  # or it runs for our objects, and frees the program's sooner than it would have
        try:
            self._held(Walk(self.torch, HERE), keep=True, everywhere=False)  # the rest will be there at the end
        finally:
            if collects:
                gc.enable()
            self.looking, self.looks = False, self.looks + time.thread_time() - worked
            self.overhead += time.monotonic() - began

    def tick(self) -> bool:
        """Time has passed: what was computed since may be in variables that are gone at the end. Says whether anything was."""
        if self.pid != os.getpid() or self.state != "cuda" or self.samples is not None or self.busy or self.looking:
            return False
        if self.simulated is not None and self.simulated.trains(self.steps):
            return True
        try:
            stats = self.torch.cuda.memory_stats_as_nested_dict()
            freed = stats["allocation"]["all"]["freed"] if stats else 0  # CUDA is still coming up
            if freed < FREED:
                return False
            held = stats["allocated_bytes"]["all"]["current"]
            if freed >= MORE[0] * self.freed or held >= MORE[1] * self.most:
                self._look()
            return True
        except Exception as e:
            self.failed("tick", e)
            return False

    @guarded
    def _dump_step(self) -> None:
        self.dump("step", {"step": self.steps})

    @guarded
    def _regular(self) -> None:
        """A dump of what is held now; with events where more is held than before."""
        allocated = self.torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)
        self.level = self.level or allocated
        grew = allocated > self.level * GROWTH[0] + GROWTH[1]
        if grew:
            self.level = allocated
        if self.dump("every", {"step": self.steps, "alone": not grew}, alone=not grew):
            kept = [d for d in self.dumps if d["why"] == "every" and d["file"]]
            told = [d for d in kept if not d["alone"]][-1:]
            for d in kept[1:-1:2] if len(kept) > REGULAR else ():
                if d not in told:  # the last one with events stays
                    self._drop(d)
        self.last = time.monotonic()

    def asked(self, *_: Any) -> None:
        """SIGUSR2: somebody asks for a dump, or `vramscope run` for a regular one, as not all programs have steps."""
        ticked = self._ticked() if self.options.every else self.asked_at
        if ticked == self.asked_at:
            self._dump_signal("SIGUSR2")
            return
        self.asked_at = ticked
        if self.pid == os.getpid() and time.monotonic() - self.last >= 0.9 * self.options.every:
            self._regular()

    def _ticked(self) -> int:
        try:
            return os.stat(os.path.join(self.options.dir, ".hook", "tick")).st_mtime_ns
        except OSError:
            return self.asked_at

    def terminate(self, number: int, _: Any) -> None:
        """SIGTERM: then the process ends by it, as it would have."""
        if self.busy:
            self.deadly = number
            return
        try:
            self._dump_signal("SIGTERM")
            self.state = "finished"
            self.report()
        except Exception:
            pass
        self._die(number)

    @guarded
    def _dump_signal(self, name: str) -> None:
        if self.pid == os.getpid():
            self.dump("signal", {"signal": name})

    def _die(self, number: int) -> None:
        try:
            signal.signal(number, signal.SIG_DFL)
        except ValueError:
            pass  # on another thread: the main one isn't in Python, and its handler runs once it is
        os.kill(os.getpid(), number)

    def ended(self) -> None:
        """The interpreter ends."""
        self.exit()
        if getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1"):
            try:  # then Python ends by SIGINT, but not where something was compiled since, as by PyTorch for a snapshot
                exec("raise KeyboardInterrupt")
            except KeyboardInterrupt:
                pass

    @guarded
    def exit(self) -> None:
        if self.pid != os.getpid() or self.state != "cuda":
            return
        self.state = "finished"
        self.ticks.stop()
        if self.mode == "later":
            before = self.options.since - 1
            self.note(f"no events were recorded: the first optimizer made {self.steps} steps, {before} were to come before")
        out_of_memory = getattr(self.torch.cuda, "OutOfMemoryError", ())
        last = getattr(sys, "last_value", None)
        dumped = any(d["why"] == "oom" for d in self.dumps)
        if not (dumped and out_of_memory and isinstance(last, out_of_memory)):  # what unwinding left says less
            self.dump("exit")
        self._count()
        if self.simulated is not None:
            self.simulated.account()
        self.report()

    # Dumps.

    def dump(self, why: str, extra: Optional[Dict[str, Any]] = None, alone: bool = False) -> bool:
        """Writes a snapshot with its labels and holders, without events if `alone`; says whether one was written."""
        if self.busy or self.mode == "unwanted":
            return False
        self.busy, collects = True, gc.isenabled()
        began = time.monotonic()
        gc.disable()  # the snapshot is millions of objects without a cycle
        try:
            return self._dump(why, extra or {}, began, alone)
        except Exception as e:
            self.failed("dump", e)
            return False
        finally:
            if collects:
                gc.enable()
            self.overhead += time.monotonic() - began
            self.busy = False
            self._count()
            try:
                self.report()
            except Exception:
                pass
            if self.deadly is not None:
                self._die(self.deadly)

    def _dump(self, why: str, extra: Dict[str, Any], began: float, alone: bool) -> bool:
        if self.samples is not None or not self.options.wants(self.rank()):
            self._sample(True)
            return False
        taken = sum(d["bytes"] for d in self.dumps)
        limit = min(files.free_bytes(self.options.dir), self.options.disk - taken)
        if limit <= 0:
            self.note(f"no dump ({why}): the disk is full but for the 2 GiB that stay free, or this process' share of it is")
            return False
        held, seconds = None, {}
        if self.options.holders:  # before the snapshot, whose objects would be looked through, too
            held = self._guess(why, lambda: self._held(Walk(self.torch, HERE, why == "exit"), keep=why != "exit"))
            seconds["holders_seconds"] = round(time.monotonic() - began, 3)
        snapshot = (self.state_alone() if alone else None) or self._snapshot(why)
        if not snapshot.get("segments") and not any(snapshot.get("device_traces", ())):
            return False
        name = f"{self._prefix()}-{len(self.dumps)}-{why}"
        base = os.path.join(self.options.dir, name)
        if os.path.exists(base + ".pickle.gz"):  # the same pid again, on another host or later
            name += f"-{int(self.began * 1000)}"
            base = os.path.join(self.options.dir, name)
        if held is not None:
            self._guess(why, lambda: self._write_names(base, why, *held))
        try:
            size = files.write_pickle(base + ".pickle.gz", snapshot, limit)
        except files.TooLarge:
            self._remove(base)
            self.note(f"no dump ({why}): it would have taken more than {limit} bytes")
            return False
        except OSError as e:
            self._remove(base)
            self.note(f"no dump ({why}): {e.strerror}")
            return False
        took = round(time.monotonic() - began, 3)
        entry = {"file": name + ".pickle.gz", "why": why, "event": self._allocations(), "bytes": size, "seconds": took}
        self.dumps.append({**entry, **seconds, **extra})
        if took > SLOW_DUMP and self.mode == "all":
            self._switch_on("python")
            self.note(f"a dump took {took:.0f} s: from then on Python stacks alone are recorded")
        return True

    def _guess(self, why: str, of: Callable[[], Any]) -> Any:
        """Names and holders, without which a dump is one all the same."""
        try:
            return of()
        except Exception as e:
            self.note(f"names and holders ({why}): {type(e).__name__}: {str(e)[:200]}")
            return None

    def _snapshot(self, why: str) -> Dict[str, Any]:
        """PyTorch's snapshot, without its events where the host's memory has no room for them."""
        memory = self.torch.cuda.memory
        if self.mode in options.DUMP_BYTES:
            events = min(self.entries, 3 * (self._allocations() or 0))
            free = self.host.available()
            if free is not None and events * options.DUMP_BYTES[self.mode] > free:
                alone = self.state_alone()
                if alone is not None:
                    self.note(f"no events in a dump ({why}): the host's memory has no room for them")
                    return alone
        with self._without_compiler():
            snapshot: Dict[str, Any] = memory._snapshot()
        if self.simulated is not None:
            without_own_frames(snapshot)
        if self.again and self.mode in options.DUMP_BYTES:
            snapshot["trace_alloc_overflowed"] = [len(trace) >= self.entries for trace in snapshot.get("device_traces", ())]
        return snapshot

    def look(self) -> Tuple[int, List[Dict[str, Any]]]:
        """What is allocated now, in bytes, and who holds it, the largest first."""
        self._held(Walk(self.torch, HERE), keep=False)
        return int(self.torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)), self.largest

    def state_alone(self) -> Optional[Dict[str, Any]]:
        """A snapshot without events; None where this PyTorch makes none."""
        try:
            with self._without_compiler():
                return self.torch._C._cuda_memorySnapshot((0, 0, False))  # type: ignore[no-any-return]
        except Exception:
            return None

    @contextlib.contextmanager
    def _without_compiler(self) -> Iterator[None]:
        """PyTorch asks torch._inductor for the names of compiled code, and so imports it, for seconds."""
        torch, absent = self.torch, types.SimpleNamespace()
        if "torch._inductor" in sys.modules:
            yield
            return
        torch.__dict__["_inductor"] = absent
        try:
            yield
        finally:
            if torch.__dict__.get("_inductor") is absent:
                del torch.__dict__["_inductor"]

    def _held(self, walk: Walk, keep: bool, everywhere: bool = True) -> Tuple[
            Dict[Tuple[int, int], Tuple[str, str]], List[Dict[str, Any]]]:  # fmt: skip
        """Names and holders as they are now."""
        try:
            walk.run()
            names = Names(walk).found
            held = [h.told() for h in walk.held(set(names), everywhere)]
            self.largest = self._largest(walk.t.sizes, names, held)
        finally:
            walk.let_go()
        if not walk.complete:
            self.note("the look for holders was cut short")
        if keep:
            made = self._allocations()
            if made is not None:
                self.freed = self._allocations("freed") or 0
                self.most = max(self.most, int(self.torch.cuda.memory_stats().get("allocated_bytes.all.current", 0)))
                self.looked = self.looked[-2:] + [[{**h, "event": made} for h in held]]
        return names, held

    def _largest(self, sizes: Dict[Any, int], names: Dict[Any, Any], held: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        """What holds most, by variable; what has names of its own by its kind."""
        found: Dict[str, int] = {}
        for place, (category, _) in names.items():
            kind = category.replace("_", " ")
            found[kind] = found.get(kind, 0) + sizes.get(place, 0)
        for h in held:
            found[h["path"]] = found.get(h["path"], 0) + sum(sizes.get((h["device"], a), 0) for a in {*h["tensors"], *h["graph"]})
        order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return [{"path": path, "bytes": size, "step": self.steps} for path, size in order[:LARGEST] if size]

    def _write_names(self, base: str, why: str, names: Dict[Any, Tuple[str, str]], held: List[Dict[str, Any]]) -> None:
        if why == "exit":
            held = held + [h for look in reversed(self.looked) for h in look]  # found again by the allocations made by then
        files.write_json(base + ".labels.json", {
            "schema": "vramscope.labels/1", "device": 0,
            "labels": [{"device": device, "address": address, "event": None, "category": category, "name": name}
                       for (device, address), (category, name) in names.items()]})  # fmt: skip
        files.write_json(base + ".holders.json", {"schema": "vramscope.holders/1", "device": 0, "holders": held})

    def _remove(self, base: str) -> None:
        for ending in (".pickle.gz", ".labels.json", ".holders.json"):
            try:
                os.unlink(base + ending)
            except OSError:
                pass

    def _drop(self, dump: Dict[str, Any]) -> None:
        """Takes a dump away that a later one has replaced."""
        self.dumps[self.dumps.index(dump)] = {**dump, "file": None, "bytes": 0}
        self._remove(os.path.join(self.options.dir, dump["file"][: -len(".pickle.gz")]))

    def _allocations(self, which: str = "allocated") -> Optional[int]:
        try:
            return int(self.torch.cuda.memory_stats()[f"allocation.all.{which}"])
        except Exception:
            return None

    def _count(self) -> None:
        """Keeps the counters of the devices that were used."""
        cuda = self.torch.cuda
        try:
            for device in range(cuda.device_count()):
                stats = cuda.memory_stats(device)
                if stats.get("reserved_bytes.all.peak"):
                    self.capacity[str(device)] = int(cuda.get_device_properties(device).total_memory)
                    self.stats[str(device)] = {k: v for k, v in stats.items() if ".all." in k or "." not in k}
        except Exception as e:
            self.note(f"memory_stats: {str(e)[:200]}")
