"""One rank of a QLoRA training as torchtune's lora_finetune_distributed does it, for budget's tests: prints the peak of its third step.

  python torchtune_rank.py                        FSDP2 over 8, each layer a unit, its NF4Tensors gathered as they are
  python torchtune_rank.py --bits 16              LoRA
  python torchtune_rank.py --checkpointing

The other ranks are a fake process group. torchtune's Llama, torchao's NF4Tensor, PyTorch's FSDP2 and allocator run.
"""
import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper as ptd_checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from standin import told

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, default in dict(dim=4096, layers=4, heads=32, kv=8, ffn=14336, vocab=32000, batch=2, seq=2048, rank=16, steps=3, bits=4,
                          world=8).items():
    arguments.add_argument("--" + name, type=int, default=default)
arguments.add_argument("--checkpointing", action="store_true")
arguments.add_argument("--snapshot", help="write the recording here, too")
o = arguments.parse_args()


def main():
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(o.world))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=o.world)
    from torch.distributed.fsdp import fully_shard
    from torchao.quantization.quantize_.workflows.nf4 import nf4_tensor
    sys.modules["torchao.dtypes.nf4tensor"] = nf4_tensor  # where torchtune 0.6.1 looks for it
    from torchtune.models.llama3._component_builders import lora_llama3
    from torchtune.modules.peft import get_adapter_params, set_trainable_params
    if o.snapshot:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        m = lora_llama3(["q_proj", "k_proj", "v_proj", "output_proj"], apply_lora_to_mlp=True, vocab_size=o.vocab, num_layers=o.layers,
                        num_heads=o.heads, num_kv_heads=o.kv, embed_dim=o.dim, max_seq_len=o.seq, intermediate_dim=o.ffn,
                        lora_rank=o.rank, lora_alpha=o.rank, quantize_base=o.bits == 4)
    set_trainable_params(m, get_adapter_params(m))
    if o.checkpointing:  # training/_activation_checkpointing.py: the whole layer
        for i, b in enumerate(m.layers):
            m.layers[i] = ptd_checkpoint_wrapper(b, preserve_rng_state=False)
    mesh = init_device_mesh("cuda", (o.world,))
    for b in m.layers:
        fully_shard(b, mesh=mesh, reshard_after_forward=True)
    fully_shard(m, mesh=mesh, reshard_after_forward=True)  # as training/_distributed.py does: the unit outside of the layers goes, too
    torch.cuda.empty_cache()
    print("loaded", torch.cuda.memory_stats()["requested_bytes.all.current"])
    opt = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], fused=True)
    for step in range(o.steps):
        x = torch.zeros(o.batch, o.seq, dtype=torch.long, device="cuda")
        y = torch.zeros_like(x)
        logits = m(x)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten(0, 1))
        del logits
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        told(step)
    if o.snapshot:
        torch.cuda.memory._dump_snapshot(o.snapshot)
    os._exit(0)


main()
