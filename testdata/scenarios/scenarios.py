import os, sys, copy, io
import torch, torch.nn as nn
from torch.utils.checkpoint import checkpoint
name, variant, out = sys.argv[1:4]
kw = {"all": dict(context="all", stacks="all"), "python": dict(context="all", stacks="python"), "none": dict(context=None)}[variant]
def record(): torch.cuda.memory._record_memory_history(max_entries=200000, **kw)
if name != "added_to": record()

class Block(nn.Module):
    def __init__(s, h=512, a=8):
        super().__init__()
        s.ln1 = nn.LayerNorm(h); s.qkv = nn.Linear(h, 3*h); s.o = nn.Linear(h, h); s.ln2 = nn.LayerNorm(h)
        s.up = nn.Linear(h, 4*h); s.down = nn.Linear(4*h, h); s.a = a
    def forward(s, x):
        b, t, h = x.shape
        q, k, v = s.qkv(s.ln1(x)).view(b, t, 3, s.a, h//s.a).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.o(y.transpose(1, 2).reshape(b, t, h))
        return x + s.down(nn.functional.gelu(s.up(s.ln2(x))))

class LM(nn.Module):
    def __init__(s, layers=6, h=512, vocab=8000, seq=512, ckpt=()):
        super().__init__()
        s.emb = nn.Embedding(vocab, h); s.pos = nn.Embedding(seq, h)
        s.blocks = nn.ModuleList([Block(h) for _ in range(layers)]); s.ln = nn.LayerNorm(h); s.head = nn.Linear(h, vocab, bias=False)
        s.ckpt = ckpt
    def forward(s, ids, hidden=False):
        x = s.emb(ids) + s.pos.weight[: ids.shape[1]]
        hs = [x]
        for i, b in enumerate(s.blocks):
            x = checkpoint(b, x, use_reentrant=False) if i in s.ckpt else b(x)
            if hidden: hs.append(x)
        return (s.head(s.ln(x)), hs) if hidden else s.head(s.ln(x))

V = 8000
def batches(n, b=8, t=512): return [torch.randint(0, V, (b, t)) for _ in range(n)]
def loss_of(model, ids):
    logits = model(ids)
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

def train_step(model, opt, ids):
    ids = ids.cuda()
    loss = loss_of(model, ids)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()

def evaluate(model, data, grad):
    model.eval()
    total = 0.0
    for ids in data:
        ids = ids.cuda()
        with torch.set_grad_enabled(grad):
            loss = loss_of(model, ids)
        total += loss.item()
    model.train()
    return total

def eval_hidden(model, data):
    model.eval()
    with torch.no_grad():
        for ids in data:
            logits, hs = model(ids.cuda(), hidden=True)
            score = sum(h.mean() for h in hs).item()

if name in ("train_eval_grad", "train_eval_ok"):
    model = LM().cuda(); opt = torch.optim.AdamW(model.parameters())
    for epoch in range(2):
        for ids in batches(3): train_step(model, opt, ids)
        evaluate(model, batches(3, b=16), name == "train_eval_grad")
elif name == "eval_one_grad":
    model = LM().cuda(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(4): train_step(model, opt, ids)
    evaluate(model, batches(1, b=16), True)
    for ids in batches(2): train_step(model, opt, ids)
elif name == "eval_oom":  # on a device of 4 GiB
    model = LM().cuda()
    try: evaluate(model, batches(3, b=16), True)
    except torch.OutOfMemoryError as e: print(e)
elif name == "eval_hidden":
    model = LM().cuda(); eval_hidden(model, batches(4))
elif name == "state_dict_left":
    model = LM(); file = io.BytesIO(); torch.save(model.state_dict(), file); file.seek(0)
    model = model.cuda(); sd = torch.load(file, map_location="cuda"); model.load_state_dict(sd)
    opt = torch.optim.AdamW(model.parameters())
    for ids in batches(4, b=2): train_step(model, opt, ids)
elif name == "ema_deepcopy":
    model = LM().cuda(); ema = copy.deepcopy(model); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(4, b=2):
        train_step(model, opt, ids)
        with torch.no_grad():
            for p, q in zip(ema.parameters(), model.parameters()): p.mul_(0.99).add_(q, alpha=0.01)
elif name == "dpo_reference":
    model = LM().cuda()
    ref = LM().cuda().eval(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(4, b=2):
        ids = ids.cuda()
        with torch.no_grad(): r = loss_of(ref, ids)
        loss = loss_of(model, ids) - r
        loss.backward(); opt.step(); opt.zero_grad()
elif name == "empty_cache":
    model = LM().cuda(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(6):
        train_step(model, opt, ids); torch.cuda.empty_cache()
elif name == "partial_ckpt":
    model = LM(layers=12, ckpt=(0, 1)).cuda(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(3): train_step(model, opt, ids)
elif name == "whole_ckpt":
    model = LM(layers=12).cuda(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(3):
        ids = ids.cuda(); emb = model.emb(ids)
        def body(x):
            for b in model.blocks: x = b(x)
            return x
        x = checkpoint(body, emb, use_reentrant=False)
        loss = nn.functional.cross_entropy(model.head(model.ln(x)).flatten(0, 1), ids.flatten())
        opt.zero_grad(); loss.backward(); opt.step()
elif name == "good_ckpt":
    model = LM(layers=12, ckpt=range(12)).cuda(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(3): train_step(model, opt, ids)
elif name == "step_in_backward":
    model = LM().cuda(); opts = {p: torch.optim.AdamW([p], foreach=False) for p in model.parameters()}
    def update(p): opts[p].step(); opts[p].zero_grad()
    for p in model.parameters(): p.register_post_accumulate_grad_hook(update)
    for ids in batches(4): loss_of(model, ids.cuda()).backward()
elif name == "data_on_gpu":
    model = nn.Sequential(nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    data, target = torch.randn(20480, 4096).cuda(), torch.randint(0, 10, (20480,)).cuda()
    for i in range(0, 4096, 512):
        x, y = data[i : i + 512].clone(), target[i : i + 512].clone()
        loss = nn.functional.cross_entropy(model(x), y); opt.zero_grad(); loss.backward(); opt.step()
elif name == "cuda_graph":
    model = LM(layers=2).cuda().eval(); ids = batches(1)[0].cuda()
    with torch.no_grad():
        s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s): model(ids)
        torch.cuda.current_stream().wait_stream(s)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g): static = model(ids)
        for _ in range(3): g.replay()
elif name == "encoder_twins":
    enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, batch_first=True), 12).cuda(); head = nn.Linear(512, 10).cuda()
    opt = torch.optim.AdamW([*enc.parameters(), *head.parameters()])
    for _ in range(3):
        x = torch.randn(16, 128, 512).cuda(); y = torch.randint(0, 10, (16,)).cuda()
        loss = nn.functional.cross_entropy(head(enc(x).mean(1)), y); opt.zero_grad(); loss.backward(); opt.step()
elif name == "pinned":
    model = LM().cuda(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(3):
        big = torch.zeros(64 << 20, pin_memory=True)
        train_step(model, opt, ids.pin_memory())
elif name in ("forward_graph", "forward_cut"):
    # forward passes with gradients, without backward; the recording begins late
    torch.cuda.memory._record_memory_history(enabled=None)
    model = LM().cuda(); ids = batches(1)[0].cuda(); scores = None
    if name == "forward_graph": scores = model(ids)
    torch.cuda.memory._record_memory_history(max_entries=200000, **kw)
    scores = model(ids)
elif name == "recompute_metric":
    # a training step whose accuracy is worked out by a second forward without no_grad
    model = LM().cuda(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(4):
        train_step(model, opt, ids)
        acc = (model(ids.cuda()).argmax(-1) == ids.cuda()).float().mean().item()
elif name in ("eval_losses", "eval_losses_ok", "eval_losses_oom"):
    # after training, a validation that keeps its losses; _oom on a device of 6 GiB
    model = LM().cuda(); opt = torch.optim.AdamW(model.parameters()); losses = []
    for ids in batches(4): train_step(model, opt, ids)
    model.eval()
    try:
        for ids in batches(20 if name == "eval_losses_oom" else 5):
            with torch.set_grad_enabled(name != "eval_losses_ok"): losses.append(loss_of(model, ids.cuda()))
    except torch.OutOfMemoryError as e: print(e)
elif name == "teacher_grad":
    model = LM(layers=2).cuda(); teacher = LM(layers=4).cuda().eval(); opt = torch.optim.AdamW(model.parameters())
    for ids in batches(5, b=2):
        ids = ids.cuda(); target = teacher(ids).softmax(-1)
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), target.flatten(0, 1))
        opt.zero_grad(); loss.backward(); opt.step()
elif name == "retry_held":  # on a device of 4 GiB
    model = LM().cuda(); opt = torch.optim.AdamW(model.parameters()); errors = []; b = 64
    while b > 2:
        try: train_step(model, opt, batches(1, b=b)[0]); break
        except torch.OutOfMemoryError as e: errors.append(e); b //= 2
elif name in ("eager_attention", "math_attention", "eager_served"):
    def attention(q, k, v, is_causal):
        if name == "math_attention":
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH): return sdpa(q, k, v, is_causal=is_causal)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
    sdpa = nn.functional.scaled_dot_product_attention; nn.functional.scaled_dot_product_attention = attention
    model = LM(layers=4, h=256, vocab=1000, seq=1024).cuda()
    if name == "eager_served":
        with torch.no_grad():
            for ids in batches(3, b=4, t=1024): model(ids.cuda() % 1000)
    else:
        opt = torch.optim.AdamW(model.parameters())
        for ids in batches(3, b=4, t=1024): train_step(model, opt, ids % 1000)
elif name == "eval_joined":
    # an evaluation that joins the logits of all batches on the GPU
    model = LM(layers=2).cuda(); opt = torch.optim.AdamW(model.parameters()); joined = None
    for ids in batches(3, b=2): train_step(model, opt, ids)
    model.eval()
    with torch.no_grad():
        for ids in batches(8, b=2):
            logits = model(ids.cuda())
            joined = logits if joined is None else torch.cat((joined, logits))
    joined = joined.argmax(-1).cpu(); del logits
    model.train(); train_step(model, opt, batches(1, b=2)[0])
elif name == "long_batch":  # on a device of 2 GiB
    model = LM(layers=4, seq=4096).cuda(); opt = torch.optim.AdamW(model.parameters())
    try:
        for t in (256, 300, 200, 280, 4096): train_step(model, opt, batches(1, b=2, t=t)[0])
    except torch.OutOfMemoryError as e: print(e)
elif name == "data_parallel":  # on two devices
    model = LM(layers=2).cuda(); opt = torch.optim.AdamW(model.parameters()); both = nn.DataParallel(model, device_ids=[0, 1])
    for ids in batches(3, b=4): train_step(both, opt, ids)
elif name == "pairs":  # no model at all; fails on a device of 80 GiB
    x = torch.randn(60000, 256).cuda(); best = []
    for i in range(0, 60000, 6000): best.append(torch.cdist(x[i:i+6000], x).topk(10, largest=False)[1])
    try: torch.cdist(x, x).sort(1)
    except torch.OutOfMemoryError as e: print(e)
elif name == "model_again":
    # a notebook's cell that is run three times, and whose output holds what it made
    Out = {}
    for cell in range(3):
        model = LM(layers=2).cuda(); opt = torch.optim.AdamW(model.parameters()); Out[cell] = model, opt
        for ids in batches(5, b=1): train_step(model, opt, ids)
elif name in ("optimizer_again", "optimizer_again_ok"):
    # an optimizer for each epoch, of which the schedulers are kept
    model = LM(layers=2).cuda(); kept = []
    for epoch in range(3):
        opt = torch.optim.AdamW(model.parameters())
        if name == "optimizer_again": kept.append(torch.optim.lr_scheduler.StepLR(opt, 10))
        for ids in batches(5, b=1): train_step(model, opt, ids)
elif name in ("policy_gradient", "policy_gradient_own"):
    # log-probabilities of the last tokens, from the scores of all; _own by what no frame of torch names
    model = LM(layers=2).cuda().bfloat16(); opt = torch.optim.AdamW(model.parameters())
    own = name == "policy_gradient_own"; first = 256 if own else 352
    for ids in batches(4, b=4):
        ids = ids.cuda(); scores = model(ids); last = scores[:, first-1:-1].float()
        logp = last.log_softmax(-1) if own else nn.functional.log_softmax(last, -1)
        loss = -(logp.gather(-1, ids[:, first:, None]) * 0.5).mean()
        opt.zero_grad(); loss.backward(); opt.step()
elif name == "adapters":  # more matrices of adapters than vectors of the model's width
    class Adapter(nn.Module):
        def __init__(s, base, r=16):
            super().__init__(); s.base = base; s.down = nn.Linear(base.in_features, r, bias=False); s.up = nn.Linear(r, base.out_features, bias=False)
        def forward(s, x): return s.base(x) + s.up(s.down(x.float())).to(x.dtype)
    model = LM(layers=4, h=256, vocab=16000).bfloat16().requires_grad_(False)
    for b in model.blocks:
        for part in ("qkv", "o", "up", "down"): setattr(b, part, Adapter(getattr(b, part)))
    model.cuda(); opt = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    for ids in batches(3, b=4): train_step(model, opt, ids)
elif name in ("foreach", "foreach_rms", "foreach_off"):
    # wide layers and few rows: the peak is in the optimizer's step
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(10)]).cuda()
    opt = torch.optim.RMSprop(model.parameters()) if name == "foreach_rms" else torch.optim.AdamW(model.parameters(), fused=name == "foreach_off" or None)
    for i in range(4):
        loss = model(torch.randn(8, 2048).cuda()).square().mean(); opt.zero_grad(); loss.backward(); opt.step()
elif name == "eval_batch":  # evaluations with far more sequences at once, the second one on a device of 2 GiB too many
    model = nn.Sequential(nn.Embedding(V, 256), *[nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(3)], nn.Linear(256, V)).cuda()
    opt = torch.optim.AdamW(model.parameters())
    try:
        for b in (32, 64):
            for ids in batches(3, b=2, t=256): train_step(model, opt, ids)
            for ids in batches(2, b=b, t=256): evaluate(model, [ids], False)
    except torch.OutOfMemoryError as e: print(e)
elif name in ("joined_anew", "joined_last"):
    # features of all steps, joined again in each; _last keeps those of two
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(4)]).cuda(); head = nn.Linear(1024, 10).cuda(); bank = None
    opt = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    for i in range(10):
        features = model(torch.randn(2048, 1024).cuda())
        loss = head(features).square().mean(); opt.zero_grad(); loss.backward(); opt.step()
        bank = features.detach() if bank is None else torch.cat([bank, features.detach()])
        if name == "joined_last": bank = bank[-4096:].clone()
elif name == "saved_copy":
    # a checkpoint whose tensors are all copied on the GPU first
    model = LM(layers=2).cuda(); opt = torch.optim.AdamW(model.parameters(), fused=True)
    for i, ids in enumerate(batches(4, b=1)):
        train_step(model, opt, ids)
        if i % 2:
            weights = {k: v.clone() for k, v in model.state_dict().items()}
            state = [{k: v.clone() for k, v in s.items()} for s in opt.state.values()]
            torch.save((weights, state), io.BytesIO()); del weights, state
elif name == "hooked":
    # hooks that hold what layers made until they make it again, for plots
    model = LM(layers=8, h=256, vocab=1000).cuda(); opt = torch.optim.AdamW(model.parameters()); last = {}
    for i, b in enumerate(model.blocks): b.up.register_forward_hook(lambda m, x, y, i=i: last.__setitem__(i, y.detach()))
    for ids in batches(4, b=4): train_step(model, opt, ids % 1000)
elif name == "unfrozen":
    # one more layer is trained every few steps; the table never is
    model = nn.Sequential(nn.Embedding(V, 512), *[nn.Linear(512, 512) for _ in range(8)], nn.Linear(512, 16)).cuda().requires_grad_(False)
    model[-1].requires_grad_(True); opt = torch.optim.AdamW(model[-1].parameters())
    for i in range(18):
        if i and i % 3 == 0: opt.add_param_group({"params": list(model[-1 - i // 3].requires_grad_(True).parameters())})
        loss = nn.functional.cross_entropy(model(batches(1)[0].cuda()).flatten(0, 1), torch.zeros(4096, dtype=torch.long, device="cuda")); opt.zero_grad(); loss.backward(); opt.step()
elif name == "averaged":
    # weights are averaged from the middle of training on
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda(); opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9); mean = None
    for i in range(12):
        loss = model(torch.randn(256, 1024).cuda()).square().mean(); opt.zero_grad(); loss.backward(); opt.step()
        if i >= 6:
            mean = mean or torch.optim.swa_utils.AveragedModel(model)
            mean.update_parameters(model)
elif name == "regression":
    # a network of few wide layers, a loss of the program's own
    model = nn.Sequential(nn.Linear(3, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)).cuda(); opt = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.rand(8192, 3).cuda(), torch.rand(8192, 1).cuda()
    for i in range(6):
        loss = ((model(x) - y) ** 2).mean(); opt.zero_grad(); loss.backward(); opt.step()
elif name == "static_cache":
    # a cache of full length for each request, as many tokens in a prompt as a layer is wide
    h, layers = 512, 6
    model = nn.ModuleList([nn.ModuleList([nn.Linear(h, 3 * h), nn.Linear(h, h), nn.Linear(h, 4 * h), nn.Linear(4 * h, h)]) for _ in range(layers)]).cuda(); emb = nn.Embedding(V, h).cuda()
    def forward(ids, caches, at):
        x = emb(ids)
        for i, (qkv, o, up, down) in enumerate(model):
            if i == len(caches): caches.append([torch.zeros(4, 256, h, device="cuda") for _ in range(2)] + [torch.zeros((), device="cuda")])
            q, k, v = qkv(x).chunk(3, -1)
            for c, new in zip(caches[i], (k, v)): c[:, at : at + ids.shape[1]] = new
            x = x + o(torch.softmax(q @ caches[i][0].transpose(1, 2), -1) @ caches[i][1]); x = x + down(torch.relu(up(x)))
        return (x @ emb.weight.T)[:, -1:].argmax(-1)
    with torch.no_grad():
        for request in range(3):
            caches = []; ids = forward(torch.randint(0, V, (4, 128)).cuda(), caches, 0)
            for i in range(12): ids = forward(ids, caches, 128 + i)
elif name == "eval_first":
    # a validation before training, with gradients, whose scores are kept
    model = LM(layers=8, h=256, vocab=1000).cuda(); opt = torch.optim.AdamW(model.parameters())
    kept = [model((ids % 1000).cuda()) for ids in batches(2, b=4)]
    for ids in batches(4, b=4): train_step(model, opt, ids % 1000)
elif name == "pipeline":
    # one stage of a pipeline: three micro-batches are on their way at a time
    model = nn.Sequential(*[Block(256) for _ in range(4)]).cuda(); opt = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(4):
        flying = []
        for i in range(8):
            if i < 6: flying.append(model(torch.randn(4, 256, 256).cuda().requires_grad_()))
            if i >= 3 and flying: flying.pop(0).sum().backward()
        for y in flying: y.sum().backward()
        del y, flying; opt.step(); opt.zero_grad()
elif name == "resumed":
    # training goes on from a checkpoint that is read to the GPU
    def parts(): m = nn.Sequential(nn.Embedding(V, 256), *[Block(256) for _ in range(4)], nn.Linear(256, V, bias=False)); return m, torch.optim.AdamW(m.parameters(), fused=True)
    old, opt = parts()
    for p in old.parameters(): p.grad = torch.zeros_like(p)
    opt.step(); file = io.BytesIO(); torch.save((old.state_dict(), opt.state_dict()), file); file.seek(0)
    model = parts()[0].cuda(); opt = torch.optim.AdamW(model.parameters(), fused=True)
    weights, state = torch.load(file, map_location="cuda"); model.load_state_dict(weights); opt.load_state_dict(state); del weights, state
    for ids in batches(4, b=4, t=256): train_step(model, opt, ids)
elif name == "pool":
    # a server that makes room for all keys and values before it serves
    h, layers = 512, 8
    model = nn.ModuleList([nn.ModuleList([nn.Linear(h, 3 * h, bias=False), nn.Linear(h, h, bias=False), nn.Linear(h, 4 * h, bias=False), nn.Linear(4 * h, h, bias=False)]) for _ in range(layers)]).cuda(); emb = nn.Embedding(V, h).cuda()
    room = [[torch.zeros(16384, h, device="cuda") for _ in range(2)] for _ in range(layers)]
    with torch.inference_mode():
        for i in range(10):
            n = 1000 if i % 5 == 0 else 16 + i
            ids, slots = torch.randint(0, V, (n,)).cuda(), torch.arange(n).cuda(); x = emb(ids)
            for (qkv, o, up, down), (k, v) in zip(model, room):
                q, k[slots], v[slots] = qkv(x).chunk(3, -1); x = x + o(torch.softmax(q @ k[:1000].T, -1) @ v[:1000]); x = x + down(torch.relu(up(x)))
            (x @ emb.weight.T).argmax(-1).cpu()
elif name == "loss_in_parts":
    # a loss that works out its gradient in forward, for a part of the tokens at a time
    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, ids):
            gx, gw = torch.empty_like(x), torch.zeros_like(weight)
            for part in torch.arange(len(x)).split(1024):
                p = (x[part[0]: part[-1] + 1] @ weight.T).float().softmax(-1); p[torch.arange(len(part)).cuda(), ids[part[0]: part[-1] + 1]] -= 1
                gx[part[0]: part[-1] + 1] = p @ weight; gw += p.T @ x[part[0]: part[-1] + 1]
            ctx.save_for_backward(gx, gw); return p.sum()
        @staticmethod
        def backward(ctx, g): return ctx.saved_tensors[0] * g, ctx.saved_tensors[1] * g, None
    body = nn.Sequential(nn.Embedding(32000, 256), *[Block(256) for _ in range(4)]).cuda(); head = nn.Linear(256, 32000, bias=False).cuda(); opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], fused=True)
    for _ in range(4):
        ids = torch.randint(0, 32000, (8, 513)).cuda(); loss = Loss.apply(body(ids[:, :-1]).flatten(0, 1), head.weight, ids[:, 1:].flatten()); opt.zero_grad(); loss.backward(); opt.step()
elif name == "best_models":
    # the model is copied on the GPU whenever it is the best so far, and all copies are kept
    model = LM(layers=2, h=256, vocab=1000).cuda(); opt = torch.optim.AdamW(model.parameters(), fused=True); best = []
    for epoch in range(5):
        for ids in batches(2, b=2): train_step(model, opt, ids % 1000)
        best.append(copy.deepcopy(model))
elif name == "converted":
    # weights are rounded layer by layer, and take the place of the old ones
    model = nn.ModuleList([nn.ModuleList([nn.Linear(1024, 2048), nn.Linear(2048, 1024)]) for _ in range(6)]).cuda().half()
    with torch.no_grad():
        x = torch.randn(4096, 1024).cuda().half()
        for layer in model:
            for part in range(4): x = x + layer[1](torch.relu(layer[0](x)))
            for m in layer: m.weight.data = (m.weight.float() / 0.1).round().mul(0.1).half()
elif name == "points":
    # parameters without a module, which grow now and then together with their state
    params = {k: torch.randn(50000, d, device="cuda").requires_grad_() for k, d in (("at", 3), ("color", 24), ("size", 4))}
    opt = torch.optim.Adam([{"params": [p], "name": k} for k, p in params.items()], fused=True)
    def draw():
        color = torch.sigmoid(params["color"]).view(-1, 8, 3).mean(1)
        wide = torch.exp(params["size"]).sum(1, keepdim=True)
        near = (params["at"] * wide).sigmoid()
        return (color * near).relu()
    for i in range(24):
        seen = torch.rand(50000, 3).cuda()
        image = draw()
        loss = (image[:50000] - seen).abs().mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if i % 6 == 5:
            for group in opt.param_groups:
                old = group["params"][0]; state = opt.state.pop(old); more = len(old) // 4
                for k in ("exp_avg", "exp_avg_sq"): state[k] = torch.cat([state[k], torch.zeros_like(state[k][:more])])
                new = torch.cat([old.detach(), old.detach()[:more]]).requires_grad_()
                group["params"][0] = params[group["name"]] = new; opt.state[new] = state; del old, new, state
elif name == "simulation":
    # a field that is fitted through the steps of a wave equation: no module, no batch
    speed = torch.nn.Parameter(torch.ones(1, 1, 480, 480, device="cuda")); opt = torch.optim.Adam([speed], lr=0.01)
    seen = torch.rand(1, 1, 480, 480).cuda()
    for i in range(5):
        at = torch.zeros(1, 1, 480, 480, device="cuda"); pace = torch.zeros_like(at)
        for t in range(12):
            pace = pace + 0.1 * speed * (at.roll(1, 2) + at.roll(-1, 2) + at.roll(1, 3) + at.roll(-1, 3) - 4 * at)
            at = at + 0.1 * pace
        loss = torch.nn.functional.mse_loss(at, seen)
        opt.zero_grad(); loss.backward(); opt.step()
elif name == "factors":
    # a matrix that is factorized: what is compared with it is as large as the largest scores
    given = torch.rand(4000, 3000).cuda()
    rows, columns = (torch.nn.Parameter(torch.randn(n, 32, device="cuda")) for n in (4000, 3000))
    opt = torch.optim.Adam([rows, columns], lr=0.01)
    for i in range(5):
        opt.zero_grad(); loss = ((rows @ columns.T - given) ** 2).mean() + 1e-4 * (rows.norm() + columns.norm())
        loss.backward(); opt.step()
elif name in ("replaced", "added_to"):
    # an optimizer written out, which puts new weights and state in the place of the old ones; with added_to gradients are
    # never dropped, and the recording begins after two steps
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 512 + 64 * (i % 3)), nn.ReLU(), nn.Linear(512 + 64 * (i % 3), 256)) for i in range(6)]).cuda()
    class Own(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                s = self.state[p]
                m, v = s.get("m", torch.zeros_like(p)), s.get("v", torch.zeros_like(p))
                s["m"] = m = 0.9 * m + 0.1 * p.grad
                s["v"] = v = 0.99 * v + 0.01 * p.grad ** 2
                if name == "replaced": p.data = p.data - 1e-3 * m / (v.sqrt() + 1e-8)
                else: p.data -= 1e-3 * m / (v.sqrt() + 1e-8)
    opt = Own(model.parameters(), {})
    def step():
        loss = model(torch.randn(96, 256).cuda()).square().mean()
        if name == "replaced": opt.zero_grad()
        loss.backward(); opt.step()
    if name == "added_to":
        for i in range(2): step()
        record()
    for i in range(4): step()
elif name == "mixers":
    # checkpointed layers that work in a function with many variables, which go at once when it returns
    def mix(x, gate, decay):
        h = g = f = e = d = c = b = a = far = near = state = keep = both = rest = mixed = None # they go in this order
        shifted = x.roll(1, 1); mixed = x * gate; rest = shifted * (1 - gate); both = mixed + rest
        keep = torch.exp(-decay * both.abs()); state = keep * both; near = (state[..., 64:] * keep[..., 64:]).tanh()
        far = near.roll(4, 1) * decay[64:]; a = far.sigmoid(); b = a * near; c = b[..., 64:] + a[..., 64:]; d = c.relu()
        e = d * decay[128:]; f = e[..., 64:] + d[..., 64:]; g = f.tanh(); h = g * f
        return torch.cat([both[..., :192], h], -1)
    class Mixer(nn.Module):
        def __init__(s):
            super().__init__()
            s.gate, s.decay = (nn.Parameter(torch.rand(256)) for _ in range(2)); s.up = nn.Linear(256, 1024); s.down = nn.Linear(1024, 256)
        def forward(s, x): return x + s.down(nn.functional.gelu(s.up(mix(x, s.gate, s.decay))))
    layers = nn.ModuleList([Mixer() for _ in range(6)]).cuda(); opt = torch.optim.AdamW(layers.parameters(), fused=True)
    for i in range(4):
        x = torch.randn(8, 256, 256).cuda()
        for layer in layers: x = checkpoint(layer, x, use_reentrant=False)
        loss = x.square().mean(); opt.zero_grad(); loss.backward(); opt.step()
elif name == "captures":
    # a CUDA graph captured anew for every request, which empties the cache each time
    layers = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).cuda().eval()
    with torch.no_grad():
        for i in range(5):
            x = torch.randn(4096, 512).cuda(); warm = layers(x).relu(); del warm
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g): y = layers(x)
            g.replay(); result = y.cpu(); del g, x, y
elif name == "first_step":
    # training that fails in its first forward pass, of a model that fills a cache of keys and values, too
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.cuda.set_per_process_memory_fraction(0.03)
    model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=512, n_head=8, vocab_size=V)).cuda(); opt = torch.optim.AdamW(model.parameters())
    try:
        for ids in batches(4, b=16, t=512):
            ids = ids.cuda()
            model(input_ids=ids, labels=ids).loss.backward(); opt.step(); opt.zero_grad()
    except torch.OutOfMemoryError: pass
elif name == "first_backward":
    # the first request of the first backward pass fails, and the recording is written at that moment
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=512, n_head=8, vocab_size=V)).cuda(); opt = torch.optim.AdamW(model.parameters())
    def dump(*args): torch.cuda.memory._dump_snapshot(out); os._exit(0)
    torch._C._cuda_attach_out_of_memory_observer(dump)
    ids = torch.randint(0, V, (16, 512)).cuda()
    loss = model(input_ids=ids, labels=ids).loss
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory)
    loss.backward()
elif name == "optimizer_fails":
    # the optimizer's first step fails after its state is made, with what it works in; written at that moment
    model = LM(layers=4).cuda(); opt = torch.optim.AdamW(model.parameters())
    def dump(*args): torch.cuda.memory._dump_snapshot(out); os._exit(0)
    torch._C._cuda_attach_out_of_memory_observer(dump)
    loss_of(model, batches(1)[0].cuda()).backward(); torch.cuda.empty_cache()
    room = 2.0 * sum(p.numel() * p.element_size() for p in model.parameters())
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / torch.cuda.get_device_properties(0).total_memory)
    opt.step()
elif name == "inner_steps":
    # meta-learning: weights that inner steps make, and that the passes after them run with
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 20)).cuda()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i in range(3):
        total = 0
        for task in range(2):
            fast = dict(model.named_parameters())
            x = torch.zeros(256, 2048).cuda()
            y = torch.zeros(256, dtype=torch.long).cuda()
            for inner in range(2):
                loss = nn.functional.cross_entropy(torch.func.functional_call(model, fast, x), y)
                grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=True)
                fast = {k: w - 0.01 * g for (k, w), g in zip(fast.items(), grads)}
            total = total + nn.functional.cross_entropy(torch.func.functional_call(model, fast, x), y)
        opt.zero_grad()
        total.backward()
        opt.step()
elif name == "eval_helper":
    # the model's own methods, which training calls, too, around nearly all of it
    class Helped(LM):
        def trunk(s, ids): return LM.forward(s, ids)
        def forward(s, ids): return s.trunk(ids)
    V = 16; model = Helped(layers=3, h=256, vocab=V).cuda(); opt = torch.optim.SGD(model.parameters(), 0.1)
    for ids in batches(2): train_step(model, opt, ids)
    evaluate(model, batches(2, b=16), True)
elif name in ("hooked_oom", "lengths_oom"):
    # batches of changing lengths; hooked_oom keeps an output of each. On a device of 0.9 GiB, 100 MiB of it the context
    model = LM(layers=4, h=512, vocab=1000).cuda(); opt = torch.optim.AdamW(model.parameters()); kept = []
    if name == "hooked_oom": model.blocks[0].up.register_forward_hook(lambda m, x, y: kept.append(y.detach()))
    try:
        for i in range(12): train_step(model, opt, torch.randint(0, 1000, (8, 256 + 97 * i % 256)))
    except torch.OutOfMemoryError as e: print(e)
elif name == "scaled":
    # half precision with a GradScaler, whose own numbers are made beside the step
    def run():
        model = LM(layers=1, h=256, vocab=500).cuda(); opt = torch.optim.AdamW(model.parameters()); scaler = torch.amp.GradScaler("cuda")
        for ids in batches(3, b=2, t=128):
            with torch.autocast("cuda", torch.float16): loss = loss_of(model, ids.cuda() % 500)
            opt.zero_grad(); scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
    run()
elif name == "stateful":
    # a stream: the state of each call goes into the next, with its graph, and nothing is trained
    class Stream(nn.Module):
        def __init__(s): super().__init__(); s.cell = nn.GRUCell(512, 1024); s.out = nn.Linear(1024, 512)
        def forward(s, x, h):
            for t in range(x.shape[1]):
                h = s.cell(x[:, t], h)
            return s.out(h), h
    model = Stream().cuda(); h = torch.zeros(128, 1024).cuda()
    for i in range(8):
        y, h = model(torch.rand(128, 8, 512).cuda(), h)
elif name == "sliding_window":
    # generation with the keys and values of the last tokens only: each pass returns new caches for the old ones
    h, window = 512, 64
    model = nn.ModuleList([nn.ModuleList([nn.Linear(h, 3 * h), nn.Linear(h, h), nn.Linear(h, 4 * h), nn.Linear(4 * h, h)])
                           for _ in range(6)]).cuda(); emb = nn.Embedding(V, h).cuda()
    def forward(ids, past):
        x, present = emb(ids), []
        for i, (qkv, o, up, down) in enumerate(model):
            q, k, v = qkv(x).chunk(3, -1)
            if past: k, v = (torch.cat(kept, 1) for kept in ((past[i][0], k), (past[i][1], v)))
            present.append((k[:, -window:].contiguous(), v[:, -window:].contiguous()))
            x = x + o(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
            x = x + down(torch.relu(up(x)))
        return (x @ emb.weight.T)[:, -1:].argmax(-1), present
    with torch.no_grad():
        for request in range(2):
            ids, past = forward(torch.randint(0, V, (4, 96)).cuda(), None)
            for i in range(8): ids, past = forward(ids, past)
elif name == "cached_views":
    # generation whose caches are views of what a layer makes of a prompt, queries and all, until they grow
    h = 512
    model = nn.ModuleList([nn.ModuleList([nn.Linear(h, 3 * h), nn.Linear(h, h), nn.Linear(h, 4 * h), nn.Linear(4 * h, h)])
                           for _ in range(6)]).cuda(); emb = nn.Embedding(V, h).cuda()
    def forward(ids, past):
        x, present = emb(ids), []
        for i, (qkv, o, up, down) in enumerate(model):
            q, k, v = qkv(x).chunk(3, -1)
            if past: k, v = (torch.cat(kept, 1) for kept in ((past[i][0], k), (past[i][1], v)))
            present.append((k, v))
            x = x + o(torch.softmax(q @ k.transpose(1, 2), -1) @ v)
            x = x + down(torch.relu(up(x)))
        return (x @ emb.weight.T)[:, -1:].argmax(-1), present
    with torch.no_grad():
        for request in range(2):
            ids, past = forward(torch.randint(0, V, (4, 48)).cuda(), None)
            for i in range(8): ids, past = forward(ids, past)
elif name == "beam_search":
    # beams of GPT-2, whose caches are put in another order after every pass
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=512, n_head=8, vocab_size=V)).cuda().eval()
    with torch.no_grad():
        for request in range(2):
            ids, past = torch.randint(0, V, (4, 48)).cuda(), None
            for i in range(10):
                said = model(ids, past_key_values=past, use_cache=True)
                past = said.past_key_values; ids = said.logits[:, -1:].argmax(-1)
                past.reorder_cache(torch.randint(0, 4, (4,)).cuda())
elif name == "generate":
    # transformers' own generate, which asks the device whether all sequences are finished: the stand-in says so at last
    import ctypes
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
                                         vocab_size=V)).cuda().bfloat16().eval()
    device, tokens = ctypes.CDLL(None), []
    def count(ids, logits):
        tokens.append(ids); device.fakecuda_set_bool(len(tokens) % 10 == 0)
        return logits
    for request in range(2):
        ids = torch.ones(4, 64, dtype=torch.long, device="cuda"); tokens.clear()
        model.generate(ids, max_new_tokens=10, do_sample=False, eos_token_id=None, pad_token_id=0, logits_processor=[count])
elif name == "setup_caches":
    # generation with caches of full length, which a method of the model makes before it serves
    class Attention(nn.Module):
        def __init__(s, h): super().__init__(); s.qkv, s.o = nn.Linear(h, 3 * h, bias=False), nn.Linear(h, h, bias=False)
        def forward(s, x, at):
            q, k, v = s.qkv(x).chunk(3, -1)
            for c, new in zip(s.cache, (k, v)): c[:, at : at + x.shape[1]] = new
            return s.o(torch.softmax(q @ s.cache[0].transpose(1, 2), -1) @ s.cache[1])
    class Transformer(nn.Module):
        def __init__(s, h=512, layers=6):
            super().__init__(); s.emb = nn.Embedding(V, h); s.attn = nn.ModuleList([Attention(h) for _ in range(layers)])
            s.mlp = nn.ModuleList([nn.Sequential(nn.Linear(h, 4 * h), nn.ReLU(), nn.Linear(4 * h, h)) for _ in range(layers)])
        def setup_caches(s, batch, length):
            for a in s.attn: a.cache = [torch.zeros(batch, length, 512, device="cuda") for _ in range(2)]
        def forward(s, ids, at):
            x = s.emb(ids)
            for a, m in zip(s.attn, s.mlp): x = x + a(x, at); x = x + m(x)
            return (x[:, -1:] @ s.emb.weight.T).argmax(-1)
    model = Transformer().cuda()
    with torch.no_grad():
        model.setup_caches(4, 256)
        ids = model(torch.randint(0, V, (4, 128)).cuda(), 0)
        for i in range(12): ids = model(ids, 128 + i)
elif name == "master_copies":
    # half precision with the program's own copies of the weights in fp32, for which gradients are copied, too
    model = LM(layers=4, h=256).cuda(); master = [p.detach().clone().requires_grad_() for p in model.parameters()]
    model.half(); opt = torch.optim.AdamW(master)
    for ids in batches(4, b=4):
        (loss_of(model, ids.cuda()) * 1024).backward()
        for m, p in zip(master, model.parameters()): m.grad = p.grad.float() / 1024
        opt.step(); opt.zero_grad(); model.zero_grad()
        with torch.no_grad():
            for m, p in zip(master, model.parameters()): p.copy_(m)
elif name == "lbfgs":
    # an optimizer that runs forward and backward itself
    model = nn.Sequential(nn.Linear(2, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(),
                          nn.Linear(512, 1)).cuda()
    opt = torch.optim.LBFGS(model.parameters(), history_size=5, max_iter=4)
    x, y = torch.rand(8192, 2).cuda(), torch.rand(8192, 1).cuda()
    def closure():
        opt.zero_grad(); loss = nn.functional.mse_loss(model(x), y); loss.backward()
        return loss
    for i in range(4): opt.step(closure)
elif name == "lengths_kept":
    # batches of changing lengths, of which a list keeps the logits
    model = LM(layers=2, h=256, vocab=1000).cuda(); opt = torch.optim.AdamW(model.parameters(), fused=True); kept = []
    for i in range(12):
        ids = torch.randint(0, 1000, (8, 256 + 97 * i % 250)).cuda(); logits = model(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        opt.zero_grad(); loss.backward(); opt.step(); kept.append(logits.detach())
elif name == "label_smoothing":
    model = LM(layers=4, h=256).cuda(); opt = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(4, b=4):
        ids = ids.cuda()
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten(), label_smoothing=0.1)
        opt.zero_grad(); loss.backward(); opt.step()
elif name == "dpo_pairs":
    # log-probabilities of pairs of answers, by a model and by its reference
    model, ref = LM(layers=4, h=256).cuda(), LM(layers=4, h=256).cuda().requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), fused=True)
    def logps(m, ids): return m(ids)[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).sum((1, 2))
    for ids in batches(4, b=4):
        ids = ids.cuda()
        with torch.no_grad(): r = logps(ref, ids)
        d = logps(model, ids) - r; loss = -nn.functional.logsigmoid(d[:2] - d[2:]).mean()
        opt.zero_grad(); loss.backward(); opt.step()
elif name == "adagrad":
    # an optimizer that makes its state when it is built
    model = LM(layers=4, h=256).cuda(); opt = torch.optim.Adagrad(model.parameters())
    for ids in batches(4, b=4): train_step(model, opt, ids)
else: raise SystemExit("unknown " + name)
torch.cuda.memory._dump_snapshot(out)
