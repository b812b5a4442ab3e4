"""litgpt's own finetuning scripts with made-up weights and data, for budget's tests: prints the peak of each step.

  python litgpt_script.py lora Gemma-2b 1024 2 2 bf16-true -      a row of recipes.jsonl: script, model, tokens, sequences of a
                                                                   micro-batch, micro-batches, precision, packing
  python litgpt_script.py lora Qwen2.5-7B 512 4 2 bf16-true - lora_r=16 lora_mlp=True

litgpt's model and loop, Lightning's Fabric, bitsandbytes and PyTorch's allocator run.
"""
import importlib
import os
import sys
from pathlib import Path

import lightning
import torch

from standin import told

script, name, seq, micro, accumulate, precision = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6]
packing = sys.argv[7] if len(sys.argv) > 7 and sys.argv[7] != "-" else None
changes = {k: int(v) if v.isdigit() else v == "True" for k, v in (a.split("=") for a in sys.argv[8:])}
torch.backends.cuda.enable_cudnn_sdp(False)
module = importlib.import_module("litgpt.finetune." + script)
from litgpt.args import EvalArgs, TrainArgs  # noqa: E402

if script == "lora":
    from litgpt.lora import Config
    c = Config.from_name(name, **(dict(lora_r=8, lora_alpha=16, lora_dropout=0.05, lora_query=True, lora_value=True) | changes))
else:
    from litgpt import Config
    c = Config.from_name(name)
plugins = None
if packing:
    import bitsandbytes.functional as f
    from lightning.fabric.plugins import BitsandbytesPrecision

    def paged(*shape, dtype=torch.float32, device=None):  # managed memory, which the device hasn't
        t = torch.empty(*shape, dtype=dtype)
        t.is_paged, t.page_deviceid = True, 0
        return t
    f.get_paged, f.prefetch_tensor = paged, lambda *args, **kwargs: None
    f.GlobalPageManager.prefetch_all = lambda *args, **kwargs: None
    plugins, precision = BitsandbytesPrecision(packing, torch.bfloat16), None


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return micro * accumulate * 3 + micro

    def __getitem__(self, i):
        return torch.ones(seq, dtype=torch.long)


def joined(samples):
    x, one = torch.stack(samples), torch.ones(len(samples), 1, dtype=torch.long)
    return dict(input_ids=x, labels=x, token_counts=dict(raw=one, raw_plus_prompt_template=one))


def loaders(fabric, *args):
    return fabric.setup_dataloaders(*(torch.utils.data.DataLoader(Data(), batch_size=micro, collate_fn=joined) for _ in range(2)))


class Scheduler:
    steps = 0

    def __init__(self, *args, **kwargs):
        pass

    def step(self):
        told(self.steps)
        self.steps += 1
        if self.steps == 3:
            os._exit(0)

    def get_last_lr(self):
        return [0.0]


module.Tokenizer = lambda *args: None
module.get_dataloaders, module.get_lr_scheduler = loaders, Scheduler
module.get_longest_seq_length = lambda *args: (seq, 0)
module.load_checkpoint = module.validate_args = lambda *args, **kwargs: None
fabric = lightning.Fabric(devices=1, precision=precision, plugins=plugins)
train = TrainArgs(save_interval=None, log_interval=1, global_batch_size=micro * accumulate, micro_batch_size=micro,
                  lr_warmup_steps=1, epochs=10, max_seq_length=seq, max_steps=9)
rest = [c, None, Path("."), Path("."), train, EvalArgs(interval=1000, max_new_tokens=100, max_iters=2), "AdamW"]
module.main(fabric, 1, *([None] if script == "full" else []), 1337, *rest)
