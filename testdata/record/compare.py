"""Lays what vramscope says beside what was measured, as Markdown tables.

    python testdata/record/compare.py BINARY OUT >accuracy.md

OUT is what record.py wrote. Nothing here needs a GPU.
"""

import gzip
import json
import pathlib
import subprocess
import sys


class Tool:
    def __init__(self, binary):
        self.binary = binary

    def lines(self, *args):
        p = subprocess.run([self.binary, *map(str, args)], capture_output=True, text=True)
        if p.returncode == 2:
            raise RuntimeError(p.stderr.strip()[-200:])
        return [json.loads(line) for line in p.stdout.splitlines()]

    def answer(self, *args):
        p = subprocess.run([self.binary, *map(str, args), "--format", "json"], capture_output=True, text=True)
        if p.returncode == 2:
            raise RuntimeError(p.stderr.strip()[-200:])
        return json.loads(p.stdout)


def table(title, heads, rows):
    print(f"## {title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join('' if x is None else str(x) for x in row)} |")
    print()


def off(said, measured):
    return None if not measured or isinstance(measured, bool) or said is None else f"{100 * (said / measured - 1):+.2f} %"


def category_share(tool, folder, variant, facts):
    """Percent of the bytes at the peak whose category is right, and of those that are wrong though sure."""
    truth = json.load(gzip.open(folder / "truth.json.gz"))
    rows = tool.lines("export", "--table", "allocations", "--format", "jsonl", folder / f"snapshot_{variant}.pickle.gz")
    made = sorted((r for r in rows if r["alloc_event"] is not None), key=lambda r: r["alloc_event"])[:facts["labelled_allocs"]]
    changes = []
    for i, r in enumerate(made):
        changes.append((r["alloc_event"], r["allocated_bytes"]))
        if r["free_completed_event"] is not None:
            changes.append((r["free_completed_event"], -r["allocated_bytes"]))
    now = best = peak = 0
    for event, size in sorted(changes):
        now += size
        if now > best:
            best, peak = now, event
    right = wrong = 0
    for i, r in enumerate(made):
        if r["alloc_event"] <= peak and (r["free_completed_event"] is None or r["free_completed_event"] > peak):
            if r["category"] == truth["categories"][truth["category"][i]]:
                right += r["allocated_bytes"]
            elif r["confidence"] >= 0.9:
                wrong += r["allocated_bytes"]
    return round(100 * right / max(1, best), 2), round(100 * wrong / max(1, best), 2)


def main():
    tool, out = Tool(sys.argv[1]), pathlib.Path(sys.argv[2])
    runs = {p.parent.name: json.loads(p.read_text()) for p in sorted(out.glob("*/run.json"))}
    some = next(iter(runs.values()))
    print(f"# What it says, and what was measured\n\n{some['gpu']}, PyTorch {some['torch']}, CUDA {some['cuda']}.\n")
    peaks, categories, verdicts, changes, budgets, failed = [], [], [], [], [], []
    for name, run in runs.items():
        folder = out / name
        for variant, facts in run["variants"].items():
            if not facts["ok"]:
                failed.append((name, variant, facts.get("why") or "other allocations than with the labeller"))
                continue
            try:
                categories.append((name, variant, *category_share(tool, folder, variant, facts)))
            except (RuntimeError, KeyError) as e:
                failed.append((name, variant, e))
        snapshot = folder / "snapshot_all.pickle.gz"
        if not snapshot.exists():
            continue
        report = tool.answer("analyze", snapshot)
        device = next(d for d in report["devices"] if d["events"])
        peaks.append((name, device["peaks"]["allocated"]["bytes"], run["max_memory_allocated"], device["peaks"]["reserved"]["bytes"],
                      run["max_memory_reserved"]))
        said = [f["id"] for f in device["findings"]]
        leaks = sorted({x["kind"] for x in device["leaks"] if x["defect"] and not x["suspected"]})
        wanted = sorted(x["kind"] for x in run["defects"])
        verdicts.append((name, run["expected"], next((x for x in said if x.startswith("oom_")), None), ", ".join(wanted), ", ".join(leaks)))
        if run["changed"] in runs and run["defects"]:
            replayed = tool.answer("whatif", snapshot, "--change", "leak=fixed")["scenarios"][-1]
            changes.append((name, "leak=fixed: peak allocated", replayed["peak_allocated_bytes"], runs[run["changed"]]["max_memory_allocated"]))
        elif run["changed"] in runs:
            changes.append((name, f"as {run['changed']}: fails", bool(tool.answer("whatif", snapshot, "--conf",
                            runs[run["changed"]]["settings"])["scenarios"][-1]["oom"]), bool(runs[run["changed"]]["oom"])))
        for other, settings in ((f"{name}_expandable", "expandable_segments:True"), (f"{name}_split", "max_split_size_mb:64")):
            if other in runs and not run["oom"]:  # what comes after a failure isn't recorded
                replayed = tool.answer("whatif", snapshot, "--conf", settings)["scenarios"][-1]
                changes.append((name, f"{settings}: peak reserved", replayed["peak_reserved_bytes"], runs[other]["max_memory_reserved"]))
        if run["budget"]:
            b = tool.answer("budget", "--config", folder / "config.json", *run["budget"].split())
            budgets.append((name, run["budget"], b["peak_bytes"], run["max_memory_allocated"]))
    table("Peaks", ("run", "allocated, said", "PyTorch's counter", "reserved, said", "PyTorch's counter"), peaks)
    table("Categories at the peak", ("run", "stacks", "right, %", "wrong though sure, %"), categories)
    table("Verdicts and mistakes", ("run", "why it fails", "said", "mistakes", "said"), verdicts)
    table("Replays, and what was really run", ("run", "change", "said", "measured", "off"), [(*c, off(c[2], c[3])) for c in changes])
    table("Budgets", ("run", "setting", "said", "measured", "off"), [(*b, off(b[2], b[3])) for b in budgets])
    table("Outside PyTorch", ("run", "bytes that the driver counts besides"), [(n, r["outside_pytorch_bytes"]) for n, r in runs.items()])
    if (out / "overhead.json").exists():
        rows = json.loads((out / "overhead.json").read_text())
        table("What recording costs", ("recording", "median step, ms"), [(r["recording"], round(1000 * r["median_step_seconds"], 2)) for r in rows])
    table("Not compared", ("run", "stacks", "why"), failed)
    problems = out / "problems.txt"
    if problems.exists() and problems.read_text():
        print("## Not recorded\n\n" + "".join(f"- {line}\n" for line in problems.read_text().splitlines()))


if __name__ == "__main__":
    main()
