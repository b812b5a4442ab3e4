"""Calls in the main thread after some time of the processor, for programs that make no steps.

Timers of the kernel send a signal that nobody else uses: no thread, and nothing while
the program does nothing. One counts the main thread's time, so that it comes while
Python runs and no system call is interrupted; the other, a rare one, that of all threads.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Callable, List

FASTEST = 0.001  # seconds between ticks at first; the kernel's own tick, 4 ms as a rule, if that is longer
AT_FIRST = 5.0  # seconds of the main thread that may be, unless the first call of use comes before
MAIN = 0.02  # then of the main thread's time since: so long, and no shorter
ALL = (3.0, 0.5)  # seconds of all threads before the first tick, and what is added to them for each later one, as a share

PROCESS, THREAD = 2, 3  # CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID
THREAD_ID = 4  # SIGEV_THREAD_ID


class Ticks:
    """The timers of one process."""

    def __init__(self, call: Callable[[], bool]) -> None:
        self.call = call  # says whether it was of use
        self.since = 0.0  # of the main thread, once it was
        self.number = getattr(signal, "SIGURG", 0)  # ignored where nobody handles it: after an exec, in the interpreter's end
        self.timers: List[Any] = []

    def start(self) -> bool:
        """Starts them, from the main thread; says whether there are any."""
        ctypes = sys.modules.get("ctypes")  # PyTorch has imported it
        if ctypes is None or sys.platform != "linux" or sys.maxsize < 1 << 32:
            return False
        if threading.current_thread() is not threading.main_thread() or signal.getsignal(self.number) != signal.SIG_DFL:
            return False
        self.c = ctypes
        try:
            self.library = self.c.CDLL(None)
            self.library.timer_settime  # noqa: B018
        except AttributeError:  # glibc before 2.34
            self.library = self.c.CDLL("librt.so.1")
        signal.signal(self.number, self._tick)
        self.began = [time.process_time(), time.thread_time()]
        self.timers = [self._make(PROCESS), self._make(THREAD)]
        self.next = self.began[0] + ALL[0]
        self._arm(0, ALL[0])
        self._arm(1, FASTEST)
        return True

    def stop(self) -> None:
        for timer in self.timers:
            self.library.timer_delete(timer)
        self.forked()

    def forked(self) -> None:
        """In a child, which has no timers."""
        if self.timers:
            self.timers = []
            if signal.getsignal(self.number) == self._tick:
                signal.signal(self.number, signal.SIG_DFL)

    def _make(self, clock: int) -> Any:
        event = (self.c.c_int * 16)()  # struct sigevent
        event[2], event[3], event[4] = self.number, THREAD_ID, threading.get_native_id()
        timer = self.c.c_void_p()
        if self.library.timer_create(clock, self.c.byref(event), self.c.byref(timer)) != 0:
            raise OSError("timer_create")
        return timer

    def _arm(self, which: int, seconds: float) -> None:
        spec = (self.c.c_long * 4)(0, 0, int(seconds), int(seconds % 1 * 1e9))  # struct itimerspec
        self.library.timer_settime(self.timers[which], 0, self.c.byref(spec), None)

    def _tick(self, *_: Any) -> None:
        if not self.timers:
            return
        useful = self.call()
        now, mine = time.process_time(), time.thread_time()
        if now >= self.next:
            self.next = now + (now - self.began[0]) * ALL[1]
            self._arm(0, self.next - now)
        if not self.since and (useful or mine > self.began[1] + AT_FIRST):
            self.since = mine
        self._arm(1, max(FASTEST, MAIN * (mine - self.since)) if self.since else FASTEST)
