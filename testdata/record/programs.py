"""The programs that are recorded: what users run, in small. Each is a function of a Run and ends by itself or with
an out-of-memory error, which `record.py` expects where EXPECTED says so."""

import contextlib

import torch
import torch.nn.functional as F

import models

PROGRAMS = {}
EXPECTED = {}  # of a program that fails: the id of the finding that says why
DEFECTS = {}  # of a program with a mistake: (kind, a piece of the line that makes it)
MEMORY = {}  # bytes that a program may use, where its mistake shall fill the memory
CHANGED = {}  # the program with the advised change: its name
BUDGETS = {}  # of a program that a budget may be compared with: the flags of `vramscope budget`
ENVIRONMENT = {}  # variables a program is started with


def program(expected=None, defect=None, gib=None, changed=None, environment=None, budget=None):
    def register(f):
        name = f.__name__
        PROGRAMS[name] = f
        for table, value in ((EXPECTED, expected), (DEFECTS, defect), (MEMORY, gib and int(gib * 2**30)), (CHANGED, changed),
                             (ENVIRONMENT, environment),
                             (BUDGETS, budget)):
            if value:
                table[name] = value
        return f
    return register


def language_loss(run, model, ids, vocabulary=32000):
    """Cross-entropy, in the two operations that PyTorch's has."""
    logits = model(ids)
    copied = logits[:, :-1].reshape(-1, vocabulary)
    flat = copied.float()
    logarithms = F.log_softmax(flat, -1)
    run.logits(logits, copied, flat, logarithms)
    return F.nll_loss(logarithms, ids[:, 1:].reshape(-1)), logits


def learn(run, model, optimizer, loss, scaler=None):
    """What follows the forward pass of a step."""
    run.at("backward")
    (scaler.scale(loss) if scaler else loss).backward()
    run.after_backward(model)
    run.at("optimizer")
    scaler.step(optimizer) if scaler else optimizer.step()
    if scaler:
        scaler.update()
    run.after_step(optimizer)
    run.at("zero_grad")
    optimizer.zero_grad()


def train(run, model, optimizer, steps=4, batch=4, length=512, autocast=None, lengths=None, scaler=None, keep=None, compiled=None):
    """A training loop: data, forward, backward, optimizer, each step."""
    run.model(model, 32000)
    called = model if compiled is None else compiled
    for step in range(steps):
        run.at("data", step)
        ids = torch.randint(0, 32000, (batch, lengths[step] if lengths else length)).to("cuda", non_blocking=True)
        run.mark("inputs", ids)
        run.at("forward")
        with torch.autocast("cuda", autocast or torch.bfloat16, enabled=autocast is not None), contextlib.nullcontext() if compiled is not None else run.inside():
            loss, logits = language_loss(run, called, ids)
            if keep:
                keep(logits)
        del logits
        if compiled is not None:
            run.graph(loss)
        learn(run, model, optimizer, loss, scaler)
        print(f"step {step} loss {loss.item():.4f} max_allocated {torch.cuda.max_memory_allocated()}")
        run.stepped(step)
    run.dump()


def plain(run, kind="gpt2", how="sdpa", dtype=None, optimizer=None, checkpointing=False, **loop):
    model = models.Language(kind, how, checkpointing=checkpointing).to("cuda", dtype)
    train(run, model, optimizer(model) if optimizer else torch.optim.AdamW(model.parameters(), 1e-4), **loop)


@program()
def gpt2_eager(run):
    plain(run, how="eager")


@program()
def gpt2_sdpa(run):
    plain(run)


@program()
def gpt2_flash_bf16(run):
    plain(run, how="flash", dtype=torch.bfloat16)


@program()
def llama_eager(run):
    plain(run, "llama", "eager")


@program()
def llama_sdpa_autocast_bf16(run):
    plain(run, "llama", autocast=torch.bfloat16)


@program()
def gpt2_autocast_fp16_scaler(run):
    plain(run, autocast=torch.float16, scaler=torch.amp.GradScaler("cuda"))


@program()
def llama_compiled(run):
    model = models.Language("llama").to("cuda")
    train(run, model, torch.optim.AdamW(model.parameters()), autocast=torch.bfloat16, compiled=torch.compile(model))


@program()
def llama_compiled_graphs(run):
    model = models.Language("llama", layers=4).to("cuda")
    train(run, model, torch.optim.AdamW(model.parameters()), steps=5, compiled=torch.compile(model, mode="reduce-overhead"))


@program()
def gpt2_checkpointing(run):
    plain(run, checkpointing=True)


@program()
def gpt2_adamw_foreach(run):
    plain(run, optimizer=lambda m: torch.optim.AdamW(m.parameters(), foreach=True))


@program()
def gpt2_adamw_fused(run):
    plain(run, optimizer=lambda m: torch.optim.AdamW(m.parameters(), fused=True))


@program()
def gpt2_adamw_8bit(run):
    import bitsandbytes  # where it is missing, the program is passed over
    plain(run, optimizer=lambda m: bitsandbytes.optim.AdamW8bit(m.parameters()))


def transformers_model(run, kind, **more):
    """A model of transformers with random weights; its configuration is written beside the recording."""
    import transformers

    configs = {"gpt2": lambda: transformers.GPT2Config(n_layer=8, vocab_size=32000, **more),
               "llama": lambda: transformers.LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=8,
                                                         num_attention_heads=12, num_key_value_heads=4, **more)}
    config = configs[kind]()
    config.save_pretrained(run.folder)
    model = transformers.AutoModelForCausalLM.from_config(config).to("cuda")
    return model


def transformers_loop(run, kind, autocast=None):
    model = transformers_model(run, kind)
    optimizer = torch.optim.AdamW(model.parameters())
    run.model(model, 32000)
    for step in range(3):
        run.at("data", step)
        ids = torch.randint(0, 32000, (4, 512)).to("cuda")
        run.mark("inputs", ids)
        run.at("forward")
        with torch.autocast("cuda", torch.bfloat16, enabled=bool(autocast)), run.inside():
            out = model(ids, labels=ids)
        run.mark("logits", out.logits)
        learn(run, model, optimizer, out.loss)
        run.stepped(step)


@program(budget="--batch 4 --seq 512 --precision fp32")
def transformers_gpt2(run):
    transformers_loop(run, "gpt2")


@program(budget="--batch 4 --seq 512 --precision bf16-mixed")
def transformers_llama_autocast(run):
    transformers_loop(run, "llama", autocast=True)


@program()
def convolutions(run):
    model = models.Convolutions().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    run.model(model)
    for step in range(4):
        run.at("data", step)
        x, y = torch.randn(32, 3, 224, 224).to("cuda"), torch.randint(0, 1000, (32,)).to("cuda")
        run.mark("inputs", x, y)
        run.at("forward")
        with run.inside():
            scores = model(x)
            run.logits(scores)
            loss = F.cross_entropy(scores, y)
        learn(run, model, optimizer, loss)
        print(f"step {step} loss {loss.item():.4f}")
        run.stepped(step)


@program(defect=("retained_graph", "entropies.append(entropy)"), changed="retained_graph_mended", expected="oom_true_shortage")
def retained_graph(run):
    entropies = []

    def keep(logits):
        likely = logits.float().softmax(-1)
        entropy = -(likely * likely.log()).sum(-1).mean()
        run.retain(likely)
        entropies.append(entropy)

    plain(run, steps=400, batch=8, keep=keep)


@program()
def retained_graph_mended(run):
    entropies = []

    def keep(logits):
        likely = logits.float().softmax(-1)
        entropies.append(-(likely * likely.log()).sum(-1).mean().detach())

    plain(run, steps=12, batch=8, keep=keep)


@program(defect=("growing_list", "history.append(logits)"))
def growing_list(run):
    model = models.Language("gpt2", layers=4).to("cuda").eval()
    run.model(model, 32000)
    history = []
    for step in range(12):
        run.at("data", step)
        ids = torch.randint(0, 32000, (2, 512)).to("cuda")
        run.mark("inputs", ids)
        run.at("forward")
        with torch.no_grad():
            logits = model(ids)
        run.mark("logits", logits)
        run.retain(logits)
        history.append(logits)
        print(f"batch {step} allocated {torch.cuda.memory_allocated()}")
        run.stepped(step)


def device_bytes():
    return torch.cuda.get_device_properties(0).total_memory


@program(expected="oom_true_shortage")
def shortage(run):
    plain(run, batch=device_bytes() >> 27, length=1024)  # scores alone take as much in 32 bits


@program(expected="oom_memory_fraction")
def memory_fraction(run):
    torch.cuda.set_per_process_memory_fraction(min(1.0, 6 * 2**30 / device_bytes()))
    plain(run, batch=64, length=1024)


@program(expected="oom_fragmentation", changed="varying_lengths_expandable")
def varying_lengths(run):
    """Blocks of growing sizes, of which a half stays: what is free lies in pieces too small for the next."""
    kept = []
    for step in range(96):
        run.at("data", step)
        size = device_bytes() // 90 + (2 * step << 20)
        scratch = torch.empty(size, dtype=torch.uint8, device="cuda")
        kept.append(torch.empty(size // 2, dtype=torch.uint8, device="cuda"))
        del scratch
        print(f"step {step} reserved {torch.cuda.memory_reserved()}")


@program(environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
def varying_lengths_expandable(run):
    varying_lengths(run)


@program()
def training_lengths(run):
    plain(run, steps=8, batch=4, lengths=[256, 384, 512, 300, 640, 450, 700, 333])


@program(environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
def training_lengths_expandable(run):
    training_lengths(run)


@program(environment={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"})
def training_lengths_split(run):
    training_lengths(run)


@program(gib=6)
def pending_free(run):
    """Blocks that a copying stream still uses are asked for again before it is through. The allocator waits for
    them when nothing else is left, and counts that as a retry."""
    side = torch.cuda.Stream()
    host = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    for step in range(12):
        run.at("data", step)
        made = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").fill_(step)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host.copy_(made, non_blocking=True)
            made.record_stream(side)
        del made
    torch.cuda.synchronize()


@program()
def side_stream(run):
    """Batches are copied ahead on another stream."""
    side = torch.cuda.Stream()
    model = models.Language("gpt2", layers=4).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    run.model(model, 32000)

    def ahead():
        with torch.cuda.stream(side):
            ids = torch.randint(0, 32000, (4, 512)).pin_memory().to("cuda", non_blocking=True)
        run.mark("inputs", ids)
        return ids

    run.at("data", 0)
    following = ahead()
    for step in range(4):
        torch.cuda.current_stream().wait_stream(side)
        ids = following
        ids.record_stream(torch.cuda.current_stream())
        run.at("data", step)
        following = ahead()
        run.at("forward")
        with run.inside():
            loss, _ = language_loss(run, model, ids)
        learn(run, model, optimizer, loss)
        run.stepped(step)


@program()
def generation(run):
    """Decoding with keys and values that grow by concatenation."""
    model = models.Language("llama").to("cuda", torch.bfloat16).eval()
    run.model(model, 32000)

    class Cache:
        keys = values = None

        def __call__(self, k, v):
            self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)
            self.values = v if self.values is None else torch.cat([self.values, v], 2)
            run.mark("kv_cache", self.keys, self.values)
            return self.keys, self.values

    with torch.no_grad():
        for request in range(2):
            run.at("data", request)
            ids = torch.randint(0, 32000, (4, 256)).to("cuda")
            run.mark("inputs", ids)
            caches = [Cache() for _ in model.blocks]
            run.at("inference")
            for _ in range(48):
                logits = model(ids, caches)
                run.mark("logits", logits)
                ids = logits[:, -1:].argmax(-1)
            run.stepped(request)
        run.dump()


@program(environment={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})
def cuda_malloc_async(run):
    gpt2_sdpa(run)


@program(expected="oom_other_process")
def other_process(run):
    """Somebody else holds most of the GPU: `record.py` starts it."""
    free, _ = torch.cuda.mem_get_info()
    plain(run, batch=max(8, free // (110 << 20)), length=1024)
