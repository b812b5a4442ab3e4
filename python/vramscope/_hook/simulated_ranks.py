"""Ranks on simulated GPUs: collectives move nothing, so what programs decide by them comes another way.

Python objects go through the store, where ranks of this machine run together. A rank that is alone, of a world that
isn't there, gets a store that answers every key, and all others are taken to say what it says itself.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any, Dict, Iterator, List, Optional

from .simulated_weights import After

SIGNALS = ("exception_dump", "remote_error")  # keys by which NCCL's monitor learns that another rank has failed
# Comparisons with what rank 0 sends, which a rank alone doesn't get.
AGREEMENTS = {"deepspeed.runtime.zero.utils": ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks")}
UNIQUE = b"\1" * 128  # as NCCL's ids are


def install(torch: Any, world: int, rank: int, library: Any = None) -> None:
    """Prepares torch.distributed, which PyTorch has imported where it has it."""
    core: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if core is None or not torch.distributed.is_available():
        return
    if world:
        store = lone(torch.distributed, world)

        def rendezvous(*_: Any, **__: Any) -> Iterator[Any]:
            yield store, rank, world

        core.rendezvous = rendezvous
        together: Any = Alone(core, rank, world)
        without_gloo(core)
        agree()
    else:
        together = Together(core)
    for name in ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list", "send_object_list",
                 "recv_object_list"):  # fmt: skip
        if hasattr(core, name):
            setattr(core, name, getattr(together, name))
            setattr(torch.distributed, name, getattr(together, name))
    unverified(torch)
    say = getattr(library, "vramscope_simulated_group", None)
    if say is not None:
        say_groups(core, say)


def say_groups(core: Any, say: Any) -> None:
    """Tells the library whom a communicator that is split off will have: NCCL itself learns that from the other ranks."""
    split: Any = getattr(core, "split_group", None)
    new = core.new_group

    def place(ranks: Any, rank: int) -> None:
        found = list(ranks)
        if rank in found:
            say(len(found), found.index(rank))

    def split_group(parent_pg: Any = None, split_ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        for ranks in split_ranks or ():
            place(ranks, core.get_rank(parent_pg))
        return split(parent_pg, split_ranks, *args, **kwargs)

    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        whole = core._get_default_group()
        if ranks is not None and getattr(whole, "bound_device_id", None) is not None:
            place(sorted(ranks), core.get_rank())
        return new(ranks, *args, **kwargs)

    replace(core, "new_group", new_group)
    if split is not None:
        replace(core, "split_group", split_group)


def replace(core: Any, name: str, function: Any) -> None:
    """Puts a function in the place of one of torch.distributed, wherever PyTorch has taken it by name."""
    for module in (core, sys.modules["torch.distributed"], sys.modules.get("torch.distributed.device_mesh")):
        if module is not None and hasattr(module, name):
            setattr(module, name, function)


def unverified(torch: Any) -> None:
    """DDP compares the shapes of all ranks' parameters by kernels, which compute nothing."""
    for name in ("torch.distributed.utils", "torch.nn.parallel.distributed"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "_verify_param_shape_across_processes"):
            module._verify_param_shape_across_processes = lambda *_, **__: None  # type: ignore[attr-defined]


def agree() -> None:
    """All ranks are taken to be as this one, so what compares them finds no difference."""

    def agreeing(names: Any) -> Any:
        def patch(module: Any) -> None:
            for name in names:
                if hasattr(module, name):
                    setattr(module, name, lambda *_, **__: None)

        return patch

    sys.meta_path.insert(0, After({name: agreeing(names) for name, names in AGREEMENTS.items()}))


def without_gloo(core: Any) -> None:
    """Gloo connects to all ranks, which aren't there: collectives of host tensors do nothing."""
    before = core.init_process_group
    new = core.new_group

    def backend_of(backend: Any) -> Any:
        words = str(backend or "cpu:gloo,cuda:nccl").lower()
        if "gloo" not in words:
            return backend
        try:
            import torch.testing._internal.distributed.fake_pg  # noqa: F401
        except Exception:
            return "nccl"
        return "fake" if words == "gloo" else words.replace("gloo", "fake")

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return before(backend_of(backend), *args, **kwargs)

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return new(ranks, timeout, backend_of(backend) if backend is not None else None, *args, **kwargs)

    replace(core, "init_process_group", init_process_group)
    replace(core, "new_group", new_group)


def lone(distributed: Any, world: int) -> Any:
    """A store in which every key stands."""

    class Store(distributed.Store):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.values: Dict[str, Any] = {}

        def set(self, key: str, value: Any) -> None:
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key: str) -> Any:
            value = self.values.get(key, UNIQUE)
            return str(value).encode() if isinstance(value, int) else value

        def add(self, key: str, n: int) -> int:
            before = self.values.get(key, 0)
            self.values[key] = (int(before) if isinstance(before, int) or before.isdigit() else 0) + n
            # who waits for all ranks counts them
            return world if "worker" in key or "barrier" in key else int(self.values[key])

        def wait(self, *_: Any) -> None:
            pass

        def check(self, keys: Any) -> bool:
            return not any(signal in str(key) and key not in self.values for key in keys for signal in SIGNALS)

        def delete_key(self, key: str) -> bool:
            return self.values.pop(key, None) is not None

        def num_keys(self) -> int:
            return len(self.values)

        def set_timeout(self, timeout: Any) -> None:
            pass

        def compare_set(self, key: str, expected: Any, value: Any) -> Any:
            found = self.values.setdefault(key, value)
            return found.encode() if isinstance(found, str) else found

    return Store()


class Alone:
    """Object collectives of a rank that is alone."""

    def __init__(self, core: Any, rank: int, world: int) -> None:
        self.core, self.rank, self.world = core, rank, world

    def size(self, group: Any) -> int:
        n = self.core.get_world_size(group)
        return int(n) if n > 0 else 0

    def all_gather_object(self, object_list: List[Any], obj: Any, group: Any = None, **_: Any) -> None:
        object_list[: self.size(group)] = [obj] * self.size(group)

    def broadcast_object_list(self, object_list: List[Any], *_: Any, **__: Any) -> None:
        pass

    def gather_object(self, obj: Any, object_gather_list: Optional[List[Any]] = None, dst: Any = None, group: Any = None, **_: Any) -> None:
        if object_gather_list is not None:
            object_gather_list[: self.size(group)] = [obj] * self.size(group)

    def scatter_object_list(self, scatter_object_output_list: List[Any], scatter_object_input_list: Any = None, *_: Any, **__: Any) -> None:
        if scatter_object_input_list:
            at = self.rank % len(scatter_object_input_list)
            scatter_object_output_list[0] = scatter_object_input_list[at]

    def send_object_list(self, *_: Any, **__: Any) -> None:
        pass

    def recv_object_list(self, *_: Any, **__: Any) -> int:
        raise RuntimeError(
            f"rank {self.rank} of {self.world} is alone on a simulated GPU, and no other rank sends it an object. A pipeline's stages "
            "tell each other their shapes so: give PipelineStage its input_args and output_args, or start all ranks by torchrun"
        )


class Together:
    """Object collectives of ranks that run on this machine, by their store."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.turns: Dict[str, int] = {}

    def begin(self, what: str, group: Any) -> Any:
        """The key of this call, which all ranks of the group make in the same order; its ranks; the rank here."""
        core = self.core
        ranks = core.get_process_group_ranks(group) if group is not None else list(range(core.get_world_size()))
        name = f"vramscope/{what}/{'-'.join(map(str, ranks))}"
        turn = self.turns[name] = self.turns.get(name, 0) + 1
        return f"{name}/{turn}", ranks, core.get_rank()

    def put(self, key: str, value: Any) -> None:
        self.core._get_default_store().set(key, pickle.dumps(value))

    def get(self, key: str) -> Any:
        return pickle.loads(self.core._get_default_store().get(key))

    def absent(self, group: Any) -> bool:
        return bool(self.core._rank_not_in_group(group))

    def all_gather_object(self, object_list: List[Any], obj: Any, group: Any = None, **_: Any) -> None:
        if self.absent(group):
            return
        key, ranks, here = self.begin("all_gather", group)
        self.put(f"{key}/{here}", obj)
        for i, rank in enumerate(ranks):
            object_list[i] = self.get(f"{key}/{rank}")

    def broadcast_object_list(
        self, object_list: List[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None, **_: Any
    ) -> None:
        if self.absent(group):
            return
        key, ranks, here = self.begin("broadcast", group)
        source = ranks[group_src] if group_src is not None else src or 0
        if here == source:
            self.put(key, object_list)
        else:
            object_list[:] = self.get(key)

    def gather_object(
        self, obj: Any, object_gather_list: Optional[List[Any]] = None, dst: Any = None, group: Any = None, group_dst: Any = None, **_: Any
    ) -> None:
        if self.absent(group):
            return
        key, ranks, here = self.begin("gather", group)
        self.put(f"{key}/{here}", obj)
        if here == (ranks[group_dst] if group_dst is not None else dst or 0) and object_gather_list is not None:
            for i, rank in enumerate(ranks):
                object_gather_list[i] = self.get(f"{key}/{rank}")

    def scatter_object_list(
        self, scatter_object_output_list: List[Any], scatter_object_input_list: Any = None, src: Any = None, group: Any = None,
        group_src: Any = None, **_: Any,
    ) -> None:  # fmt: skip
        if self.absent(group):
            return
        key, ranks, here = self.begin("scatter", group)
        if here == (ranks[group_src] if group_src is not None else src or 0):
            for rank, one in zip(ranks, scatter_object_input_list):
                self.put(f"{key}/{rank}", one)
        scatter_object_output_list[0] = self.get(f"{key}/{here}")

    def pair(self, source: int, to: int) -> str:
        """The key of what one rank sends to another next."""
        name = f"vramscope/send/{source}-{to}"
        turn = self.turns[name] = self.turns.get(name, 0) + 1
        return f"{name}/{turn}"

    def other(self, rank: Any, group: Any, of_group: Any) -> int:
        if of_group is not None:
            return int(self.core.get_process_group_ranks(group)[of_group] if group is not None else of_group)
        if rank is None:
            raise RuntimeError("objects from any rank can't be received on a simulated GPU: say from which one, by src")
        return int(rank)

    def send_object_list(
        self, object_list: List[Any], dst: Any = None, group: Any = None, device: Any = None, group_dst: Any = None, **_: Any
    ) -> None:
        if not self.absent(group):
            self.put(self.pair(self.core.get_rank(), self.other(dst, group, group_dst)), list(object_list))

    def recv_object_list(
        self, object_list: List[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None, **_: Any
    ) -> int:
        if self.absent(group):
            return -1
        source = self.other(src, group, group_src)
        object_list[:] = self.get(self.pair(source, self.core.get_rank()))
        return source
