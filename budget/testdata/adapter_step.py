"""Trainings of adapters by PEFT, for budget's tests: prints the peak of the third step.

  python adapter_step.py --rank 16 --targets all-linear            LoRA on every linear layer
  python adapter_step.py --rank 16 --targets q_proj,lm_head,embed_tokens
  python adapter_step.py --kind ia3                                (IA)3, the defaults of PEFT
  python adapter_step.py --rank 16 --bits 4 --nested               QLoRA with nested quantization
  python adapter_step.py --rank 16 --bits 4 --fsdp 2 --narrow      QLoRA as one rank of FSDP2 over 8, of FSDP with --fsdp 1
  python adapter_step.py --rank 16 --narrow --fsdp 1 --one-unit    each layer one unit with its adapters, use_orig_params=True
  python adapter_step.py --rank 16 --bits 8                        bitsandbytes' Linear8bitLt, as load_in_8bit has it
  python adapter_step.py --model mixtral --rank 16 --experts       the experts' fused weights, by target_parameters

A device that keeps the books of an H100 80GB is enough. Transformers' Llama, PEFT, bitsandbytes and PyTorch's allocator run.
"""
import argparse
import functools
import os

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from standin import answer, told

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, default in dict(dim=4096, layers=4, heads=32, kv=8, ffn=14336, vocab=32000, batch=2, seq=2048, rank=16, steps=3, bits=16, fsdp=0, world=8).items():
    arguments.add_argument("--" + name, type=int, default=default)
for name in ("tied", "checkpointing", "fused", "nested", "narrow", "one-unit", "experts", "paged", "loop"):
    arguments.add_argument("--" + name, action="store_true")
arguments.add_argument("--kind", default="lora", choices=["none", "lora", "rslora", "dora", "lora-fa", "ia3"])
arguments.add_argument("--model", default="llama", choices=["llama", "mixtral", "t5"])
arguments.add_argument("--torchao", default="", choices=["", "int8", "int8-training"], help="how the layers' linear weights are quantized")
arguments.add_argument("--targets", default="all-linear")
arguments.add_argument("--save", default="")
arguments.add_argument("--dropout", type=float, default=0.0)
arguments.add_argument("--precision", default="bf16", choices=["bf16", "bf16-mixed", "fp32"])
arguments.add_argument("--snapshot", help="write the recording here, too")
arguments.add_argument("--print", action="store_true", help="what is trained")
o = arguments.parse_args()


def base():
    dtype = torch.bfloat16 if o.precision == "bf16" else torch.float32
    with torch.device("meta"):
        m = AutoModelForSeq2SeqLM.from_config(shape()) if o.model == "t5" else AutoModelForCausalLM.from_config(shape())
    m = m.to(dtype).to_empty(device="cpu" if o.bits < 16 else "cuda")
    m.tie_weights()
    if o.bits < 16:
        m = packed(m)
    if o.torchao:
        quantized(m)
    for name, buffer in m.named_buffers():
        assert buffer.device.type == "cuda", name
    return m


def shape():
    if o.model == "t5":
        return AutoConfig.for_model("t5", vocab_size=o.vocab, d_model=o.dim, d_kv=64, d_ff=o.ffn, num_layers=o.layers, num_heads=o.heads,
                                    num_decoder_layers=o.layers, use_cache=False, decoder_start_token_id=0, pad_token_id=0)
    more = dict(num_local_experts=8, num_experts_per_tok=2) if o.model == "mixtral" else {}
    return AutoConfig.for_model(o.model, vocab_size=o.vocab, hidden_size=o.dim, intermediate_size=o.ffn, num_hidden_layers=o.layers,
                                num_attention_heads=o.heads, num_key_value_heads=o.kv, use_cache=False, tie_word_embeddings=o.tied, **more)


def quantized(m):
    from torchao.prototype.quantized_training import int8_weight_only_quantized_training
    from torchao.quantization import Int8WeightOnlyConfig, quantize_
    quantize_(m.model.layers, int8_weight_only_quantized_training() if o.torchao == "int8-training" else Int8WeightOnlyConfig())


def packed(m):
    import bitsandbytes as bnb
    for b in m.model.layers:
        for part in (b.self_attn, b.mlp):
            for name, l in list(part.named_children()):
                if isinstance(l, torch.nn.Linear):
                    if o.bits == 8:
                        new = bnb.nn.Linear8bitLt(l.in_features, l.out_features, bias=False, has_fp16_weights=False, threshold=6.0)
                        new.weight = bnb.nn.Int8Params(l.weight.data, requires_grad=False, has_fp16_weights=False)
                        setattr(part, name, new)
                        continue
                    storage = {"quant_storage": torch.bfloat16} if o.fsdp else {}  # FSDP wants one type for all
                    new = bnb.nn.Linear4bit(l.in_features, l.out_features, bias=False, compute_dtype=torch.bfloat16,
                                            compress_statistics=o.nested, quant_type="nf4", **storage)
                    new.weight = bnb.nn.Params4bit(l.weight.data, requires_grad=False, compress_statistics=o.nested, quant_type="nf4",
                                                   module=new, **storage)
                    setattr(part, name, new)
    m.is_loaded_in_4bit, m.is_loaded_in_8bit = o.bits == 4, o.bits == 8
    return m.to("cuda")


def adapted(m):
    import peft
    targets = o.targets if o.targets == "all-linear" else o.targets.split(",")
    save = o.save.split(",") if o.save else None
    if o.kind == "none":
        return m
    if o.kind == "ia3":
        how = {} if o.targets == "all-linear" else dict(target_modules=targets, feedforward_modules=[t for t in targets if t == "down_proj"])
        c = peft.IA3Config(task_type="SEQ_2_SEQ_LM" if o.model == "t5" else "CAUSAL_LM", modules_to_save=save, **how)
    else:
        c = peft.LoraConfig(r=o.rank, target_modules=targets, modules_to_save=save, lora_dropout=o.dropout, use_rslora=o.kind == "rslora",
                            use_dora=o.kind == "dora", task_type="CAUSAL_LM",
                            target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"] if o.experts else None)
    return peft.get_peft_model(m, c, autocast_adapter_dtype=not o.narrow)


def on_the_host(m):
    """As rank 0 has loaded it: FSDP moves each unit to the device, and sends it to the other ranks."""
    for p in m.parameters():
        p.data = torch.empty(p.shape, dtype=p.dtype)
    torch.cuda.empty_cache()


def sharded(m):
    """One rank's part: the layers and what is outside of them are units; of FSDP1, the adapters are, too, unless --one-unit."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, fully_shard
    if o.fsdp == 1:
        from peft.utils.other import fsdp_auto_wrap_policy
        from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer
        os.environ["FSDP_TRANSFORMER_CLS_TO_WRAP"] = "LlamaDecoderLayer"
        policy = fsdp_auto_wrap_policy(m)
        if o.one_unit:
            policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})
        on_the_host(m)
        return FullyShardedDataParallel(m, auto_wrap_policy=policy, use_orig_params=o.one_unit, device_id=0,
                                        sync_module_states=True)
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (o.world,))
    for b in m.model.layers if o.kind == "none" else m.base_model.model.model.layers:
        fully_shard(b, mesh=mesh)
    return fully_shard(m, mesh=mesh)


def main():
    if o.fsdp:
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(o.world))
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=o.world)
    if o.snapshot:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    torch.manual_seed(0)
    m = base()
    if o.checkpointing:
        m.gradient_checkpointing_enable({"use_reentrant": False})
        m.enable_input_require_grads()
    m = adapted(m)
    if o.fsdp:
        m = sharded(m)
        if o.fsdp == 2:
            torch.cuda.empty_cache()
    m.train()
    trained = [(n, p) for n, p in m.named_parameters() if p.requires_grad]
    print("trained", sum(p.numel() for _, p in trained), "loaded", torch.cuda.memory_stats()["requested_bytes.all.current"])
    if o.print:
        for n, p in trained:
            print(n, tuple(p.shape), p.dtype)
    ps = [p for _, p in trained]
    if o.kind == "lora-fa":
        from peft.optimizers import create_lorafa_optimizer
        opt = create_lorafa_optimizer(m, r=o.rank, lora_alpha=o.rank, lr=1e-4)
        print("trained", sum(p.numel() for p in m.parameters() if p.requires_grad))
    elif o.paged:
        import bitsandbytes as bnb

        def get_paged(*shape, dtype=torch.float32, device=None):  # the device has no managed memory, of which PyTorch knows nothing anyway
            x = torch.zeros(*shape, dtype=dtype)
            x.is_paged, x.page_deviceid = True, 0
            return x
        bnb.functional.get_paged, bnb.functional.prefetch_tensor = get_paged, lambda *args, **kwargs: None
        opt = bnb.optim.PagedAdamW8bit(ps)
    else:
        opt = torch.optim.AdamW(ps, fused=o.fused, foreach=not o.fused and not o.loop,
                                weight_decay=0 if o.torchao else 0.01)  # torchao's weights can't be decayed
    for step in range(o.steps):
        x = torch.zeros(o.batch, o.seq, dtype=torch.long, device="cuda")
        y = torch.zeros_like(x) if o.model != "t5" else torch.zeros(o.batch, o.seq // 4, dtype=torch.long, device="cuda")
        answer(1)  # to "may the mask be left out?"
        with torch.autocast("cuda", torch.bfloat16, enabled=o.precision == "bf16-mixed"):
            out = m(input_ids=x, labels=y)
        answer(0)
        out.loss.backward()
        del out
        opt.step()
        opt.zero_grad()
        told(step)
    if o.snapshot:
        torch.cuda.memory._dump_snapshot(o.snapshot)
    os._exit(0)


main()
