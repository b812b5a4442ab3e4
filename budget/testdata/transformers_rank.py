"""One rank of a training of Transformers' own models, for budget's tests: prints the peak of its third step and what is reserved by then.

  python transformers_rank.py --config qwen3.json --how fsdp2 --mixed --own-units
                                                                             shards over 8 ranks, as Accelerate makes them
  python transformers_rank.py --config mistral.json --how fsdp1 --mixed --accumulate 4
  python transformers_rank.py --config gpt2.json --how ddp --mixed           whole copies
  python transformers_rank.py --config qwen2.json --how zero1 --accumulate 4 DeepSpeed's ZeRO
  python transformers_rank.py --config qwen3.json --how tp --world 4         the model's own plan
  python transformers_rank.py --config mistral.json --how zero3 --lora 16 --checkpoint

The other ranks are a fake process group, and the device keeps the books of an H100 80GB, as for distributed_rank.py. Models are
wrapped by hand as Accelerate 1.15 does it: a unit for each block, a root with the embeddings and the head, which --own-units makes
units of their own as Accelerate does with FSDP2 (a loop of one's own needn't), autocast with float32 outputs except with FSDP2, gradients reduced in 16 bits, no_sync before a step's last micro-batch.
"""
import argparse
import contextlib
import functools
import json
import os
from types import MethodType

import torch
import torch._dynamo  # before DeepSpeed replaces what it looks at
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from standin import alone, answer, told

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, default in dict(batch=2, seq=2048, world=8, shards=0, accumulate=1, lora=0, steps=3).items():
    arguments.add_argument("--" + name, type=int, default=default)
for name in ("mixed", "fp32", "checkpoint", "reentrant", "clip", "fused", "adam8", "offload", "keep-gathered", "bucket-view", "sync-each", "reduce32", "own-units"):
    arguments.add_argument("--" + name, action="store_true")
arguments.add_argument("--how", choices=["ddp", "fsdp1", "fsdp2", "tp", "zero1", "zero2", "zero3"], required=True)
arguments.add_argument("--attention", default="sdpa")
arguments.add_argument("--config", required=True, help="a config.json with a model_type")
arguments.add_argument("--snapshot", help="write the recording here, too")
o = arguments.parse_args()


def model(device):
    fields = json.load(open(o.config))
    kind = fields.pop("model_type")
    fields.pop("architectures", None)
    config = AutoConfig.for_model(kind, **fields)
    config._attn_implementation, config.use_cache = o.attention, False
    auto = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    with device:
        m = auto.from_config(config, dtype=torch.float32 if o.mixed or o.fp32 else torch.bfloat16)
    m.train()
    if o.checkpoint:
        m.gradient_checkpointing_enable({"use_reentrant": o.reentrant})
    if o.lora:
        from peft import LoraConfig, get_peft_model
        if o.checkpoint:
            m.enable_input_require_grads()
        how = LoraConfig(r=o.lora, lora_alpha=2 * o.lora, target_modules="all-linear", task_type="CAUSAL_LM")
        m = get_peft_model(m, how, autocast_adapter_dtype=o.how.startswith("zero"))
    return m


def blocks_of(m):
    lists = [x for x in m.modules() if isinstance(x, torch.nn.ModuleList)]
    return max(lists, key=lambda x: sum(p.numel() for p in x.parameters()))


def optimizer(ps):
    if o.adam8:
        import bitsandbytes
        return bitsandbytes.optim.AdamW8bit(ps)
    return torch.optim.AdamW(ps, fused=o.fused, foreach=not o.fused)


def batch():
    x = torch.zeros(o.batch, o.seq, dtype=torch.long, device="cuda")
    return {"input_ids": x, "labels": x.clone()}


def loss_of(m):
    answer(1)  # to "may the mask be left out?"
    loss = m(**batch()).loss
    answer(0)
    return loss


def autocast(m):
    """As Accelerate wraps a model's forward."""
    from accelerate.utils import convert_outputs_to_fp32
    if o.mixed:
        m.forward = MethodType(torch.autocast("cuda", torch.bfloat16)(m.forward.__func__), m)
        m.forward = MethodType(convert_outputs_to_fp32(m.forward.__func__), m)


def ddp(m):
    autocast(m)
    # nobody answers which buckets others have: without this they are made anew in the second step
    m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[0], init_sync=False, find_unused_parameters=True,
                                                  gradient_as_bucket_view=o.bucket_view)
    m._set_ddp_sink_clone(False)  # which would come with it

    def reduced(state, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done
    m.register_comm_hook(None, reduced)
    return m, m.no_sync


def fsdp1(m):
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    autocast(m)
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={type(blocks_of(m)[0])})
    if o.lora:
        from peft.utils.other import fsdp_auto_wrap_policy
        policy = fsdp_auto_wrap_policy(m)
    low = torch.bfloat16
    how = MixedPrecision(param_dtype=low, reduce_dtype=torch.float32 if o.reduce32 else low, buffer_dtype=low) if o.mixed else None
    if o.offload:
        m = m.to("cpu")
    m = FullyShardedDataParallel(
        m, auto_wrap_policy=policy, mixed_precision=how, use_orig_params=True, device_id=0, cpu_offload=CPUOffload(o.offload),
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if o.keep_gathered else ShardingStrategy.FULL_SHARD)
    return m, m.no_sync


def fsdp2(m):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    shape = (o.world // o.shards, o.shards) if o.shards else (o.world,)
    how = {"mesh": init_device_mesh("cuda", shape, mesh_dim_names=("replicate", "shard")[-len(shape):]),
           "reshard_after_forward": not o.keep_gathered}
    if o.mixed:
        low = torch.bfloat16
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32 if o.reduce32 else low, output_dtype=low)
    if o.offload:
        how["offload_policy"] = CPUOffloadPolicy()
    for b in blocks_of(m):
        fully_shard(b, **how)
    if o.own_units:  # as fsdp2_prepare_model of Accelerate 1.15 makes them
        embed, head, norm = m.get_input_embeddings(), m.get_output_embeddings(), m.model.norm
        tied = embed.weight is head.weight
        if not tied:
            fully_shard(embed, **how)
        fully_shard([norm, embed, head] if tied else [norm, head], **{**how, "reshard_after_forward": False})
        how.pop("reshard_after_forward")
    fully_shard(m, **how)

    @contextlib.contextmanager
    def no_sync():
        m.set_requires_gradient_sync(False)
        yield
        m.set_requires_gradient_sync(True)
    return m, no_sync


def tp(m):
    from torch.distributed.device_mesh import init_device_mesh
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism
    mesh = init_device_mesh("cuda", (o.world,), mesh_dim_names=("tp",))
    apply_tensor_parallelism(m, mesh, m._expand_parallel_plan(m.tp_plan))
    return m, None


def train():
    m, no_sync = {"ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2, "tp": tp}[o.how](model(torch.device("cuda")))
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    ps = [p for p in m.parameters() if p.requires_grad]
    kinds = {type(p) for p in ps}  # foreach takes no DTensors beside others
    opts = [optimizer([p for p in ps if type(p) is k]) for k in kinds]
    for step in range(o.steps):
        for i in range(o.accumulate):
            last = i == o.accumulate - 1 or o.sync_each
            with contextlib.nullcontext() if last else no_sync():
                loss = loss_of(m)
                if o.accumulate > 1:
                    loss = loss / o.accumulate
                loss.backward()
        if o.clip:
            m.clip_grad_norm_(1.0) if o.how == "fsdp1" else torch.nn.utils.clip_grad_norm_(ps, 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        told(step)


def zero():
    import deepspeed
    alone()
    config = {"train_micro_batch_size_per_gpu": o.batch, "gradient_accumulation_steps": o.accumulate, "bf16": {"enabled": True},
              "zero_optimization": {"stage": int(o.how[-1]), "overlap_comm": False, "contiguous_gradients": True},
              "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    partly = deepspeed.zero.Init(config_dict_or_path=config) if o.how == "zero3" else contextlib.nullcontext()
    m = model(partly)
    opt = optimizer([p for p in m.parameters() if p.requires_grad])
    engine, *_ = deepspeed.initialize(model=m, optimizer=opt, config=config)
    for step in range(o.steps):
        for i in range(o.accumulate):
            engine.backward(loss_of(engine))
            engine.step()
        told(step)


def main():
    torch.cuda.set_device(0)
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(o.world))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=o.world)
    if o.snapshot:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    (zero if o.how.startswith("zero") else train)()
    if o.snapshot:
        torch.cuda.memory._dump_snapshot(o.snapshot)
    os._exit(0)


main()
