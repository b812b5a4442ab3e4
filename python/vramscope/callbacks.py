"""Callbacks for training loops that are somebody else's.

    trainer = transformers.Trainer(..., callbacks=[vramscope.callbacks.HFTrainer("out", steps=3)])
    trainer = lightning.Trainer(..., callbacks=[vramscope.callbacks.Lightning("out", steps=3)])
    accelerator = accelerate.Accelerator(log_with=vramscope.callbacks.Accelerate("out", steps=3))

All record from the beginning of the training, dump after the given step, and then switch
recording off; an out-of-memory error before is dumped, too. `vramscope run` needs no callback.
"""

from __future__ import annotations

import contextlib
from typing import Any, Optional

__all__ = ["Accelerate", "HFTrainer", "Lightning"]


class _Steps:
    """A recording that ends after some steps."""

    def __init__(self, out: str, steps: int, **options: Any) -> None:
        self.out, self.steps, self.options = out, steps, options
        self.recorder: Any = None
        self.stack: Optional[contextlib.ExitStack] = None

    def begin(self) -> None:
        from ._recording import recording

        if self.stack is None:
            self.stack = contextlib.ExitStack()
            self.recorder = self.stack.enter_context(recording(self.out, **self.options))

    def step(self, number: int) -> None:
        if self.stack is not None and number >= self.steps:
            self.recorder.dump("step", {"step": number})
            self.recorder.state = "finished"  # no second dump of the same moment
            self.end()

    def end(self) -> None:
        stack, self.stack = self.stack, None
        if stack is not None:
            stack.close()


def HFTrainer(out: str, steps: int = 3, **options: Any) -> Any:
    """A transformers.TrainerCallback that records `steps` steps into the folder `out`."""
    from transformers import TrainerCallback

    class Record(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.recording = _Steps(out, steps, **options)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.recording.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.recording.step(state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.recording.end()

    return Record()


def Lightning(out: str, steps: int = 3, **options: Any) -> Any:
    """A Lightning callback that records `steps` steps into the folder `out`."""
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class Record(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.recording = _Steps(out, steps, **options)

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            self.recording.begin()

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            self.recording.step(trainer.global_step)

        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            self.recording.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.recording.end()

    return Record()


def Accelerate(out: str, steps: int = 3, **options: Any) -> Any:
    """A tracker for accelerate.Accelerator(log_with=…) that records into the folder `out` from `init_trackers` on, until
    `log` was called `steps` times."""
    from accelerate.tracking import GeneralTracker

    class Record(GeneralTracker):  # type: ignore[misc]
        name = "vramscope"
        requires_logging_directory = False
        main_process_only = True

        def __init__(self) -> None:
            super().__init__()
            self.recording, self.logged = _Steps(out, steps, **options), 0

        @property
        def tracker(self) -> Any:
            return self.recording.recorder

        def start(self) -> None:
            self.recording.begin()

        def store_init_configuration(self, values: Any) -> None:
            self.recording.begin()  # older versions have no start

        def log(self, values: Any, step: Optional[int] = None, **_: Any) -> None:
            self.logged += 1
            self.recording.step(self.logged)

        def finish(self) -> None:
            self.recording.end()

    return Record()
