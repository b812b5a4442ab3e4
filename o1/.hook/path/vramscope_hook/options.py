"""What `vramscope run` asks for, read from the environment."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Tuple

RUN = "VRAMSCOPE_RUN"  # the run's directory
OPTIONS = "VRAMSCOPE_OPTIONS"  # name=value,name=value

# Host memory that an event takes, as a rule, in the ring and while that is dumped (see doc/recording.md); of that the dump.
EVENT_BYTES = {"all": 2300, "python": 1700, "none": 1000}
DUMP_BYTES = {"all": 1700, "python": 1200, "none": 850}


class Options(NamedTuple):
    """How to record."""

    dir: str
    stacks: str = "all"  # all, python or none
    ring: int = 1 << 30  # bytes of host memory, dumping included
    steps: Optional[Tuple[int, int]] = None
    since: int = 1  # the step from which on events are recorded
    every: float = 0.0  # seconds between dumps of what is held; 0: none
    live: bool = False  # somebody watches
    holders: bool = True
    ranks: Optional[Tuple[Tuple[int, int], ...]] = None
    disk: int = 8 << 30  # bytes of dumps that a process leaves

    @property
    def entries(self) -> int:
        """The ring's events."""
        return max(1000, self.ring // EVENT_BYTES[self.stacks])

    def wants(self, rank: Optional[int]) -> bool:
        return self.ranks is None or rank is None or any(a <= rank <= b for a, b in self.ranks)


def read(environment: Mapping[str, str]) -> Options:
    """Reads the options; one that can't be read stays as it is."""
    o = Options(environment[RUN])
    for item in environment.get(OPTIONS, "").split(","):
        name, _, value = item.partition("=")
        try:
            if name == "stacks" and value in EVENT_BYTES:
                o = o._replace(stacks=value)
            elif name == "ring":
                o = o._replace(ring=int(value))
            elif name == "disk":
                o = o._replace(disk=int(value))
            elif name == "steps":
                o = o._replace(steps=_span(value, ":"))
            elif name == "since":
                o = o._replace(since=int(value))
            elif name == "every":
                o = o._replace(every=float(value))
            elif name == "live":
                o = o._replace(live=value == "1")
            elif name == "holders":
                o = o._replace(holders=value != "0")
            elif name == "ranks":
                o = o._replace(ranks=tuple(_span(part, "-") for part in value.split("+")))
        except ValueError:
            pass
    return o


def _span(text: str, separator: str) -> Tuple[int, int]:
    first, _, last = text.partition(separator)
    return int(first), int(last or first)


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
_WORLDS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


def rank_of(environment: Mapping[str, str]) -> Optional[int]:
    """The process' rank as its launcher tells it."""
    return _number(environment, _RANKS)


def world_of(environment: Mapping[str, str]) -> Optional[int]:
    return _number(environment, _WORLDS)


def _number(environment: Mapping[str, str], names: Tuple[str, ...]) -> Optional[int]:
    for name in names:
        value = environment.get(name, "")
        if value.isdigit():
            return int(value)
    return None
