"""One rank of a distributed training, for budget's tests: prints the peak of its third step and what is reserved by then.

  python distributed_rank.py --fsdp --checkpointing op              FSDP2 over 8 ranks
  python distributed_rank.py --fsdp1 --keep-gathered                FSDP with flat parameters, as SHARD_GRAD_OP
  python distributed_rank.py --world 32 --fsdp --replicate 4        shards over 8 ranks, in 4 replicas
  python distributed_rank.py --world 64 --tp 8 --fsdp               tensor parallelism with split sequences
  python distributed_rank.py --pp 4 --rank 0 --micro-batches 8      a stage of a 1F1B pipeline
  python distributed_rank.py --zero 3                               DeepSpeed's ZeRO
  python distributed_rank.py --fsdp --reference                     beside a model that each step runs forward, as DPO's

The other ranks are a fake process group, so one device that keeps the books of an H100 80GB is enough. PyTorch's own FSDP2,
tensor parallelism, pipelining, compiler and allocator run, and DeepSpeed's own engine. The model is Llama as torchtitan
writes it; with --zero, as Transformers does.
"""
import argparse
import os
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore

from standin import alone, answer, told

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, default in dict(dim=4096, layers=4, heads=32, kv=8, ffn=14336, vocab=32000, batch=2, seq=4096, world=8, tp=1, pp=1, rank=0,
                          micro_batches=0, zero=0, replicate=1, cp=1, chunks=2, frozen=0, reduce_bucket=0, prefetch=-1, live=-1, persist=-1, gather_bucket=0, steps=3).items():
    arguments.add_argument("--" + name.replace("_", "-"), type=int, default=default)
for name in ("fsdp", "fsdp1", "keep-gathered", "unlimited", "compile", "float8", "fused", "offload", "step-in-backward", "overlap", "offload-optimizer",
             "float8-all-gather", "precompute", "mxfp8", "emulated", "reference"):
    arguments.add_argument("--" + name, action="store_true")
arguments.add_argument("--checkpointing", default="none", choices=["none", "full", "op"])
arguments.add_argument("--precision", default="bf16-mixed", choices=["bf16", "bf16-mixed", "autocast"])
arguments.add_argument("--reduce-dtype", default="fp32", choices=["fp32", "bf16"])
arguments.add_argument("--compile-mode", default="default", choices=["default", "reduce-overhead"])
arguments.add_argument("--schedule", default="1f1b", choices=["1f1b", "gpipe", "interleaved", "zbv"])
arguments.add_argument("--float8-recipe", default="tensorwise", choices=["tensorwise", "rowwise", "rowwise_with_gw_hp"])
arguments.add_argument("--snapshot", help="write the recording here, too")
o = arguments.parse_args()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = o.dim // o.heads
        self.wq, self.wo = nn.Linear(o.dim, o.dim, bias=False), nn.Linear(o.dim, o.dim, bias=False)
        self.wk, self.wv = (nn.Linear(o.dim, o.kv * self.size, bias=False) for _ in range(2))

    def forward(self, x, f):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, -1, self.size) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, k, f)
        k, v = spread(k, q.shape[2] // k.shape[2]), spread(v, q.shape[2] // v.shape[2])
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(y.transpose(1, 2).contiguous().view(b, t, -1))


def spread(x, n):
    b, t, k, d = x.shape
    return x if n == 1 else x[:, :, :, None, :].expand(b, t, k, n, d).reshape(b, t, k * n, d)


def rotate(q, k, f):
    f = f[: q.shape[1]].view(1, q.shape[1], 1, -1)
    wide = [torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (q, k)]
    return [torch.view_as_real(x * f).flatten(3).type_as(q) for x in wide]


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = nn.Linear(o.dim, o.ffn, bias=False), nn.Linear(o.dim, o.ffn, bias=False)
        self.w2 = nn.Linear(o.ffn, o.dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(o.dim), nn.RMSNorm(o.dim)

    def forward(self, x, f):
        h = x + self.attention(self.attention_norm(x), f)
        return h + self.feed_forward(self.ffn_norm(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(o.vocab, o.dim)
        self.layers = nn.ModuleDict({str(i): Block() for i in range(o.layers)})
        self.norm, self.output = nn.RMSNorm(o.dim), nn.Linear(o.dim, o.vocab, bias=False)
        self.register_buffer("f", torch.ones(o.seq, o.dim // o.heads // 2, dtype=torch.complex64), persistent=False)

    def forward(self, x):
        h = self.tok_embeddings(x) if self.tok_embeddings is not None else x
        for layer in self.layers.values():
            h = layer(h, self.f)
        h = self.norm(h) if self.norm is not None else h
        return self.output(h) if self.output is not None else h


def layers_of(pieces):
    """How many layers each piece of a pipeline has: what is left over goes to those in the middle."""
    n, over = divmod(o.layers, pieces)
    return [n + (1 if 0 < i <= over else 0) for i in range(pieces)]


def piece(i, pieces):
    with torch.device("meta"):
        m = Model()
    counts = layers_of(pieces)
    first = sum(counts[:i])
    for k in list(m.layers):
        if not first <= int(k) < first + counts[i]:
            del m.layers[k]
    if i > 0:
        m.tok_embeddings = None
    if i < pieces - 1:
        m.norm = m.output = None
    return m.to(torch.bfloat16 if o.precision == "bf16" else torch.float32)


def split(m, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)
    column, row, prepare = ColwiseParallel, RowwiseParallel, PrepareModuleInput
    if o.float8:
        from torchao.float8.float8_tensor_parallel import (Float8ColwiseParallel as column, Float8RowwiseParallel as row,
                                                           PrepareFloat8ModuleInput as prepare)
    parallelize_module(m, mesh, {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    for b in m.layers.values():
        parallelize_module(b, mesh, {
            "attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
            "attention": prepare(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)),
            "attention.wq": column(), "attention.wk": column(), "attention.wv": column(),
            "attention.wo": row(output_layouts=Shard(1)),
            "feed_forward": prepare(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed_forward.w1": column(), "feed_forward.w2": row(output_layouts=Shard(1)), "feed_forward.w3": column()})


def checkpoint(m):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    aten = torch.ops.aten
    kept = {aten.mm.default, aten._scaled_dot_product_efficient_attention.default, aten.max.default,
            aten._scaled_dot_product_flash_attention.default, torch.ops._c10d_functional.reduce_scatter_tensor.default}

    def contexts():
        products = defaultdict(int)

        def policy(ctx, op, *args, **kwargs):
            products[ctx.is_recompute] += op == aten.mm.default
            save = op in kept and not (op == aten.mm.default and products[ctx.is_recompute] % 2 == 0)
            return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE
        return create_selective_checkpoint_contexts(policy)
    how = {"context_fn": contexts} if o.checkpointing == "op" else {}
    for k, b in list(m.layers.items()):
        m.layers.register_module(k, checkpoint_wrapper(b, preserve_rng_state=False, **how))


def shard(m, mesh):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    how = {"mesh": mesh}
    if o.precision == "bf16-mixed":
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduced())
    if o.offload:
        how["offload_policy"] = CPUOffloadPolicy()
    blocks = list(m.layers.values())
    for i, b in enumerate(blocks):
        fully_shard(b, reshard_after_forward=i < len(blocks) - 1 and o.pp == 1 and not o.keep_gathered, **how)
    fully_shard(m, reshard_after_forward=o.pp == 1 and not o.keep_gathered, **how)


def reduced():
    return torch.float32 if o.reduce_dtype == "fp32" else torch.bfloat16


def flatten(m, mesh):
    """FSDP as it was first: each block's parameters in one, with what is outside of the blocks in another."""
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    strategy = {(False, False): "FULL_SHARD", (True, False): "SHARD_GRAD_OP", (False, True): "HYBRID_SHARD",
                (True, True): "_HYBRID_SHARD_ZERO2"}[o.keep_gathered, o.replicate > 1]
    how = {"device_mesh": mesh, "sharding_strategy": ShardingStrategy[strategy], "use_orig_params": True,
           "limit_all_gathers": not o.unlimited, "device_id": None if o.offload else 0,
           "param_init_fn": lambda x: x.to_empty(device="cpu" if o.offload else "cuda", recurse=False),
           "cpu_offload": CPUOffload(o.offload)}
    if o.precision == "bf16-mixed":
        how["mixed_precision"] = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=reduced(), cast_root_forward_inputs=False)
    for k, b in list(m.layers.items()):
        m.layers.register_module(k, FullyShardedDataParallel(b, **how))
    return FullyShardedDataParallel(m, **how)


def built(m, mesh):
    """A piece of the model, made ready in torchtitan's order, on the device."""
    if o.float8:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        how = Float8LinearConfig(enable_fsdp_float8_all_gather=True) if o.float8_all_gather else Float8LinearConfig.from_recipe_name(o.float8_recipe)
        if not o.compile:
            torch.exp2 = torch.exp  # which takes as much: the device has no compiler of kernels at run time
        convert_to_float8_training(m, config=how, module_filter_fn=lambda module, name: name != "output")
    if o.mxfp8:
        convert_to_mxfp8(m)
    if o.tp > 1:
        split(m, mesh["tp"])
    for x in [m.tok_embeddings, *m.layers.values()][:o.frozen + 1] if o.frozen else []:
        x.requires_grad_(False)
    if o.checkpointing != "none":
        checkpoint(m)
    if o.compile:
        for k, b in list(m.layers.items()):
            m.layers.register_module(k, torch.compile(b, fullgraph=True, mode=o.compile_mode))
    over = mesh["replicate", "dp"] if o.replicate > 1 else mesh["dp"]
    if o.fsdp1:
        return flatten(m, over)
    if o.fsdp:
        shard(m, over)
    m.to_empty(device="cpu" if o.offload else "cuda")
    if o.offload:
        m.f = torch.ones(o.seq, o.dim // o.heads // 2, dtype=torch.complex64, device="cuda")
    return m


def convert_to_mxfp8(m):
    """As torchtitan's converter, whose kernels want an sm100 device; torchao's wheel has one of them for another Python."""
    from torchao.prototype.moe_training.mxfp8_linear import MXFP8Linear
    from torchao.prototype.mx_formats import kernels
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference
    if not o.emulated and not torch._C._dispatch_has_kernel_for_dispatch_key("torchao::mxfp8_quantize", "CUDA"):
        torch.library.impl("torchao::mxfp8_quantize", "CUDA")(kernels._fake_mxfp8_quantize)
    how = {"kernel_preference": KernelPreference.EMULATED} if o.emulated else {}
    for b in m.layers.values():
        for part in (b.attention, b.feed_forward):
            for name, l in list(part.named_children()):
                if isinstance(l, nn.Linear):
                    with torch.device("meta"):
                        new = MXFP8Linear(l.in_features, l.out_features, bias=False, **how)
                    new.weight = l.weight
                    setattr(part, name, new)


def cross_entropy(logits, y):
    return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten(0, 1))


def batch():
    x = torch.zeros(o.batch, o.seq, dtype=torch.long, device="cuda")
    return x, torch.zeros_like(x)


def optimizers(models):
    ps = [p for m in models for p in m.parameters() if p.requires_grad]
    if not o.step_in_backward:
        return ps, torch.optim.AdamW(ps, fused=o.fused, foreach=not o.fused)
    each = {p: torch.optim.AdamW([p], fused=o.fused) for p in ps}

    def stepped(p):
        each[p].step()
        each[p].zero_grad()
    for p in ps:
        p.register_post_accumulate_grad_hook(stepped)
    return ps, None


def clip_and_step(ps, opt):
    if opt is None:
        return
    if not o.offload and not o.fsdp1:
        torch.nn.utils.clip_grad_norm_(ps, 1.0, foreach=True)
    opt.step()
    opt.zero_grad()


def train(mesh):
    import contextlib
    m = built(piece(0, 1), mesh)
    ps, opt = optimizers([m])
    reference = built(piece(0, 1), mesh).requires_grad_(False) if o.reference else None
    loss_parallel = contextlib.nullcontext
    if o.tp > 1:
        from torch.distributed.tensor.parallel import loss_parallel
    for step in range(o.steps):
        x, y = batch()
        if o.cp > 1:
            from torch.distributed.tensor.experimental import context_parallel
            over = context_parallel(mesh["cp"], buffers=[x, y, m.f], buffer_seq_dims=[1, 1, 0], no_restore_buffers={x, y})
        else:
            over = contextlib.nullcontext()
        with over, loss_parallel():
            with torch.autocast("cuda", torch.bfloat16, enabled=o.precision == "autocast"):
                logits = m(x)
                loss = cross_entropy(logits, y)
                if reference:
                    with torch.no_grad():
                        other = cross_entropy(reference(x), y)
                    loss = loss - other
            del logits
            loss.backward()
        clip_and_step(ps, opt)
        if o.precompute:
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp
            precompute_float8_dynamic_scale_for_fsdp(m)
        told(step)


def pipeline(mesh):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleZBVZeroBubble
    per = {"interleaved": o.chunks, "zbv": 2}.get(o.schedule, 1)
    group = mesh["pp"].get_group()
    stages, models = [], []
    for i in range(per):
        at = o.rank_in_pipeline + i * o.pp
        if o.schedule == "zbv" and i == 1:
            at = 2 * o.pp - 1 - o.rank_in_pipeline
        m = built(piece(at, o.pp * per), mesh)
        models.append(m)
        hidden = torch.empty(o.batch, o.seq, o.dim, device="meta", dtype=torch.bfloat16, requires_grad=True)
        ids = torch.empty(o.batch, o.seq, dtype=torch.long, device="meta")
        logits = torch.empty(o.batch, o.seq, o.vocab, device="meta", dtype=torch.bfloat16, requires_grad=True)
        last = at == o.pp * per - 1
        stages.append(PipelineStage(m, at, o.pp * per, torch.device("cuda"), input_args=ids if at == 0 else hidden,
                                    output_args=logits if last else hidden, group=group))
    ps, opt = optimizers(models)
    n = o.micro_batches or o.pp
    if o.schedule == "zbv":
        schedule = ScheduleZBVZeroBubble(stages, n, loss_fn=cross_entropy)
    elif per > 1:
        schedule = ScheduleInterleaved1F1B(stages, n, loss_fn=cross_entropy)
    else:
        schedule = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[o.schedule](stages[0], n, loss_fn=cross_entropy)
    for step in range(o.steps):
        x = torch.zeros(n * o.batch, o.seq, dtype=torch.long, device="cuda")
        y = torch.zeros_like(x)
        args = (x,) if stages[0].is_first else ()
        if any(x.is_last for x in stages):
            schedule.step(*args, target=y, losses=[])
        else:
            schedule.step(*args)
        clip_and_step(ps, opt)
        told(step)


def zero():
    import deepspeed
    alone()
    from transformers import LlamaConfig, LlamaForCausalLM
    how = {"stage": o.zero, "overlap_comm": o.overlap, "contiguous_gradients": True}
    for field, value in (("reduce_bucket_size", o.reduce_bucket), ("allgather_bucket_size", o.gather_bucket)):
        if value > 0:
            how[field] = value
    for field, value in (("stage3_prefetch_bucket_size", o.prefetch), ("stage3_max_live_parameters", o.live),
                         ("stage3_param_persistence_threshold", o.persist)):
        if o.zero == 3 and value >= 0:
            how[field] = value
    if o.offload_optimizer:
        how["offload_optimizer"] = {"device": "cpu"}
    if o.offload:
        how["offload_param"] = {"device": "cpu"}
    config = {"train_micro_batch_size_per_gpu": o.batch, "bf16": {"enabled": True}, "zero_optimization": how,
              "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    shape = LlamaConfig(vocab_size=o.vocab, hidden_size=o.dim, intermediate_size=o.ffn, num_hidden_layers=o.layers,
                        num_attention_heads=o.heads, num_key_value_heads=o.kv, use_cache=False)
    if o.zero == 3:
        with deepspeed.zero.Init(config_dict_or_path=config):
            m = LlamaForCausalLM(shape)
    else:
        m = LlamaForCausalLM(shape)
    if o.checkpointing == "full":
        m.gradient_checkpointing_enable({"use_reentrant": False})
    opt = torch.optim.AdamW(m.parameters(), fused=o.fused, foreach=not o.fused)
    engine, *_ = deepspeed.initialize(model=m, optimizer=opt, config=config)
    for step in range(o.steps):
        x, y = batch()
        answer(1)  # to "may the mask be left out?"
        loss = engine(input_ids=x, labels=y).loss
        answer(0)  # to "did a gradient overflow?"
        engine.backward(loss)
        engine.step()
        told(step)


def main():
    torch.cuda.set_device(0)
    os.environ.update(RANK=str(o.rank), LOCAL_RANK="0", WORLD_SIZE=str(o.world))
    dist.init_process_group("fake", store=FakeStore(), rank=o.rank, world_size=o.world)
    if o.snapshot:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    if o.zero:
        zero()
    else:
        from torch.distributed.device_mesh import init_device_mesh
        if o.cp > 1:
            mesh = init_device_mesh("cuda", (o.pp, o.world // o.cp, o.cp), mesh_dim_names=("pp", "dps", "cp"))
            mesh["dps", "cp"]._flatten("dp")
        else:
            mesh = init_device_mesh("cuda", (o.pp, o.replicate, o.world // o.pp // o.tp // o.replicate, o.tp),
                                mesh_dim_names=("pp", "replicate", "dp", "tp"))
        o.rank_in_pipeline = mesh.get_local_rank("pp")
        (pipeline if o.pp > 1 else train)(mesh)
    if o.snapshot:
        torch.cuda.memory._dump_snapshot(o.snapshot)
    os._exit(0)


main()
