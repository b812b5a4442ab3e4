"""settings.py NAME all|python|none FILE: train a small model of Transformers in a setting that a budget is to
recognize, and write a memory snapshot of it.

The recording begins when model and optimizer are there, as many do. compare's tests have the same table.
"""

import sys

import torch
import transformers

WORDS = dict(vocab_size=5000, pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=1024)
SMALL = dict(hidden_size=512, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, intermediate_size=1024)

SETTINGS = {  # class, configuration, batch, sequence, weights, attention, mask, micro-batches, optimizer
    "phi3_eager": ("Phi3", SMALL, 3, 300, torch.bfloat16, "eager", False, 1, lambda p: torch.optim.AdamW(p, fused=True)),
    "cohere2_masked": ("Cohere2", SMALL | dict(num_key_value_heads=8, intermediate_size=1280, sliding_window=4096), 3, 300, None, "sdpa", True, 1,
                       torch.optim.RMSprop),
    "llama_adagrad": ("Llama", SMALL, 4, 257, torch.bfloat16, "eager", False, 1, torch.optim.Adagrad),
    "qwen2_sgd": ("Qwen2", SMALL, 2, 500, torch.float32, "sdpa", True, 1, torch.optim.SGD),
    "gpt2_amsgrad": ("GPT2", SMALL, 5, 70, torch.bfloat16, "eager", False, 2, lambda p: torch.optim.AdamW(p, amsgrad=True)),
    "granite_scaled": ("Granite", SMALL | dict(num_attention_heads=16), 2, 500, None, "eager", False, 1, lambda p: torch.optim.AdamW(p, foreach=False)),
}


def run(name, stacks, file):
    family, sizes, batch, sequence, dtype, attention, masked, parts, optimizer = SETTINGS[name]
    config = getattr(transformers, family + "Config")(**WORDS, **sizes)
    kind = getattr(transformers, family + ("LMHeadModel" if family == "GPT2" else "ForCausalLM"))
    with torch.device("cuda"):
        model = kind._from_config(config, dtype=dtype or torch.float32, attn_implementation=attention).train()
    optimizer = optimizer(model.parameters())
    if stacks == "none":
        torch.cuda.memory._record_memory_history(context=None)
    else:
        torch.cuda.memory._record_memory_history(stacks=stacks)
    for _ in range(3):
        ids = torch.zeros(batch, sequence, dtype=torch.long, device="cuda")
        mask = torch.ones_like(ids) if masked else None
        for _ in range(parts):
            with torch.autocast("cuda", torch.bfloat16, enabled=dtype is None):
                out = model(input_ids=ids, attention_mask=mask, labels=ids, use_cache=False)
            out.loss.backward()
            out = None
        ids = mask = None
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.memory._dump_snapshot(file)


if __name__ == "__main__":
    run(*sys.argv[1:])
