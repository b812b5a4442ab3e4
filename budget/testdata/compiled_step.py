"""A training of Transformers' model under torch.compile, for budget's tests: prints the peak of each step and what is reserved by then.

  python compiled_step.py llama --batch 8                            the model compiled whole, as Trainer does it
  python compiled_step.py llama --batch 8 --mode reduce-overhead     with CUDA graphs, which have a pool of their own
  python compiled_step.py gpt2 --blocks                              each block for itself

PyTorch's own compiler, CUDA graph trees, autograd and allocator run on a device that computes nothing; its answer to what
reads a truth value is yes, so that outside of the compiler a mask is left out where it says no more than "causal".
"""
import argparse
import os

import torch
import transformers

from standin import answer, told

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("model", choices=["llama", "qwen3", "gpt2", "bert", "vit"])
for name, default in dict(layers=4, dim=2048, heads=16, kv=8, ffn=5504, vocab=32000, batch=2, seq=1024, steps=4, accumulate=1, lora=0).items():
    arguments.add_argument("--" + name, type=int, default=default)
arguments.add_argument("--mode", default="default", choices=["none", "default", "reduce-overhead", "max-autotune"])
arguments.add_argument("--precision", default="bf16", choices=["bf16", "bf16-mixed"])
for name in ("blocks", "checkpointing", "dynamic", "foreach", "accelerate"):
    arguments.add_argument("--" + name, action="store_true")
o = arguments.parse_args()

named = dict(vocab_size=o.vocab, num_hidden_layers=o.layers, hidden_size=o.dim, num_attention_heads=o.heads, intermediate_size=o.ffn)
decoder = dict(named, num_key_value_heads=o.kv, head_dim=o.dim // o.heads, max_position_embeddings=8192, use_cache=False)
fields = {
    "llama": decoder, "qwen3": decoder, "bert": dict(named, max_position_embeddings=8192), "vit": dict(named, num_labels=1000),
    "gpt2": dict(vocab_size=o.vocab, n_layer=o.layers, n_embd=o.dim, n_head=o.heads, n_positions=8192, use_cache=False),
}[o.model]
cls = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM", "gpt2": "GPT2LMHeadModel", "bert": "BertForMaskedLM",
       "vit": "ViTForImageClassification"}[o.model]
width = torch.bfloat16 if o.precision == "bf16" else torch.float32


def built():
    c = transformers.AutoConfig.for_model(o.model, **fields)
    if o.model in ("llama", "qwen3"):
        c.tie_word_embeddings = False
    torch.set_default_dtype(width)
    with torch.device("cuda"):
        m = getattr(transformers, cls)(c)
    torch.set_default_dtype(torch.float32)
    if o.checkpointing:
        m.gradient_checkpointing_enable({"use_reentrant": False})
    if o.lora:
        import peft
        m = peft.get_peft_model(m, peft.LoraConfig(r=o.lora, lora_alpha=o.lora, target_modules="all-linear"), autocast_adapter_dtype=False)
    return m.train()


def compiled(m):
    how = {"mode": o.mode, "dynamic": o.dynamic or None}
    if o.mode == "none":
        return m
    if o.accelerate:
        from accelerate import Accelerator
        from accelerate.utils import TorchDynamoPlugin
        return Accelerator(mixed_precision="bf16", dynamo_plugin=TorchDynamoPlugin(backend="inductor", mode=o.mode)).prepare(m)
    if not o.blocks:
        return torch.compile(m, **how)
    for x in m.modules():
        if isinstance(x, torch.nn.ModuleList) and len(x) == o.layers:
            for block in x:
                block.compile(**how)
    return m


def batch():
    if o.model == "vit":
        return {"pixel_values": torch.zeros(o.batch, 3, 224, 224, device="cuda", dtype=width), "labels": torch.zeros(o.batch, dtype=torch.long, device="cuda")}
    x = torch.zeros(o.batch, o.seq, dtype=torch.long, device="cuda")
    return {"input_ids": x, "labels": torch.zeros_like(x)}


m = built()
run = compiled(m)
ps = [p for p in m.parameters() if p.requires_grad]
opt = torch.optim.AdamW(ps, fused=not o.foreach, foreach=o.foreach)
for step in range(o.steps):
    for _ in range(o.accumulate):
        given = batch()
        answer(1)
        with torch.autocast("cuda", torch.bfloat16, enabled=o.precision == "bf16-mixed" and not o.accelerate):
            loss = run(**given).loss
        answer(0)
        loss.backward()
        del loss
    opt.step()
    opt.zero_grad()
    told(step)
os._exit(0)
