"""Programs on a simulated GPU, with a stand-in for PyTorch; the library itself is compiled where a compiler is."""

from __future__ import annotations

import json
import os
import shutil
import sys
import types
from typing import Any, Dict, List, Optional

import pytest
from conftest import Lab
from vramscope._hook import recorder, simulated, simulated_guards, simulated_ranks, simulated_sizes

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")

TRAINS = """
    import torch
    from torch.optim.optimizer import Optimizer
    held = torch.zeros(1 << 20)
    optimizer = Optimizer([held])
    for step in range(100):
        print("step", step)
        optimizer.step()
    print("its own end")
    """


@needs_compiler
@pytest.mark.parametrize("steps, shown", [((), 3), (("--steps", "5"), 5), (("--steps", "2:4"), 4), (("--steps", "end"), 100)])
def test_a_program_is_ended(lab: Lab, steps: Any, shown: int) -> None:
    r = lab.run(TRAINS, "--simulate", "A100 40GB", *steps)
    assert (r.code, r.stdout.count("step")) == (0, shown)
    assert ("its own end" in r.stdout) == (shown == 100)
    s = r.record["environment"]["simulated"]
    assert (s["gpu"], s["compute_capability"], s["assumptions"]) == ("A100 40GB", "8.0", [])
    assert s["ended"] == (None if shown == 100 else f"after {shown} optimizer steps")
    assert r.processes[0]["steps"] == shown
    assert r.why[0][-1] == "exit"


@needs_compiler
def test_what_runs_out_of_memory_has_its_own_exit_code(lab: Lab) -> None:
    r = lab.run("import torch\ntorch.zeros(1 << 30)", "--simulate", "A100 40GB", STUB_TORCH_CAPACITY=str(1 << 20))
    assert r.code == 1
    assert "SIMULATED A100 40GB · doesn't fit" in r.stderr
    assert r.why == [["oom"]]


@needs_compiler
def test_a_build_without_cuda_is_refused_before_the_program(lab: Lab) -> None:
    lab.write("torch/__init__.py", "print('imported')\n")
    lab.write("torch/version.py", "from typing import Optional\n__version__ = '2.9.1+cpu'\ncuda: Optional[str] = None\n")
    r = lab.run("print('began')\nimport torch", "--simulate", "A100 40GB", PYTHONPATH=str(lab.folder))
    assert (r.code, r.stdout) == (2, "")
    assert "(2.9.1+cpu) is a CPU-only build" in r.stderr
    assert len(r.stderr.strip().splitlines()) == 1


@needs_compiler
def test_the_bound_is_a_second_run(lab: Lab) -> None:
    r = lab.run(TRAINS, "--simulate", "A100 40GB", "--assume", "both")
    assert (r.code, r.stdout.count("step")) == (0, 3)  # the second run shows nothing
    assert "largest: fits, " in r.stderr
    assumed = [json.loads((folder / "run.json").read_text())["environment"]["simulated"]["assume"]
               for folder in (lab.out, lab.out.with_name("out-most"))]  # fmt: skip
    assert assumed == ["even", "most"]
    assert "has no effect with --solve" in lab.run(TRAINS, "--simulate", "A100 40GB", "--assume", "both", "--solve", "1:2").stderr


@needs_compiler
def test_the_largest_that_fits(lab: Lab) -> None:
    program = lab.write("program.py", """
        import sys, torch
        from torch.optim.optimizer import Optimizer
        held = [torch.zeros(1 << 21) for _ in range(int(sys.argv[1]))]
        Optimizer(held[:1]).step()
        """)
    r = lab.run("", "--simulate", "A100 40GB", "--solve", "1:64", command=[os.sys.executable, str(program), "{}"],  # type: ignore[attr-defined]
                STUB_TORCH_CAPACITY=str(21 << 21))  # fmt: skip
    assert r.code == 0
    assert "SIMULATED A100 40GB · 21 is the largest of 1 to 64 that fits" in r.stderr
    assert "With 22: " in r.stderr


@pytest.mark.parametrize(
    "flags, major, minor, runs",
    [
        ("sm_80 sm_86 sm_90", 8, 0, True),
        ("sm_80 sm_86 sm_90", 8, 9, True),  # of the same generation
        ("sm_75 sm_80", 7, 0, False),
        ("sm_80 sm_90", 12, 0, False),
        ("sm_80 compute_90", 10, 0, True),  # compiled when it is loaded
        ("sm_80 sm_90a", 9, 0, True),
        ("sm_80 sm_100a", 10, 3, False),  # of that card alone
        ("", 8, 0, True),  # nobody tells
    ],
)
def test_kernels_for_a_card(flags: str, major: int, minor: int, runs: bool) -> None:
    torch = types.SimpleNamespace(_C=types.SimpleNamespace(_cuda_getArchFlags=lambda: flags), __version__="2.9")
    s = simulated.Settings(gpu="card", major=major, minor=minor)
    assert (simulated.missing_kernels(torch, s) is None) == runs


def test_settings() -> None:
    s = simulated.read({simulated.VARIABLE: "gpu=A100 40GB,major=8,minor=0,steps=x,assume=0.5,weights=0,world=512,rank=3"})
    assert s == simulated.Settings("A100 40GB", 8, 0, 3, "0.5", False, 512, 3)


def assumed(how: str) -> Any:
    return simulated_sizes.Assumed(types.SimpleNamespace(__file__="/nowhere/torch/__init__.py", Tensor=type("Tensor", (), {})), how, None)


@pytest.mark.parametrize("how, rows", [("none", 0), ("most", 100), ("0.25", 25), ("even", 50)])
def test_a_size_that_depends_on_data(how: str, rows: int) -> None:
    a = assumed(how)
    assert a.rows("nonzero", None, 100, 8) == rows
    (told,) = a.facts()
    assert (told["calls"], told["rows"], told["most_rows"], told["bytes"]) == (1, rows, 100, rows * 8)
    assert told["file"] == __file__


def test_calls_of_one_loop_share_their_total() -> None:
    a = assumed("even")

    def experts() -> List[int]:
        return [a.rows("nonzero", None, 1000, 8) for _ in range(8)]

    first, second, third = experts(), experts(), experts()
    assert sum(first) <= 1000  # nobody knew how many calls there would be
    assert second == third == [125] * 8


def test_masks_that_are_slices_of_one_tensor_share_it() -> None:
    a = assumed("even")
    storage = types.SimpleNamespace(nbytes=lambda: 8 * 8 * 2000)
    mask = types.SimpleNamespace(untyped_storage=lambda: storage, element_size=lambda: 8, numel=lambda: 2000)
    assert [a.rows("nonzero", mask, 2000, 8) for _ in range(8)] == [250] * 8


def test_two_calls_on_one_line_are_no_loop() -> None:
    """As in `loss(logits[mask], labels[mask])`, of a mask that is made twice."""
    a = assumed("even")
    assert (a.rows("nonzero", None, 1000, 8), a.rows("nonzero", None, 1000, 8)) == (500, 500)


def test_a_mask_gives_as_many_rows_each_time_until_it_changes() -> None:
    a = assumed("even")
    a.values = types.SimpleNamespace(turn=lambda at: at)
    storage = types.SimpleNamespace(nbytes=lambda: 1000, data_ptr=lambda: 7)
    mask = types.SimpleNamespace(untyped_storage=lambda: storage, element_size=lambda: 1, numel=lambda: 1000,
                                 storage_offset=lambda: 0, shape=(1000,), _version=0)  # fmt: skip

    def call() -> int:
        return int(a.rows("nonzero", mask, 1000, 8))

    assert [call() for _ in range(3)] == [500] * 3
    mask._version = 1
    assert call() == 500  # of a run of the function that is a new one


def test_a_loop_that_cannot_end_is_stopped() -> None:
    why: List[str] = []
    a = assumed("even")
    a.end = why.append
    for _ in range(simulated_sizes.ENDLESS):
        a.read(False, 0.0)
    assert len(why) == 1 and os.path.basename(__file__) in why[0]
    a.stepped()
    for _ in range(simulated_sizes.ENDLESS - 1):
        a.read(False, 0.0)
    assert len(why) == 1 and a.facts() == []


def test_conditions_are_told() -> None:
    a = assumed("even")
    if a.read(False, 0.0):  # this line is one
        raise AssertionError
    (told,) = a.facts()
    assert (told["what"], told["taken"], told["calls"]) == ("a condition", "0.0", 1)


def test_a_program_that_trains_is_looked_through_at_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its first optimizer's first step, for which it has some time, and from that step on."""

    class Optimizer:
        def __init__(self, parameters: List[int]) -> None:
            self.parameters = parameters

    now = [5.0]
    monkeypatch.setattr(simulated.time, "process_time", lambda: now[0])
    s: Any = simulated.Simulated.__new__(simulated.Simulated)
    s.torch = types.SimpleNamespace(optim=types.SimpleNamespace(Optimizer=Optimizer))
    s.optimizer_made = None
    s._optimizers()
    assert not s.trains(0)
    assert Optimizer([1]).parameters == [1]
    now[0] += simulated.FIRST_STEP - 1
    assert s.trains(0)
    Optimizer([2])
    now[0] += 2
    assert not s.trains(0)
    assert s.trains(1)


def test_stacks_are_as_without_a_simulated_gpu() -> None:
    def frame(name: str, file: str) -> Dict[str, Any]:
        return {"name": name, "filename": file, "line": 1}

    own = frame("run", os.path.join(recorder.HERE, "simulated_values.py"))
    linear = frame("linear", "/torch/nn/functional.py")
    forward = frame("forward", "/home/u/model.py")
    frames = [frame("at::empty", "??"), linear, own, own, frame("handle_torch_function", "/torch/overrides.py"), linear, forward]
    plain = [frame("at::empty", "??"), forward]
    snapshot = {"device_traces": [[{"frames": frames}, {"frames": frames}, {"frames": plain}, {}]],
                "segments": [{"blocks": [{"frames": [own, forward]}]}]}  # fmt: skip
    recorder.without_own_frames(snapshot)
    assert [f["name"] for f in frames] == ["at::empty", "linear", "forward"]
    assert [f["name"] for f in plain] == ["at::empty", "forward"]
    assert snapshot["segments"][0]["blocks"][0]["frames"] == [forward]  # type: ignore[index]


class Core:
    """torch.distributed as a rank of two sees it."""

    def __init__(self, rank: int, store: Dict[str, bytes]) -> None:
        self.rank, self.store = rank, store

    def get_world_size(self, group: Any = None) -> int:
        return 2

    def get_rank(self) -> int:
        return self.rank

    def get_process_group_ranks(self, group: Any) -> List[int]:
        return [0, 1]

    def _rank_not_in_group(self, group: Any) -> bool:
        return False

    def _get_default_store(self) -> Any:
        return types.SimpleNamespace(set=self.store.__setitem__, get=self.store.__getitem__)


def test_objects_of_ranks_that_run_together() -> None:
    store: Dict[str, bytes] = {}
    ranks = [simulated_ranks.Together(Core(r, store)) for r in (1, 0)]
    lists: List[List[Optional[int]]] = [[None, None], [None, None]]
    for turn in (0, 10):
        for r, rank in enumerate(ranks):
            key, _, here = rank.begin("warm", None)
            rank.put(f"{key}/{here}", r)
        ranks[1].broadcast_object_list([turn + 7])
        got = [None]
        ranks[0].broadcast_object_list(got, src=0)
        assert got == [turn + 7]
    ranks[0].put("vramscope/all_gather/0-1/1/1", "of 1")
    ranks[0].put("vramscope/all_gather/0-1/1/0", "of 0")
    ranks[0].all_gather_object(lists[0], "of 1")
    assert lists[0] == ["of 0", "of 1"]


def test_objects_of_a_rank_that_is_alone() -> None:
    alone = simulated_ranks.Alone(Core(1, {}), 1, 2)
    gathered: List[Any] = [None, None]
    alone.all_gather_object(gathered, "mine")
    scattered: List[Any] = [None]
    alone.scatter_object_list(scattered, ["a", "b"])
    kept = ["as it is"]
    alone.broadcast_object_list(kept, src=0)
    assert (gathered, scattered, kept) == (["mine", "mine"], ["b"], ["as it is"])


GUARDS = """\
def passes(a, b, c):
    assert a
    assert not b, "said"
    if not a or b:
        raise ValueError
    if (b and
            b):
        x = 1
        raise ValueError(x)
    assert all(x for x in (a, a))
    if b:
        return False
    return c
"""


def test_what_only_keeps_an_error_away_is_passed(tmp_path: Any) -> None:
    """On lines with both answers the column decides, which Python tells from 3.11 on."""
    source = tmp_path / "guarded.py"
    source.write_text(GUARDS)
    guards = simulated_guards.Guards()
    asked: List[Any] = []

    class Unknown:
        def __bool__(self) -> bool:
            answer = guards.answer(sys._getframe(1))
            asked.append(answer)
            return bool(answer)

    space: Dict[str, Any] = {}
    exec(compile(GUARDS, str(source), "exec"), space)
    if sys.version_info >= (3, 11):
        assert isinstance(space["passes"](Unknown(), Unknown(), 5), int)
        assert asked == [True, False, True, False, False, True, True, None]
    lines = guards.of(str(source))
    assert {n: {p.answer for p in parts} for n, parts in lines.items()} == {
        2: {True}, 3: {False}, 4: {True, False}, 6: {False}, 7: {False}, 10: {True}}  # fmt: skip


def test_a_source_that_cannot_be_read_has_no_guards() -> None:
    assert simulated_guards.read("assert (") == {} and simulated_guards.read("\0") == {}
    assert simulated_guards.Guards().of("/nowhere/x.py") == {}
    assert simulated_guards.read("assert " + "(" * 100000) == {}


def test_objects_that_one_rank_sends_another() -> None:
    store: Dict[str, bytes] = {}
    zero, one = (simulated_ranks.Together(Core(r, store)) for r in (0, 1))
    for turn in (1, 2):
        zero.send_object_list([turn], dst=1)
        got = [None]
        assert one.recv_object_list(got, group=object(), group_src=0) == 0
        assert got == [turn]
    with pytest.raises(RuntimeError, match="say from which one"):
        one.recv_object_list([None])
    with pytest.raises(RuntimeError, match="rank 1 of 2 is alone .* input_args"):
        simulated_ranks.Alone(Core(1, {}), 1, 2).recv_object_list([None], src=0)


def test_groups_that_are_split_off_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 3 of 8 in a mesh of 4 by 2; a group that PyTorch doesn't split off isn't said."""
    made: List[Any] = []
    whole = types.SimpleNamespace(bound_device_id=0)
    core = types.SimpleNamespace(
        split_group=lambda parent, split_ranks, **_: made.append(split_ranks), new_group=lambda ranks, *_, **__: made.append(ranks),
        get_rank=lambda group=None: 3, _get_default_group=lambda: whole)  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.distributed", types.ModuleType("torch.distributed"))
    said: List[Any] = []
    simulated_ranks.say_groups(core, lambda ranks, rank: said.append((ranks, rank)))
    core.split_group(split_ranks=[[0, 2, 4, 6], [1, 3, 5, 7]])
    core.split_group(None, [[0, 1], [2, 3], [4, 5], [6, 7]])
    core.new_group([3, 1])
    core.new_group([0, 1])
    core.new_group(None)
    whole.bound_device_id = None
    core.new_group([3, 4])
    assert said == [(4, 1), (2, 1), (2, 1)] and len(made) == 6


def test_the_store_of_a_rank_that_is_alone() -> None:
    store = simulated_ranks.lone(types.SimpleNamespace(Store=object), 512)
    assert store.get("0") == simulated_ranks.UNIQUE and store.check(["anything"]) and store.add("worker_count", 1) == 512
    assert not store.check(["/default_pg/0//exception_dump"])  # else NCCL's monitor ends the rank
    store.set("exception_dump", b"1")
    assert store.check(["exception_dump"])
    assert store.add("n", 2) == 2 and store.add("n", 3) == 5


def test_what_compares_ranks_finds_no_difference(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "vramscope_compares_ranks"
    (tmp_path / f"{name}.py").write_text("def same(x):\n    raise RuntimeError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(simulated_ranks, "AGREEMENTS", {name: ("same", "absent")})
    simulated_ranks.agree()
    module: Any = __import__(name)
    assert module.same(1) is None and not hasattr(module, "absent")
