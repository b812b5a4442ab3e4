"""Records the programs of programs.py on this machine's GPU, each with all stacks, Python's alone and none, and once
more with the labeller inside; then packs what came of it.

    python testdata/record/record.py -o OUT            all of it, in less than 8 minutes on one GPU
    python testdata/record/record.py -o OUT --only gpt2_sdpa --only pending_free

Needs PyTorch and nothing else: no downloads, random weights, made-up data. A program that this machine can't run
is named with the reason, never left out silently; the exit code is 1 then.
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import pickle
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
VARIANTS = ("truth", "all", "python", "none")
MOST_BYTES = 60_000_000  # of the archive


class Run:
    """What a program sees of its recording."""

    def __init__(self, variant, folder, recorder):
        import labeller

        self.labelled = variant == "truth"
        self.labels = labeller.Labeller() if self.labelled else labeller.Nothing()
        self.folder, self.recorder = folder, recorder
        self.times, self.last = [], None
        for name in ("at", "mark", "logits", "retain", "model", "graph", "after_backward", "after_step", "inside"):
            setattr(self, name, getattr(self.labels, name))

    def dump(self):
        """A snapshot while the program's variables are there; one more is written when it has ended."""
        if self.recorder is not None and not self.labelled:
            self.recorder.dump("step")

    def stepped(self, step):
        """The end of a step, for step times."""
        import torch

        torch.cuda.synchronize()
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(now - self.last)
        self.last = now


def one(name, variant, folder):
    """Runs a program in this process, which does nothing else."""
    import programs
    import torch
    import vramscope

    torch.manual_seed(0)
    torch.cuda.init()
    if name in programs.MEMORY:
        torch.cuda.set_per_process_memory_fraction(programs.MEMORY[name] / torch.cuda.get_device_properties(0).total_memory)
    context = contextlib.nullcontext()
    if variant != "plain":
        context = vramscope.recording(folder / variant, stacks="all" if variant == "truth" else variant, holders=variant == "all")
    facts, error = {}, None
    free_before, total = torch.cuda.mem_get_info()
    with context as recorder:
        run = Run(variant, folder, recorder)
        try:
            programs.PROGRAMS[name](run)
        except torch.OutOfMemoryError as e:
            error = str(e)
            print(f"torch.OutOfMemoryError: {e}")
        stats = torch.cuda.memory_stats()
        recorded = torch.cuda.get_allocator_backend() == "native"
        if variant == "truth" and recorded:
            torch.cuda.synchronize()
            trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    if variant == "truth" and recorded:
        json.dump(run.labels.table(trace), gzip.open(folder / "truth.json.gz", "wt"))
    shutil.rmtree(folder / "truth", ignore_errors=True)
    free_after, _ = torch.cuda.mem_get_info()
    facts.update(oom=error, step_seconds=run.times, memory_stats=dict(stats), device_total=total,
                 outside_pytorch_bytes=total - free_after - torch.cuda.memory_reserved(), free_before=free_before,
                 torch=torch.__version__, cuda=torch.version.cuda, gpu=torch.cuda.get_device_name(), python=platform.python_version(),
                 settings=os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))
    (folder / f"facts_{variant}.json").write_text(json.dumps(facts))


@contextlib.contextmanager
def monitor(folder):
    """nvidia-smi's series, where there is one."""
    if not shutil.which("nvidia-smi"):
        yield
        return
    query = ["nvidia-smi", "--query-gpu=timestamp,index,name,memory.total,memory.used,memory.free,utilization.gpu",
             "--format=csv", "-lms", "200"]
    with open(folder / "gpu.csv", "w") as out:
        p = subprocess.Popen(query, stdout=out, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            p.terminate()
            p.wait()


HOLDER = "import torch, sys; t = torch.cuda.mem_get_info(); x = torch.empty(int(t[0] * .7), dtype=torch.uint8, device='cuda'); " \
         "print('held', flush=True); sys.stdin.read()"


@contextlib.contextmanager
def somebody_else(name):
    if name != "other_process":
        yield
        return
    p = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.readline()
    try:
        yield
    finally:
        p.stdin.close()
        p.wait()


def forked(name, variant, folder, log):
    """Runs a program in a fork of this process, which has loaded PyTorch, but not brought CUDA up: seconds are saved."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        end(name, variant, folder)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def end(name, variant, folder):
    """Runs a program and ends this process, whatever happens."""
    code = 3
    try:
        one(name, variant, folder)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def sizes(snapshot):
    """The requests of a recording in order; what it was written by is trusted here, since this program wrote it."""
    with gzip.open(snapshot) as f:
        traces = pickle.load(f)["device_traces"]
    trace = max(traces, key=len)
    return [e["size"] for e in trace if e["action"] == "alloc"], len(trace)


def record(name, folder, programs):
    """All variants of a program; what is wrong with it, or None."""
    folder.mkdir(parents=True)
    environment = {**os.environ, **programs.ENVIRONMENT.get(name, {})}
    for variant in VARIANTS:
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(open(folder / f"log_{variant}.txt", "w"))
            if variant == "all":
                stack.enter_context(monitor(folder))
            stack.enter_context(somebody_else(name))
            if name in programs.ENVIRONMENT:  # read when PyTorch is loaded
                command = [sys.executable, str(HERE / "record.py"), "--one", name, variant, str(folder)]
                code = subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT).returncode
            else:
                code = forked(name, variant, folder, log)
        if code:
            last = (folder / f"log_{variant}.txt").read_text().strip().splitlines()[-1:]
            return f"{variant}: exit code {code}: {' '.join(last)[:200]}"
    return join(name, folder, programs)


def join(name, folder, programs):
    """Puts the variants beside the truth, and checks that they are the same program."""
    facts = json.loads((folder / "facts_all.json").read_text())
    expected = programs.EXPECTED.get(name)
    if bool(facts["oom"]) != bool(expected):
        return f"expected {expected or 'no failure'}, but {'it failed' if facts['oom'] else 'nothing failed'}"
    labelled = folder / "truth.json.gz"
    truth = json.load(gzip.open(labelled)) if labelled.exists() else {"size": []}
    run = {"name": name, **{k: facts[k] for k in ("torch", "cuda", "gpu", "python", "settings", "device_total", "outside_pytorch_bytes",
                                                 "memory_stats", "step_seconds")},
           "max_memory_allocated": facts["memory_stats"].get("allocated_bytes.all.peak"),
           "max_memory_reserved": facts["memory_stats"].get("reserved_bytes.all.peak"),
           "oom": facts["oom"] and {"message": facts["oom"], "verdict": expected}, "expected": expected, "changed": programs.CHANGED.get(name), "budget": programs.BUDGETS.get(name),
           "capacity_allowed": programs.MEMORY.get(name), "defects": [], "variants": {}}
    if name in programs.DEFECTS:
        kind, text = programs.DEFECTS[name]
        lines = (HERE / "programs.py").read_text().splitlines()
        line = next(i for i, l in enumerate(lines, 1) if text in l and "@program" not in l)
        run["defects"] = [{"kind": kind, "culprit": {"file": "programs.py", "line": line, "text": text}}]
    problem = None
    for variant in VARIANTS[1:]:
        dumps = sorted((folder / variant).glob("*.pickle.gz"))
        if not dumps:
            run["variants"][variant] = {"ok": False, "why": "no snapshot: the allocator has no recorder"}
            continue
        for p in (folder / variant).iterdir():
            stem, dot, rest = p.name.partition(".")
            if dot and stem.count("-") > 1:
                why = "" if p.name.startswith(dumps[-1].name.split(".")[0]) else "_" + stem.rsplit("-", 1)[1]
                p.rename(folder / f"snapshot_{variant}{why}.{rest}")
        target = folder / f"snapshot_{variant}.pickle.gz"
        shutil.rmtree(folder / variant)
        made, events = sizes(target)
        same = next((i for i, (a, b) in enumerate(zip(made, truth["size"])) if a != b), min(len(made), len(truth["size"])))
        ok = same >= 0.98 * max(len(made), len(truth["size"]))
        run["variants"][variant] = {"ok": ok, "first_ordinal": 0, "first_event": 0, "events": events, "allocs": len(made),
                                    "addresses": "own", "labelled_allocs": same}
        if not ok:
            problem = f"{variant}: the same as with the labeller for {same} of {len(made)} allocations only"
    (folder / "run.json").write_text(json.dumps(run, indent=1))
    shutil.copy(folder / "log_all.txt", folder / "log.txt")
    shutil.copy(HERE / "programs.py", folder / "script_programs.py")
    for pattern in ("log_*.txt", "facts_*.json"):
        for p in folder.glob(pattern):
            p.unlink()
    return problem


def overhead(out, programs):
    """Step times of a real step with a recording and without, in turn."""
    rows = []
    for _ in range(2):
        for variant in ("plain", "python", "all"):
            folder = out / "overhead"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            p = subprocess.run([sys.executable, str(HERE / "record.py"), "--one", "gpt2_sdpa", variant, str(folder)], capture_output=True, text=True)
            if p.returncode:
                return f"overhead: {p.stderr.strip()[-200:]}"
            rows.append((variant, statistics.median(json.loads((folder / f"facts_{variant}.json").read_text())["step_seconds"])))
    shutil.rmtree(out / "overhead")
    (out / "overhead.json").write_text(json.dumps([{"recording": v, "median_step_seconds": s} for v, s in rows], indent=1))
    return None


def pack(out):
    """The archive of all that was recorded, without the largest runs where it would be too large."""
    archive = out.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        total = 0
        for folder in sorted((p for p in out.iterdir()), key=lambda p: sum(f.stat().st_size for f in p.rglob("*"))):
            size = sum(f.stat().st_size for f in folder.rglob("*")) or folder.stat().st_size
            if total + size > MOST_BYTES:
                print(f"{folder.name}: {size:,} bytes: not packed, the archive would be over {MOST_BYTES:,}")
                continue
            total += size
            tar.add(folder, folder.name)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    parser.add_argument("--only", action="append", help="this program alone (repeatable)")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    a = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python")]
    if a.one:
        end(a.one[0], a.one[1], pathlib.Path(a.one[2]))
    if not a.output or a.output.exists():
        parser.error("-o OUT: a folder that doesn't exist yet")
    import programs

    problems, began = [], time.time()
    for name in a.only or programs.PROGRAMS:
        at = time.time()
        problem = record(name, a.output / name, programs)
        print(f"{time.time() - began:5.0f} s  {name}  {time.time() - at:.0f} s  {problem or 'recorded'}", flush=True)
        if problem:
            problems.append(f"{name}: {problem}")
    if not a.only:
        problem = overhead(a.output, programs)
        if problem:
            problems.append(problem)
    (a.output / "problems.txt").write_text("".join(p + "\n" for p in problems))
    pack(a.output)
    print(f"{len(problems)} problems, {time.time() - began:.0f} s", *problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
