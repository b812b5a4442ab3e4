"""What IPython does with cells: each ends with an expression, whose value `Out` keeps."""
import builtins
import sys
import torch, torch.nn as nn

Out = {}
_oh = Out
cells = ["""
model = nn.Sequential(nn.Linear(800, 1600), nn.ReLU(), nn.Linear(1600, 800)).cuda().eval()
def embed(n):
    with torch.no_grad():
        return model(torch.randn(400 + 0 * n, 800).cuda())
"""] + [f"embed({n})" for n in range(24)]

def run_cell(number, text, scope):
    code = compile(text, f"<ipython-input-{number}-{hash(text) & 0xffffffffffff:012x}>", "exec" if number == 1 else "eval")
    value = eval(code, scope)
    if value is not None:
        Out[number] = value
        scope["_"] = value
        scope[f"_{number}"] = value

for number, text in enumerate(cells, 1):
    run_cell(number, text, globals())
