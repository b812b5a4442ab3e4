"""The simulated GPU under PyTorch's own CUDA wheels.

Skipped unless VRAMSCOPE_SIMULATED_TORCH names Pythons that have one each, with colons between; `.ci/nightly` installs some.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Tuple

import pytest
from conftest import Lab

PYTHONS = [p for p in os.environ.get("VRAMSCOPE_SIMULATED_TORCH", "").split(":") if p]
pytestmark = [
    pytest.mark.skipif(not PYTHONS, reason="VRAMSCOPE_SIMULATED_TORCH names no Python"),
    pytest.mark.parametrize("python", PYTHONS),
]

TRAIN = """
import torch, torch.nn as nn, torch.nn.functional as F
class Block(nn.Module):
    def __init__(self, d=512):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm(x))))
model = nn.Sequential(nn.Embedding(8000, 512), *[Block() for _ in range(4)], nn.Linear(512, 8000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    x = torch.randint(0, 8000, (8, 257), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

# Peaks of allocated and reserved memory on an A100, by PyTorch's version.
PEAKS: Dict[str, Tuple[int, int]] = {}

VALUES = """
import json, torch
big = torch.randn(1000, 1000, device="cuda", dtype=torch.bfloat16)
finite = torch.isfinite(big.amax()).logical_and(torch.isfinite(big.amin()))
step = torch.tensor(3.0).cuda()
step += 1
table = torch.linspace(0, 1, 11, device="cuda")
said = {
    "finite": [bool(torch.isfinite(big).all()), bool((~torch.isfinite(big)).any()), bool(finite.logical_not())],
    "compared": [bool((big > 0).all()), bool((big >= 0).all()), bool(torch.isnan(big).any())],
    "step": step.item(),
    "where": (table == table[4]).nonzero().item(),
    "sum": (torch.arange(10, device="cuda") > 5).sum().item(),
}
logits = torch.nn.Linear(8, 6).cuda()(torch.randn(4, 8, device="cuda"))
action = torch.distributions.Categorical(logits=logits, validate_args=True).sample()
said["action"] = action.tolist()
assert (logits > 1).all(), "passed, as on a GPU it would have been"
layer = torch.nn.Linear(8, 8).cuda()
torch.softmax(layer(torch.randn(2, 8, device="cuda")), -1).sum().backward()
torch.manual_seed(5)
torch.nn.functional.dropout(torch.ones(4, device="cuda")), torch.randint(0, 9, (3,), device="cuda"), torch.rand(2, device="cuda")
said["host"] = torch.randint(0, 1000, (2,)).tolist()
torch.manual_seed(5)
said["host"] = said["host"] == torch.randint(0, 1000, (2,)).tolist()
print(json.dumps(said))
"""

RELOADED = """
import io, json, torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def step():
    model(torch.randn(4, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
for _ in range(3): step()
file = io.BytesIO()
torch.save(optimizer.state_dict(), file)
file.seek(0)
optimizer.load_state_dict(torch.load(file, map_location="cuda"))
others = [torch.zeros(1, device="cuda") for _ in range(40000)]
step()
print(json.dumps([state["step"].item() for state in optimizer.state.values()]))
"""

MESH = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
mesh = init_device_mesh("cuda", (64, 8), mesh_dim_names=("dp", "tp"))
for name in ("dp", "tp"):
    group = mesh.get_group(name)
    part = torch.zeros(4, device="cuda")
    dist.all_gather_into_tensor(torch.zeros(4 * group.size(), device="cuda"), part, group=group)
    print(name, group.size(), dist.get_rank(group))
"""


AGAIN = """
import torch
from torch.utils.checkpoint import checkpoint
groups = torch.arange(64).repeat(2).cuda()
weight = torch.nn.Parameter(torch.ones(64, 64, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=1.0)
def layer(x):
    print(int((groups == 0).sum()))
    y = x @ weight
    return (y * y).sum() if (groups == 0).sum() > 1 else y.sum()
while True:
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    checkpoint(layer, x, use_reentrant=False).backward()
    for _ in range(3):  # one for each sub-group
        optimizer.step()
"""


def run(lab: Lab, python: str, program: str, *flags: str) -> Any:
    path = lab.write("program.py", program)
    r = lab.run("", "--simulate", "A100 40GB", *flags, command=[python, str(path)], PYTHONPATH="")
    assert r.code == 0, r.stderr
    return r


def test_a_training_takes_what_it_took(lab: Lab, python: str) -> None:
    r = run(lab, python, TRAIN)
    stats = r.processes[0]["memory_stats"]["0"]
    version = ".".join(r.record["environment"]["torch"].split(".")[:2])
    peaks = stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"]
    assert PEAKS.get(version, peaks) == peaks
    assert r.record["environment"]["simulated"]["assumptions"] == []


def test_values_that_programs_need(lab: Lab, python: str) -> None:
    said = json.loads(run(lab, python, VALUES).stdout.splitlines()[-1])
    assert all(0 <= action < 6 for action in said.pop("action"))
    assert said == {"finite": [True, False, False], "compared": [False, True, False], "step": 4.0, "where": 4, "sum": 4,
                    "host": True}  # fmt: skip


def test_reloaded_steps_are_counted_on_the_device(lab: Lab, python: str) -> None:
    r = run(lab, python, RELOADED, "--steps", "end")
    assert json.loads(r.stdout.splitlines()[-1]) == [4.0, 4.0]
    assert r.record["environment"]["simulated"]["assumptions"] == []


def test_a_rank_alone_in_a_mesh(lab: Lab, python: str) -> None:
    r = run(lab, python, MESH, "--world-size", "512", "--rank", "11")
    assert r.stdout.splitlines()[-2:] == ["dp 64 1", "tp 8 3"]


def test_layers_that_run_again_have_values_and_steps_have_passes(lab: Lab, python: str) -> None:
    r = run(lab, python, AGAIN)
    assert r.stdout.split() == ["2"] * 6  # three steps, each with a forward pass and a layer that is run again
