"""A model of Transformers through three training steps; prints requested bytes."""
import json, sys, torch, transformers
s = dict(cls="", config={}, precision="fp32", batch=2, seq=0, optimizer="adamw", checkpointing=False, steps=3)
s.update(json.loads(sys.argv[1]))
cls = getattr(transformers, s["cls"])
torch.manual_seed(0)
with torch.device("meta"):
    model = cls(cls.config_class(**s["config"]))
dt = {"fp32":torch.float32,"bf16":torch.bfloat16,"bf16-mixed":torch.float32}[s["precision"]]
model = model.to(dt).to_empty(device="cuda")
model.tie_weights()
for m in model.modules():
    for n, b in list(m._buffers.items()):
        if b is not None and b.is_floating_point() and b.dtype != torch.float32 and "inv_freq" in n: m._buffers[n] = b.float()
model.train()
if s["checkpointing"]: model.gradient_checkpointing_enable()
n = sum(p.numel() for p in model.parameters())
opt = torch.optim.AdamW(model.parameters(), **({"fused":True} if s["optimizer"]=="adamw-fused" else {}))
stat = lambda k: torch.cuda.memory_stats()["requested_bytes.all."+k]
out = {"setting": s, "parameters": n, "load": stat("current"), "steps": []}
B = s["batch"]
for step in range(s["steps"]):
    row = {}
    if s["seq"]:
        ids = torch.zeros(B, s["seq"], dtype=torch.long, device="cuda")
        batch = dict(input_ids=ids, labels=torch.zeros_like(ids))
        if "use_cache" in model.config.to_dict(): batch["use_cache"] = False
    else:
        c = model.config
        batch = dict(pixel_values=torch.zeros(B, c.num_channels, c.image_size, c.image_size, device="cuda", dtype=dt), labels=torch.zeros(B, dtype=torch.long, device="cuda"))
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=s["precision"].endswith("mixed")):
        o = model(**batch)
    row["forward_peak"] = stat("peak"); row["forward_end"] = stat("current")
    torch.cuda.reset_peak_memory_stats()
    o.loss.backward()
    row["backward_peak"] = stat("peak"); row["backward_end"] = stat("current")
    torch.cuda.reset_peak_memory_stats()
    opt.step(); opt.zero_grad()
    row["optimizer_peak"] = stat("peak")
    del o, batch
    if s["seq"]: del ids
    out["steps"].append(row)
print(json.dumps(out))
