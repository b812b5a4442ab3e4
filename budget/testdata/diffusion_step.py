"""One UNet of diffusers through three training steps; prints requested bytes of each phase."""
import json, sys, os
import torch
from diffusers import UNet2DConditionModel
s = dict(precision="fp32", lora=0, checkpointing=False, resolution=1024, batch=1, optimizer="adamw", config=None, steps=3, encoders=False, targets=["to_k","to_q","to_v","to_out.0"])
s.update(json.loads(sys.argv[1]))
SDXL = {"act_fn":"silu","addition_embed_type":"text_time","addition_embed_type_num_heads":64,"addition_time_embed_dim":256,"attention_head_dim":[5,10,20],"block_out_channels":[320,640,1280],"cross_attention_dim":2048,"down_block_types":["DownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D"],"in_channels":4,"layers_per_block":2,"mid_block_type":"UNetMidBlock2DCrossAttn","norm_num_groups":32,"out_channels":4,"projection_class_embeddings_input_dim":2816,"sample_size":128,"transformer_layers_per_block":[1,2,10],"up_block_types":["CrossAttnUpBlock2D","CrossAttnUpBlock2D","UpBlock2D"],"use_linear_projection":True}
cfg = dict(SDXL); cfg.update(s["config"] or {})
dt = {"fp32":torch.float32,"bf16":torch.bfloat16,"fp16":torch.float16,"bf16-mixed":torch.float32,"fp16-mixed":torch.float32}[s["precision"]]
with torch.device("meta"):
    unet = UNet2DConditionModel(**cfg)
unet = unet.to(dt)
if s["lora"]:
    from peft import LoraConfig
    unet.requires_grad_(False)
    unet.to_empty(device="cuda")
    unet.add_adapter(LoraConfig(r=s["lora"], lora_alpha=s["lora"], init_lora_weights="gaussian", target_modules=s["targets"]))
    from diffusers.training_utils import cast_training_params
    if dt != torch.float32: cast_training_params(unet, dtype=torch.float32)
else:
    unet.to_empty(device="cuda")
unet.train()
if s["checkpointing"]: unet.enable_gradient_checkpointing()
params = [p for p in unet.parameters() if p.requires_grad]
opt = torch.optim.AdamW(params, **({"fused":True} if s["optimizer"]=="adamw-fused" else {}))
print("params", sum(p.numel() for p in unet.parameters()), "trainable", sum(p.numel() for p in params), file=sys.stderr)
auto = s["precision"].endswith("mixed") or s["lora"] and dt != torch.float32
kind = torch.bfloat16 if "bf16" in s["precision"] else torch.float16
n = s["resolution"]//8
B = s["batch"]
wd = kind if auto else dt
def stat(k): return torch.cuda.memory_stats()["requested_bytes.all."+k]
if s["encoders"]:
    from diffusers import AutoencoderKL
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection
    def put(m, t):
        m.requires_grad_(False)
        m = m.to(t).to_empty(device="cuda")
        return m
    with torch.device("meta"):
        vae = AutoencoderKL(act_fn="silu", block_out_channels=[128,256,512,512], down_block_types=["DownEncoderBlock2D"]*4, up_block_types=["UpDecoderBlock2D"]*4, in_channels=3, latent_channels=4, layers_per_block=2, norm_num_groups=32, out_channels=3, sample_size=1024, scaling_factor=0.13025, force_upcast=True)
        te1 = CLIPTextModel(CLIPTextConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, vocab_size=49408, max_position_embeddings=77, hidden_act="quick_gelu", projection_dim=768))
        te2 = CLIPTextModelWithProjection(CLIPTextConfig(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20, vocab_size=49408, max_position_embeddings=77, hidden_act="gelu", projection_dim=1280))
    print("vae", sum(p.numel() for p in vae.parameters()), "texts", [sum(p.numel() for p in t.parameters()) for t in (te1, te2)], file=sys.stderr)
    vae, te1, te2 = put(vae, torch.float32), put(te1, wd), put(te2, wd)
out = {"setting": s, "load": stat("current"), "steps": []}
D = cfg["cross_attention_dim"]; P = cfg["projection_class_embeddings_input_dim"] - 6*cfg["addition_time_embed_dim"]
for step in range(s["steps"]):
    row = {}
    torch.cuda.reset_peak_memory_stats()
    if s["encoders"]:
        pixels = torch.empty(B, 3, 8*n, 8*n, device="cuda")
        lat = vae.encode(pixels).latent_dist.sample()
        lat = (lat * vae.config.scaling_factor).to(wd)
        toks = torch.zeros(B, 77, dtype=torch.long, device="cuda")
    else:
        lat = torch.empty(B, 4, n, n, device="cuda", dtype=wd)
    noise = torch.randn_like(lat)
    ts = torch.zeros(B, dtype=torch.long, device="cuda")
    noisy = lat + noise
    if s["encoders"]:
        with torch.no_grad():
            hs = []
            for t in (te1, te2):
                o = t(toks, output_hidden_states=True, return_dict=False)
                pooled = o[0]; hs.append(o[-1][-2])
            emb = torch.cat(hs, dim=-1); pooled = pooled.view(B, -1)
            del o, hs
    else:
      emb = torch.empty(B, 77, D, device="cuda", dtype=wd)
      pooled = torch.empty(B, P, device="cuda", dtype=wd)
    ids = torch.zeros(B, 6, device="cuda", dtype=wd)
    row["encode_peak"] = stat("peak")
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", dtype=kind, enabled=bool(auto)):
        pred = unet(noisy, ts, emb, added_cond_kwargs={"text_embeds": pooled, "time_ids": ids}, return_dict=False)[0]
    if auto: pred = pred.float()
    row["forward_peak"] = stat("peak"); row["forward_end"] = stat("current")
    loss = torch.nn.functional.mse_loss(pred.float(), noise.float(), reduction="mean")
    torch.cuda.reset_peak_memory_stats()
    loss.backward()
    row["backward_peak"] = stat("peak"); row["backward_end"] = stat("current")
    torch.cuda.reset_peak_memory_stats()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
    opt.zero_grad()
    row["optimizer_peak"] = stat("peak"); row["optimizer_end"] = stat("current")
    del pred, loss, lat, noise, noisy, emb, pooled, ids, ts
    row["reserved"] = torch.cuda.max_memory_reserved()
    out["steps"].append(row)
print(json.dumps(out))
