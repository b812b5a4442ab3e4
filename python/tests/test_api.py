"""The package: what a notebook or a script uses."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest
import vramscope
from conftest import HERE, Lab

RECORDING = HERE.parent.parent / "testdata" / "recordings" / "qwen_vocab_oom__05b" / "snapshot_all.pickle.gz"

STUBBED = """
import sys
sys.path.insert(0, {package!r})
import torch, vramscope
"""


def inside(lab: Lab, program: str) -> str:
    """Runs a program that uses the package with the stand-in for PyTorch, and returns what it prints."""
    package = str(pathlib.Path(vramscope.__file__).parent.parent)
    done = lab.plain(sys.executable, "-c", STUBBED.format(package=package) + program)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_report() -> None:
    r = vramscope.analyze(RECORDING)
    assert r.verdict["severity"] == "critical" and "Out of memory" in r.verdict["text"] and str(r) == r.verdict["text"]
    assert r.devices[0]["ooms"][0]["verdict"] == "true_shortage"
    assert {"device": 0, "id": "oom_true_shortage"}.items() <= {k: r.findings[0][k] for k in ("device", "id")}.items()
    assert "Out of memory" in r.text()


def test_options_are_flags() -> None:
    r = vramscope.analyze(str(RECORDING), gpu="90GiB", title="a title", note=["a=b", "c=d"], redact=True)
    assert r.json["title"] and len(r.json["notes"]) == 2
    assert "qwen_sft" not in str(r.json)


def test_a_short_page() -> None:
    """A cell's output stays small, and nothing of a program becomes HTML."""
    r = vramscope.analyze(RECORDING)
    shown = r._repr_html_()
    assert len(shown) < 60_000 and "<script" not in shown
    assert "logits" in shown and "At the peak" in shown and "Made by" in shown
    r.json["verdict"]["text"] = "<b>" + "x" * 10_000
    r.json["devices"][0]["sites"][0]["function"] = "<img>"
    assert "<b>" not in r._repr_html_() and "<img>" not in r._repr_html_() and len(r._repr_html_()) < 60_000


def test_typed_results() -> None:
    r = vramscope.analyze(RECORDING)
    assert isinstance(r.verdict, vramscope.Verdict) and isinstance(r.findings[0], vramscope.Finding)
    assert r.verdict.severity == r.verdict["severity"] == "critical" and dict(r.verdict)["text"] == str(r.verdict)
    assert repr(r.verdict).startswith("<Verdict critical: Out of memory")
    assert repr(r.findings[0]).startswith("<Finding oom_true_shortage, critical: ") and r.findings[0].device == 0
    with pytest.raises(KeyError):
        r.verdict["keys"]


def test_names_of_the_package() -> None:
    assert set(vramscope.__all__) <= set(dir(vramscope))
    assert all(hasattr(vramscope, name) for name in vramscope.__all__)


@pytest.mark.parametrize("name, text", [("no-such-file", "no-such-file"), (str(HERE / "stub" / "torch" / "nn.py"), "nn.py")])
def test_inputs_that_are_none(name: str, text: str) -> None:
    with pytest.raises(vramscope.AnalysisError, match=text):
        vramscope.analyze(name)


def test_a_path_is_never_a_flag() -> None:
    with pytest.raises(vramscope.AnalysisError, match="--help"):
        vramscope.analyze("--help")
    with pytest.raises(TypeError):
        vramscope.analyze()


def test_tables() -> None:
    pytest.importorskip("pyarrow")
    r = vramscope.analyze(RECORDING)
    table = r.to_arrow("allocations")
    assert table.num_rows == r.devices[0]["allocations"]
    pytest.importorskip("pandas")
    assert len(r.to_pandas("findings")) == len(r.findings)


def test_recording_a_part(lab: Lab) -> None:
    assert inside(lab, """
before = torch.zeros(1 << 20)
with vramscope.recording("out", max_entries=1000):
    inner = torch.zeros(2 << 20)
    inner = None
    kept = torch.zeros(3 << 20)
assert torch.cuda._device.recording is None
r = vramscope.analyze("out")
print(r.devices[0]["at_end"]["allocated_bytes"] >> 20, [h["path"] for h in r.devices[0]["holders"]])
""") == "4 ['main.kept', 'main.before']\n"  # fmt: skip


def test_tables_of_one_recording(lab: Lab) -> None:
    """Of several dumps the one that the verdict is about, or as named."""
    pytest.importorskip("pyarrow")
    inside(lab, """
with vramscope.recording("out") as recorder:
    kept = [torch.zeros(1 << 20)]
    recorder.dump("step")
    kept.append(torch.zeros(1 << 20))
""")
    r = vramscope.analyze(lab.out)
    assert len(r.recordings) == 2
    assert {name: r.to_arrow("allocations", recording=name).num_rows for name in r.recordings} == dict(zip(r.recordings, (1, 2)))
    assert r.to_arrow("allocations").num_rows == 2


def test_recording_twice(lab: Lab) -> None:
    """The second recording of a process isn't one whose ring was too small; a folder is used once."""
    assert inside(lab, """
kept = []
for n in 1, 2:
    with vramscope.recording(f"sec{n}"):
        kept += [torch.zeros(1 << 20) for _ in range(5)]
    print(vramscope.analyze(f"sec{n}").devices[0]["history"])
try:
    with vramscope.recording("sec1"):
        pass
except FileExistsError as e:
    print(e)
""") == "complete\nlate\nsec1: holds a recording already; give another folder\n"  # fmt: skip


def test_what_is_on_the_gpu(lab: Lab) -> None:
    assert inside(lab, """
class Shell:
    def register_magic_function(self, f, magic_kind, magic_name): setattr(self, magic_kind, f)
shell = Shell()
vramscope.load_ipython_extension(shell)
shell.line("")
kept, model = [torch.zeros(3 << 20)], torch.nn.Module()
model._parameters["w"] = torch.zeros(2 << 20)
import ctypes
ctypes.pythonapi.Py_IncRef(ctypes.py_object(torch.zeros(1 << 20)))  # as an extension holds it
shell.line("")
""") == ("on the GPU: nothing, CUDA isn't up\non the GPU: 6 MiB\n       3 MiB  main.kept[0]\n       2 MiB  weights\n"
         "       1 MiB  others, or nobody that was found\n")  # fmt: skip


def test_recording_that_fails(lab: Lab) -> None:
    assert inside(lab, """
try:
    with vramscope.recording("out"):
        torch.zeros(1 << 50)
except torch.OutOfMemoryError:
    print(len(vramscope.analyze("out").devices[0]["ooms"]))
""") == "1\n"  # fmt: skip


def test_importing_it_loads_little() -> None:
    package = str(pathlib.Path(vramscope.__file__).parent.parent)
    line = f"import sys; sys.path.insert(0, {package!r}); before = set(sys.modules); import vramscope; "
    line += "print(sorted(m for m in set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, check=True)
    loaded = set(ast.literal_eval(done.stdout.decode()))
    assert "vramscope" in loaded and not loaded & {"torch", "subprocess", "json", "tempfile"}
    assert b"vramscope._" not in done.stdout


def test_the_cell_magic(lab: Lab) -> None:
    assert inside(lab, """
class Shell:
    def register_magic_function(self, f, magic_kind, magic_name): self.magic = f if magic_kind == "cell" else self.magic
    def run_cell(self, cell):
        exec(cell, sys.modules["__main__"].__dict__)
        return type("Result", (), {"success": True})
shell = Shell()
vramscope.load_ipython_extension(shell)
report = shell.magic("out", "left = [torch.zeros(1 << 20) for _ in range(3)]")
assert report.devices
assert len(report._repr_html_()) < 60_000
assert shell.magic("out", "x = 1") is None
""") == "left on the GPU: 3 MiB in 3 allocations\n       3 MiB  main.left\nleft on the GPU: nothing\n"  # fmt: skip


def test_the_callback(lab: Lab) -> None:
    lab.write("transformers.py", "class TrainerCallback: pass\n")
    assert inside(lab, """
sys.path.insert(0, ".")
callback = vramscope.callbacks.HFTrainer("out", steps=2)
state = type("State", (), {"global_step": 0})
callback.on_train_begin(None, state, None)
for _ in range(4):
    state.global_step += 1
    kept = torch.zeros(1 << 20)
    callback.on_step_end(None, state, None)
callback.on_train_end(None, state, None)
print(torch.cuda._device.recording)
print(sorted(d["why"] for d in __import__("json").load(open(next(__import__("pathlib").Path("out/.hook/processes").iterdir())))["dumps"]))
""") == "None\n['step']\n"  # fmt: skip


def test_the_tracker(lab: Lab) -> None:
    """As Accelerate calls it."""
    lab.write("accelerate/tracking.py", "class GeneralTracker:\n    def __init__(self, _blank=False):\n        assert self.name\n")
    assert inside(lab, """
sys.path.insert(0, ".")
tracker = vramscope.callbacks.Accelerate("out", steps=2)
tracker.start()
tracker.store_init_configuration({})
for step in range(4):
    kept = torch.zeros(1 << 20)
    tracker.log({"loss": 0.0}, step=step)
tracker.finish()
print(torch.cuda._device.recording, [d["why"] for d in tracker.tracker.dumps])
""") == "None ['step']\n"  # fmt: skip
