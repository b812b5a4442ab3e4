"""The recorder in a real PyTorch.

Skipped unless VRAMSCOPE_REAL_TORCH is a command that runs another one with a Python (named `python`) that has
PyTorch with a CUDA device, or something that passes for one: `env` on a machine with a GPU.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import signal
import subprocess
from typing import List

import pytest
import vramscope
from conftest import Done, Lab
from vramscope._binary import find

REAL = shlex.split(os.environ.get("VRAMSCOPE_REAL_TORCH", ""))
pytestmark = pytest.mark.skipif(not REAL, reason="VRAMSCOPE_REAL_TORCH names no command")

MODEL = """
import os, signal, sys, torch, torch.nn as nn
from torch.utils.checkpoint import checkpoint  # noqa
def model(n=4, size=512):
    return nn.Sequential(*[nn.Linear(size, size) for _ in range(n)]).cuda()
def train(m, steps, batch=64, keep=None):
    o = torch.optim.AdamW(m.parameters())
    for _ in range(steps):
        loss = m(torch.randn(batch, 512, device="cuda")).relu().pow(2).mean()
        loss.backward(); o.step(); o.zero_grad()
        if keep is not None: keep.append(loss)
"""


def run(lab: Lab, program: str, *flags: str, command: "List[str] | None" = None, **env: str) -> Done:
    path = lab.write("program.py", MODEL + program)
    command = [part.replace("PROGRAM", str(path)) for part in command or ["python", "PROGRAM"]]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    line = [*REAL, find(), "run", "-o", str(lab.out), *flags, "--", *command]
    done = subprocess.run(line, capture_output=True, env={**environment, **env}, cwd=lab.folder, timeout=550)
    return Done(lab.out, done)


def test_plain_loop(lab: Lab) -> None:
    r = run(lab, "m = model(); train(m, 4); print(torch.cuda.memory_allocated())")
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr
    plain = subprocess.run([*REAL, "python", str(lab.folder / "program.py")], capture_output=True, cwd=lab.folder)
    assert r.stdout == plain.stdout.decode()


def test_graph_of_a_kept_loss(lab: Lab) -> None:
    r = run(lab, """
class Trainer:
    def __init__(self): self.losses = []
    def fit(self):
        m = model(); o = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(4):
            loss = m(torch.randn(64, 512, device="cuda")).relu().pow(2).mean()
            self.losses.append(loss)
            loss.backward(retain_graph=True); o.step(); o.zero_grad()
Trainer().fit()
""", "--steps", "4")  # fmt: skip
    held = r.holders("step")["fit().self.losses"]
    assert len(held["tensors"]) >= 3 and len(held["graph"]) >= 3 * 4, held


def test_part_of_what_is_kept(lab: Lab) -> None:
    """A slice keeps all of its tensor; a tensor that another variable holds, too, is kept whole anyhow."""
    r = run(lab, """
class Index:
    def __init__(self): self.last, self.whole = [], []
m = model(); index = Index()
def main():
    for _ in range(6):
        with torch.no_grad(): y = m(torch.randn(1024, 512, device="cuda"))
        index.last.append(y[-1:])
    index.whole.append(torch.randn(1024, 512, device="cuda")); index.view = index.whole[0][:8]
main()
""")
    assert r.code == 0, r.stderr
    leak = vramscope.analyze(lab.out, source=lab.folder).json["devices"][0]["leaks"][0]
    assert [(h["path"], h["shown_bytes"] * 1024) for h in leak["holders"]] == [("main.index.last", leak["holders"][0]["bytes"])]
    assert "index.last.append(y[-1:].clone())" in leak["fix_code"]


def test_out_of_memory_in_forward(lab: Lab) -> None:
    r = run(lab, "def go():\n    kept = [torch.empty(1 << 28, device='cuda') for _ in range(10**6)]\ngo()")
    assert r.code == 1 and "OutOfMemoryError" in r.stderr
    assert r.why == [["oom"]]


def test_out_of_memory_in_backward(lab: Lab) -> None:
    """The observer runs on autograd's thread; the variables are on the main one."""
    r = run(lab, """
def go():
    fits = []
    x = torch.randn(1 << 14, 1 << 14, device="cuda", requires_grad=True)
    y = x * x
    try:
        while True: fits.append(torch.empty(1 << 26, device="cuda"))
    except torch.OutOfMemoryError: pass
    fits.pop()
    y.sum().backward()
go()
""")
    assert r.code == 1, r.stderr
    assert r.why == [["oom", "oom"]]
    last = [d["file"] for d in r.processes[0]["dumps"]][-1]
    assert "go().fits" in (lab.out / last.replace(".pickle.gz", ".holders.json")).read_text()


def test_caught_and_retried(lab: Lab) -> None:
    r = run(lab, """
for size in (1 << 40, 1 << 20):
    try: x = torch.empty(size, device="cuda"); print(size)
    except torch.OutOfMemoryError: pass
""")
    assert (r.code, r.stdout, r.why) == (0, f"{1 << 20}\n", [["oom", "exit"]])


def test_torchrun(lab: Lab) -> None:
    r = run(lab, """
import torch.distributed as dist
dist.init_process_group("gloo"); train(model(), 3); dist.destroy_process_group()
""", command=["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "PROGRAM"])  # fmt: skip
    assert r.code == 0, r.stderr
    assert [(p["rank"], [d["why"] for d in p["dumps"]]) for p in r.processes] == [(0, ["exit"]), (1, ["exit"])]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader(lab: Lab, method: str) -> None:
    r = run(lab, f"""
if __name__ == "__main__":
    data = torch.utils.data.DataLoader([torch.zeros(512)] * 32, batch_size=8, num_workers=2, multiprocessing_context="{method}")
    m = model()
    for batch in data: m(batch.cuda())
""")
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr


def test_accelerate(lab: Lab) -> None:
    pytest.importorskip("accelerate") if REAL == ["env"] else None
    r = run(lab, """
from accelerate import Accelerator
a = Accelerator(); m = model(); o = torch.optim.AdamW(m.parameters()); m, o = a.prepare(m, o)
for _ in range(3):
    a.backward(m(torch.randn(8, 512, device=a.device)).mean()); o.step(); o.zero_grad()
""", command=["python", "-m", "accelerate.commands.launch", "--num_processes", "1", "PROGRAM"])  # fmt: skip
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr


def test_hf_trainer(lab: Lab) -> None:
    r = run(lab, """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
m = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=64))
ids = torch.zeros(32, dtype=torch.long)
data = [{"input_ids": ids, "labels": ids}] * 16
a = TrainingArguments("hf", max_steps=4, per_device_train_batch_size=2, report_to=[], save_strategy="no", disable_tqdm=True)
Trainer(m, a, train_dataset=data).train()
""", "--steps", "3")  # fmt: skip
    assert r.code == 0, r.stderr
    assert r.why == [["step", "exit"]]
    labels = next(lab.out.glob("*-step.labels.json")).read_text()
    assert "transformer.h.1.mlp.c_fc.weight.exp_avg_sq" in labels


def test_own_sitecustomize(lab: Lab) -> None:
    lab.write("own/sitecustomize.py", "import os\nos.environ['MINE'] = '1'\n")
    r = run(lab, "model(); print(os.environ['MINE'])", command=["env", f"PYTHONPATH={lab.folder / 'own'}", "sh", "-c",
            f"exec env PYTHONPATH={lab.out / '.hook' / 'path'}:$PYTHONPATH python PROGRAM"])  # fmt: skip
    assert (r.code, r.stdout, r.why) == (0, "1\n", [["exit"]]), r.stderr


def test_records_itself(lab: Lab) -> None:
    r = run(lab, """
torch.cuda.memory._record_memory_history(max_entries=1000)
m = model(); train(m, 2)
torch.cuda.memory._dump_snapshot("mine.pickle")
torch.cuda.memory._record_memory_history(enabled=None)
train(m, 2)
""")
    assert (r.code, r.why) == (0, [["stop", "exit"]]), r.stderr
    assert b"peaked" in subprocess.run([find(), "analyze", "-q", str(lab.folder / "mine.pickle")], capture_output=True).stdout


def test_os_exit(lab: Lab) -> None:
    r = run(lab, "m = model(); train(m, 2); os._exit(5)")
    assert (r.code, r.why) == (5, [["exit"]]), r.stderr


def test_sigterm(lab: Lab) -> None:
    r = run(lab, "def go():\n    batch = torch.zeros(1 << 20, device='cuda')\n    os.kill(os.getpid(), signal.SIGTERM)\ngo()")
    assert (r.code, r.why) == (-signal.SIGTERM, [["signal"]]), r.stderr
    assert "go().batch" in r.holders("signal")


def test_nested(lab: Lab) -> None:
    r = run(lab, "", command=["sh", "-c", "python -c 'import subprocess, sys; sys.exit(subprocess.call([sys.executable, "
                              "\"-c\", \"import torch; x = torch.zeros(9, device=chr(99)+chr(117)+chr(100)+chr(97))\"]))'"])  # fmt: skip
    assert (r.code, r.why) == (0, [["exit"]]), r.stderr


def test_other_allocator(lab: Lab) -> None:
    r = run(lab, "m = model(); train(m, 2)", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    if "OutOfMemoryError" in r.stderr or r.code:
        pytest.skip("the device has no cudaMallocAsync")
    assert r.processes[0]["recording"] == "unavailable"
    assert "keeps no history" in r.stderr


CALLBACKS = {
    "transformers": """
import vramscope
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
m = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=64))
ids = torch.zeros(32, dtype=torch.long)
a = TrainingArguments("hf", max_steps=6, per_device_train_batch_size=2, report_to=[], save_strategy="no", disable_tqdm=True)
Trainer(m, a, train_dataset=[{"input_ids": ids, "labels": ids}] * 16, callbacks=[vramscope.callbacks.HFTrainer("out", steps=4)]).train()
""",
    "accelerate": """
import accelerate, vramscope
a = accelerate.Accelerator(log_with=vramscope.callbacks.Accelerate("out", steps=4))
m = model(); o = torch.optim.AdamW(m.parameters()); m, o = a.prepare(m, o)
a.init_trackers("project")
for i in range(6):
    loss = m(torch.randn(8, 512, device=a.device)).mean(); a.backward(loss); o.step(); o.zero_grad(); a.log({"loss": 0.0}, step=i)
a.end_training()
""",
    "lightning": """
import lightning, vramscope
class Module(lightning.LightningModule):
    def __init__(self): super().__init__(); self.net = nn.Linear(64, 64); self.kept = []
    def training_step(self, batch, i): loss = self.net(batch).pow(2).mean(); self.kept.append(loss); return loss
    def configure_optimizers(self): return torch.optim.AdamW(self.parameters())
data = torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=8)
lightning.Trainer(max_steps=6, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                  callbacks=[vramscope.callbacks.Lightning("out", steps=4)]).fit(Module(), data)
""",
}


@pytest.mark.parametrize("library", sorted(CALLBACKS))
def test_callbacks(lab: Lab, library: str) -> None:
    """They record the first steps of a training that isn't started by `vramscope run`."""
    if subprocess.run([*REAL, "python", "-c", f"import {library}"], capture_output=True).returncode:
        pytest.skip(f"no {library}")
    path = lab.write("program.py", MODEL + CALLBACKS[library])
    env = {**os.environ, "PYTHONPATH": str(pathlib.Path(vramscope.__file__).parents[1]), "CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run([*REAL, "python", str(path)], capture_output=True, env=env, cwd=lab.folder, timeout=550)
    assert done.returncode == 0, done.stderr.decode()
    assert len(list(lab.out.glob("*-step.pickle.gz"))) == len(list(lab.out.glob("*.pickle.gz"))) == 1
    (device,) = vramscope.analyze(lab.out).devices
    assert device["history"] == "late"  # the trainers put the model on the GPU before they call
    assert len(device["steps"]) >= 3
    if library == "lightning":
        assert any(h["path"].endswith(".kept") for h in device["holders"])
