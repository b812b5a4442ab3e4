"""A recipe of torchtune's as it comes, with made-up weights and data, for budget's tests: prints the peak of each step.

  python torchtune_recipe.py lora_finetune_distributed llama3_1/70B_lora.yaml 2048 8     a row of recipes.jsonl
  python torchtune_recipe.py full_finetune_distributed llama3_1/8B_full.yaml 4096 8 dataset.packed=True

Other ranks are a fake process group. torchtune's recipe, model, loss and sharding, torchao's NF4Tensor, bitsandbytes and
PyTorch's allocator run; state in managed memory is in host memory here.
"""
import importlib.util
import os
import sys
import types

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from standin import told

recipe, file, seq, world = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
changes = sys.argv[5:]


class Nothing:
    def __init__(self, *args, **kwargs):
        pass


def newer_torchao():
    """Puts names where torchtune 0.6.1 looks for them."""
    import torchao.dtypes
    import torchao.quantization
    from torchao.quantization.quantize_.workflows.nf4 import nf4_tensor
    sys.modules["torchao.dtypes.nf4tensor"] = nf4_tensor
    for module, names in ((torchao.dtypes, ["TensorCoreTiledLayout"]),
                          (torchao.quantization, ["int4_weight_only", "int8_dynamic_activation_int4_weight"])):
        for name in names:
            if not hasattr(module, name):
                setattr(module, name, Nothing)


def in_host_memory():
    """bitsandbytes' managed memory, which the device hasn't."""
    import bitsandbytes.functional as f

    def paged(*shape, dtype=torch.float32, device=None):
        t = torch.empty(*shape, dtype=dtype)
        t.is_paged, t.page_deviceid = True, 0
        return t
    f.get_paged, f.prefetch_tensor = paged, lambda *args, **kwargs: None
    f.GlobalPageManager.prefetch_all = lambda *args, **kwargs: None


newer_torchao()
in_host_memory()
if world > 1:
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(world), MASTER_ADDR="localhost", MASTER_PORT="29511")
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    dist.init_process_group = lambda *args, **kwargs: None
sys.modules["recipes"] = types.ModuleType("recipes")  # what comes with torchtune refuses to be imported
from omegaconf import OmegaConf  # noqa: E402
import torchtune  # noqa: E402
from torchtune import config, training  # noqa: E402

recipes = os.path.join(os.path.dirname(os.path.dirname(torchtune.__file__)), "recipes")
spec = importlib.util.spec_from_file_location("recipe", os.path.join(recipes, recipe + ".py"))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
cfg = OmegaConf.merge(OmegaConf.load(os.path.join(recipes, "configs", file)), OmegaConf.from_dotlist(changes))
cfg.max_steps_per_epoch, cfg.epochs = 3, 1
cfg.metric_logger = {"_component_": "torchtune.training.metric_logging.StdoutLogger"}
packed = bool(cfg.dataset.get("packed", False))


class Tokenizer:
    pad_id, max_seq_len = 0, seq


class Checkpointer:
    def load_checkpoint(self):
        return {"model": {}}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        if packed:
            t = torch.ones(seq, dtype=torch.long)
            return dict(tokens=t, labels=t, input_pos=torch.arange(seq), seq_lens=torch.tensor([seq // 4] * 4))
        return dict(tokens=[1] * seq, labels=[1] * seq)


instantiate = config.instantiate


def made_up(node, *args, **kwargs):
    name = (node or {}).get("_component_", "").lower()
    for part, class_ in (("checkpointer", Checkpointer), ("datasets", Data), ("tokenizer", Tokenizer)):
        if part in name:
            return class_()
    return instantiate(node, *args, **kwargs)


def empty(model, weights, device, cpu_offload=False, **kwargs):
    for m in model.modules():
        for name, p in list(m._parameters.items()):
            if p is not None and p.device.type == "meta":
                there = "cpu" if cpu_offload else device
                m._parameters[name] = torch.nn.Parameter(torch.empty_like(p, device=there), p.requires_grad)
    return torch.nn.modules.module._IncompatibleKeys([], [])


config.instantiate, training.load_from_full_model_state_dict = made_up, empty
torch.nn.Module.load_state_dict = lambda *args, **kwargs: torch.nn.modules.module._IncompatibleKeys([], [])
for name in ("validate_missing_and_unexpected_for_lora", "validate_state_dict_for_lora"):
    setattr(module, name, lambda *args, **kwargs: None)
r = next(c for n, c in vars(module).items() if isinstance(c, type) and c.__module__ == "recipe")(cfg)
r.setup(cfg=cfg)


class Scheduler:
    steps = 0

    def step(self):
        told(self.steps)
        self.steps += 1


r._lr_scheduler = Scheduler()
r.save_checkpoint = lambda *args, **kwargs: None
r.train()
os._exit(0)
