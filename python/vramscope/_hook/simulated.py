"""A GPU that isn't there: what `vramscope run --simulate` needs in the program besides the recording.

The library that is preloaded answers for CUDA. Here the program is ended after some steps, values of small integers
are kept, sizes that depend on data are assumed, and all of it is told.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
import time
from typing import Any, Dict, Mapping, NamedTuple, Optional

from . import simulated_ranks, simulated_sizes, simulated_values, simulated_weights

VARIABLE = "VRAMSCOPE_SIMULATE"  # name=value,name=value
ACCOUNT = "VRAMSCOPE_SIMULATED_ACCOUNT"
REFUSED = 2  # the exit code
LARGEST_ACCOUNT = 1 << 20
ALONE = 1000  # steps without a backward pass, beyond which each counts
FIRST_STEP = 20.0  # seconds of the processor that an optimizer's first step may take
CPU_ONLY = ("the program's PyTorch ({version}) is a CPU-only build, and a simulated GPU needs the CUDA one: "
            "pip install torch --index-url https://download.pytorch.org/whl/cu128, in an environment of its own")  # fmt: skip


class Settings(NamedTuple):
    gpu: str = "H100 80GB"
    major: int = 9
    minor: int = 0
    steps: int = 3  # of the first optimizer, after which the program is ended; 0: at its own end
    assume: str = "even"
    weights: bool = True  # checkpoints are read
    world: int = 0  # ranks that the program believes in
    rank: int = 0


def read(environment: Mapping[str, str]) -> Settings:
    """Reads the settings; one that can't be read stays as it is."""
    s = Settings()
    for item in environment.get(VARIABLE, "").split(","):
        name, _, value = item.partition("=")
        try:
            setting: Dict[str, Any] = {name: value}
            if name in ("gpu", "assume"):
                s = s._replace(**setting)
            elif name in ("major", "minor", "steps", "world", "rank"):
                setting[name] = int(value)
                s = s._replace(**setting)
            elif name == "weights":
                s = s._replace(weights=value != "0")
        except ValueError:
            pass
    return s


def refuse(environment: Mapping[str, str], text: str) -> None:
    """Ends the process: `vramscope run` says why."""
    try:
        name = os.path.join(environment["VRAMSCOPE_RUN"], ".hook", "refused")
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
            f.write(text + "\n")
    except FileExistsError:
        pass
    sys.stdout.flush()
    os._exit(REFUSED)


def install(torch: Any, recorder: Any, environment: Mapping[str, str]) -> "Simulated":
    """Prepares this process; PyTorch is imported, and CUDA isn't up yet."""
    settings = read(environment)
    if torch.version.cuda is None:
        refuse(environment, CPU_ONLY.format(version=torch.__version__))
    device = library()
    if device is None:
        refuse(environment, "the simulated GPU's library isn't in the program: it was started with another LD_PRELOAD, or by a "
               "program that is linked statically or has privileges")  # fmt: skip
    kernels = missing_kernels(torch, settings)
    if kernels:
        refuse(environment, kernels)
    return Simulated(torch, recorder, settings, device, environment)


def library() -> Any:
    """What is preloaded, None where nothing is."""
    try:
        found = ctypes.CDLL(None)
        found.vramscope_simulated.restype = ctypes.c_int
        return found if found.vramscope_simulated() else None
    except (AttributeError, OSError):
        return None


def missing_kernels(torch: Any, s: Settings) -> Optional[str]:
    """Why this build of PyTorch runs nothing on the card, None where it does."""
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
    if not flags:
        return None
    wanted = s.major * 10 + s.minor
    built = []
    for flag in flags.split():
        kind, _, number = flag.partition("_")
        digits = "".join(c for c in number if c.isdigit())
        if not digits:
            continue
        n = int(digits)
        built.append(flag)
        exact = number[-1:] in "af" and not number[-1:].isdigit()  # of that card alone
        if n == wanted or not exact and (kind == "compute" and n <= wanted or n // 10 == s.major and n <= wanted):
            return None
    return (f"this PyTorch ({torch.__version__}) has no kernels for {s.gpu} (compute capability {s.major}.{s.minor}), and a real "
            f"one would fail: it was built for {', '.join(built)}")  # fmt: skip


class Simulated:
    """One process on a simulated GPU."""

    def __init__(self, torch: Any, recorder: Any, settings: Settings, device: Any, environment: Mapping[str, str]) -> None:
        self.torch, self.recorder, self.settings, self.device = torch, recorder, settings, device
        self.path = environment.get(ACCOUNT, "")
        self.ended: Optional[str] = None
        self.told: Dict[str, Any] = {}
        self.assumptions: Any = None
        recorder.simulated = self
        self.assumptions = simulated_sizes.Assumed(torch, settings.assume, self.end)
        self.values: Any = None
        self.optimizer_made: Optional[float] = None  # by the processor's time
        self.passed: Optional[bool] = None  # whether a backward pass came since the last step; None: nobody knows
        self.alone = 0  # steps without one
        for part in (self._ranks, self._optimizers, self._initialisation, self._weights, self._values, self._sizes, self._passes):
            try:
                part()
            except Exception as e:
                recorder.note(f"simulated GPU, {part.__name__[1:]}: {type(e).__name__}: {str(e)[:200]}")

    def _ranks(self) -> None:
        simulated_ranks.install(self.torch, self.settings.world, self.settings.rank, self.device)

    def _optimizers(self) -> None:
        """Notes when the first optimizer is made."""
        optimizer = self.torch.optim.Optimizer
        make = optimizer.__init__

        @functools.wraps(make)
        def init(*args: Any, **kwargs: Any) -> None:
            if self.optimizer_made is None:
                self.optimizer_made = time.process_time()
            make(*args, **kwargs)

        optimizer.__init__ = init

    def trains(self, steps: int) -> bool:
        """Whether it makes steps, or is about to: holders are looked for at those, and at the end."""
        return steps > 0 or self.optimizer_made is not None and time.process_time() < self.optimizer_made + FIRST_STEP

    def _initialisation(self) -> None:
        simulated_values.leave_out_initialisation(self.torch)

    def _weights(self) -> None:
        if not self.settings.weights:
            simulated_weights.install(self.torch, self.recorder.note)

    def _values(self) -> None:
        values = simulated_values.make(self.torch, self.assumptions, simulated_values.Device(self.device))
        self.assumptions.values = values.work
        simulated_values.leave_out_compiled(self.torch, values)
        values.__enter__()
        self.values = values

    def _sizes(self) -> None:
        self.library = simulated_sizes.install(self.torch, self.assumptions)

    def _passes(self) -> None:
        """Notes backward passes, in which values are kept, too: layers may be run again there."""
        autograd = self.torch.autograd
        run = getattr(autograd, "_engine_run_backward", None)
        if run is None:  # before PyTorch 2.3
            return

        @functools.wraps(run)
        def passes(*args: Any, **kwargs: Any) -> Any:
            self.passed = True
            with simulated_values.within(self.torch, self.values):
                return run(*args, **kwargs)

        autograd._engine_run_backward = passes
        self.passed = False

    def is_new_step(self) -> bool:
        """Whether an optimizer's step isn't a part of the one before: DeepSpeed's takes one for each sub-group."""
        new = self.passed is not False or self.alone >= ALONE
        self.alone = 0 if new else self.alone + 1
        if self.passed is not None:
            self.passed = False
        return new

    def stepped(self, steps: int) -> None:
        """After each step of the first optimizer."""
        self.assumptions.stepped()
        if self.settings.steps and steps >= self.settings.steps:
            self.end(f"after {steps} optimizer steps" if steps > 1 else "after the first optimizer step")

    def end(self, why: str, status: int = 0) -> None:
        """Ends the program, which has shown what was to be seen."""
        self.ended = why
        self.recorder.exit()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        children = sys.modules.get("multiprocessing.process")
        if children is not None:
            for child in list(getattr(children, "_children", ())):
                try:
                    child.terminate()
                except Exception:
                    pass
        self.recorder.exit_now(status)

    def account(self) -> None:
        """Takes what the library counted into what the process says of itself."""
        write = getattr(self.device, "vramscope_simulated_account", None)
        if write is None or not self.path:
            return
        try:
            write()
            with open(self.path.replace("%p", str(os.getpid()))) as f:
                told = json.loads(f.read(LARGEST_ACCOUNT))
            self.told = {
                "devices": [{"peak_bytes": d["peak"], "refused": d["refused"]} for d in told["devices"]],
                "unknown_calls": told["unknown_calls"],
                "uncounted": {**told["workspaces_not_counted"],
                              **{f"convolutions, {kind}": n for kind, n in told["convolutions_not_counted"].items()}},  # fmt: skip
            }
        except (OSError, ValueError, KeyError, TypeError):
            self.recorder.note("the simulated GPU told nothing of its memory")

    def facts(self) -> Dict[str, Any]:
        """What is written down of it."""
        found = self.assumptions.facts() if self.assumptions is not None else []
        return {**self.told, "assumptions": found, "ended": self.ended}
