"""Programs on one GPU, for budget's tests: prints the peak of each step, or of prefill and decoding.

  python one_gpu.py qwen3-autocast-clip        a row of one_gpu.jsonl, by its name

Rows were written down, with the flags a user would give, before any was recorded. A device that keeps the books of an H100
is enough. PyTorch's allocator, Transformers, PEFT, TRL, bitsandbytes, Liger and galore_torch run.
"""
import contextlib
import json
import os
import sys

import torch
import transformers

from standin import answer, told

with open(os.path.join(os.path.dirname(__file__), "one_gpu.jsonl")) as f:
    row = next(r for r in map(json.loads, f) if r["name"] == sys.argv[1])
o, shape = row["options"], dict(row["config"])
kind = shape.pop("model_type")
types = dict(fp32=torch.float32, bf16=torch.bfloat16, fp16=torch.float16)
images, sounds = ("vit", "deit", "dinov2", "dinov2_with_registers"), ("wav2vec2", "hubert")
seq2seq = kind in ("t5", "bart", "whisper")


def built():
    class_ = shape.pop("architectures", [None])[0]
    c = transformers.AutoConfig.for_model(kind, **shape)
    c._attn_implementation = "eager" if kind in ("deberta-v2", "mamba2") else "sdpa"
    if kind == "deberta-v2":
        c.problem_type = "single_label_classification"
    class_ = getattr(transformers, class_) if class_ else transformers.AutoModelForCausalLM._model_mapping[type(c)]
    if kind in images + sounds + ("clip", "bart", "whisper", "bert", "deberta-v2"):  # their buffers are not made on the meta device
        with torch.device("cuda"):
            return class_(c).to(types[o["dtype"]])
    return empty(class_, c, "cpu" if o.get("bits4") else "cuda")


def empty(class_, c, where):
    with torch.device("meta"):
        m = class_(c)
    m = m.to(types[o["dtype"]]).to_empty(device=where)
    m.tie_weights()
    return m


def packed(m):
    import bitsandbytes as bnb
    for b in m.model.layers:
        for part in (b.self_attn, b.mlp):
            for name, l in list(part.named_children()):
                if isinstance(l, torch.nn.Linear):
                    new = bnb.nn.Linear4bit(l.in_features, l.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4")
                    new.weight = bnb.nn.Params4bit(l.weight.data, requires_grad=False, quant_type="nf4")
                    setattr(part, name, new)
    m.is_loaded_in_4bit = True
    return m.to("cuda")


def sample():
    s, long = o.get("s"), torch.long
    if kind in images:
        return dict(pixel_values=torch.zeros(3, 224, 224), labels=torch.tensor(0))
    if kind in sounds:  # seconds of sound, and the letters in them
        return dict(input_values=torch.zeros(s), labels=torch.ones(40, dtype=long))
    if kind == "clip":
        return dict(pixel_values=torch.zeros(3, 224, 224), input_ids=torch.zeros(s, dtype=long), attention_mask=torch.ones(s, dtype=long))
    d = dict(input_features=torch.zeros(80, s)) if kind == "whisper" else dict(input_ids=torch.ones(s, dtype=long))
    if o.get("pad"):
        d["attention_mask"] = torch.ones(s, dtype=long)
    if seq2seq:
        d["labels"] = torch.ones(o["dec"], dtype=long)
    if kind == "bart":  # what the collator makes of the labels
        d["decoder_input_ids"] = torch.ones(o["dec"], dtype=long)
    if kind == "deberta-v2":
        d["labels"] = torch.tensor(0)
    elif row["program"] != "forward" and not seq2seq:
        d["labels"] = torch.ones(s, dtype=long)
    return d


def batch():
    x = {n: v.unsqueeze(0).expand(o["b"], *v.shape).contiguous().to("cuda") for n, v in sample().items()}
    if kind == "clip":
        x["return_loss"] = True
    return x


def loss_of(m, x):
    if o.get("ownloss"):
        logits = m(input_ids=x["input_ids"]).logits
        shifted = logits[..., :-1, :].contiguous()
        return (logits, shifted), torch.nn.functional.cross_entropy(shifted.view(-1, shifted.size(-1)), x["labels"][..., 1:].reshape(-1))
    if o.get("smooth"):
        y = x.pop("labels")
        out = m(**x)
        return out, torch.nn.functional.cross_entropy(out.logits, y, label_smoothing=o["smooth"])
    out = m(**x)
    return out, out.loss


class Both:
    """Muon for the blocks' matrices, AdamW for the rest."""

    def __init__(self, m):
        matrices = [p for n, p in m.named_parameters() if p.dim() == 2 and ".layers." in n]
        others = [p for p in m.parameters() if all(p is not q for q in matrices)]
        self.parts = [torch.optim.Muon(matrices, lr=1e-3), torch.optim.AdamW(others, lr=1e-4)]

    def step(self):
        for p in self.parts:
            p.step()

    def zero_grad(self):
        for p in self.parts:
            p.zero_grad()


def optimizer(m):
    if o["opt"] == "muon":
        return Both(m)
    if o["opt"] == "momentum":
        return torch.optim.SGD(m.parameters(), lr=1e-3, momentum=0.9)
    how = dict(adamw={}, fused=dict(fused=True), loop=dict(foreach=False))[o["opt"]]
    return torch.optim.AdamW(m.parameters(), lr=1e-4, **how)


def loop(m):
    m.train()
    m.config.use_cache = bool(o.get("cache"))
    if o.get("ckpt"):
        m.gradient_checkpointing_enable({"use_reentrant": False})
    opt = optimizer(m)
    scaler = torch.amp.GradScaler("cuda", enabled=bool(o.get("scaler")))
    swa = torch.optim.swa_utils
    ema = swa.AveragedModel(m, multi_avg_fn=swa.get_ema_multi_avg_fn(0.999)) if o.get("ema") else None
    for step in range(3):
        for _ in range(o.get("accum", 1)):
            x = batch()
            away = torch.autograd.graph.save_on_cpu(pin_memory=True) if o.get("saveoncpu") else contextlib.nullcontext()
            with torch.autocast("cuda", types[o.get("autocast", "bf16")], enabled="autocast" in o), away:
                out, loss = loss_of(m, x)
            scaler.scale(loss / o.get("accum", 1)).backward()
        if o.get("scaler"):
            scaler.unscale_(opt)
        if o.get("clip") or o.get("scaler"):
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        if ema:
            ema.update_parameters(m)
        told(step)


class Told(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **rest):
        told(state.global_step)


def words():
    from tokenizers import Tokenizer, models, pre_tokenizers
    t = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "a": 2, "b": 3, "<unk>": 4}, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def trainer(m):
    a = dict(output_dir="out", per_device_train_batch_size=o["b"], max_steps=3, report_to=[], save_strategy="no", learning_rate=1e-4)
    a.update(o["args"])
    if "lora" in o:
        import peft
        if o.get("bits4"):
            m = peft.prepare_model_for_kbit_training(m, use_gradient_checkpointing=a.get("gradient_checkpointing", False))
        m = peft.get_peft_model(m, peft.LoraConfig(task_type="CAUSAL_LM", **o["lora"]))
    if row["program"] == "trainer":
        return transformers.Trainer(m, transformers.TrainingArguments(remove_unused_columns=False, **a), train_dataset=[sample()] * 256,
                                    callbacks=[Told()], data_collator=transformers.default_data_collator)
    import datasets
    import itertools
    numbers = itertools.count()
    datasets.fingerprint.Hasher.hash = classmethod(lambda class_, value: f"h{next(numbers)}")  # nothing is cached
    import trl
    import trl.trainer.utils
    trl.trainer.utils._use_triton = lambda device: False  # what a mask picks is empty on a device that computes nothing
    if row["program"] == "sft":
        d = datasets.Dataset.from_dict({"input_ids": [[2] * o["s"]] * 64})
        return trl.SFTTrainer(m, args=trl.SFTConfig(**a), train_dataset=d, processing_class=words(), callbacks=[Told()])
    half = o["s"] // 2
    if row["program"] == "reward":
        d = datasets.Dataset.from_dict({"chosen": ["b " * (o["s"] - 1)] * 64, "rejected": ["a " * (o["s"] - 1)] * 64})
        return trl.RewardTrainer(m, args=trl.RewardConfig(**a), train_dataset=d, processing_class=words(), callbacks=[Told()])
    d = datasets.Dataset.from_dict({"prompt": ["a " * half] * 64, "chosen": ["b " * (half - 1)] * 64, "rejected": ["a " * (half - 1)] * 64})
    ref = None if "lora" in o else empty(type(m), m.config, "cuda")
    return trl.DPOTrainer(m, ref_model=ref, args=trl.DPOConfig(**a), train_dataset=d, processing_class=words(),
                          callbacks=[Told()])


class Counted(transformers.StoppingCriteria):
    n = 0

    def __call__(self, ids, scores, **rest):
        self.n += 1
        if self.n == 1:
            told("prefill")
        over = self.n >= o["new"]
        answer(int(over))
        return torch.full((ids.shape[0],), over, device=ids.device)


def generated(m):
    g = transformers.GenerationConfig(max_new_tokens=o["new"], do_sample=False, num_beams=o.get("beams", 1), pad_token_id=0, eos_token_id=None,
                                      cache_implementation=None if o["cache"] == "dynamic" else o["cache"], disable_compile=True)
    x = torch.ones(o["b"], o["s"], dtype=torch.long, device="cuda")
    with torch.no_grad():
        m.eval().generate(x, generation_config=g, stopping_criteria=transformers.StoppingCriteriaList([Counted()]))
    told("decode")


def main():
    m = built()
    if o.get("bits4"):
        m = packed(m)
    if not o.get("pad") and kind not in sounds:  # "may the mask be left out?"
        m.register_forward_pre_hook(lambda *rest: answer(1))
        m.register_forward_hook(lambda *rest: answer(0))
    torch.cuda.reset_peak_memory_stats()
    if row["program"] == "loop":
        loop(m)
    elif row["program"] == "generate":
        generated(m)
    elif row["program"] == "forward":
        with torch.no_grad():
            out = m.eval()(**batch())
        told(0)
    else:
        trainer(m).train()
    os._exit(0)


main()
