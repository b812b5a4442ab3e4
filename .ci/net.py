"""net.py [-o FILE] [--drop COLUMN]... BINARY FOLDER...: what a binary says of every recording and log there, as hashes.
net.py --compare BEFORE AFTER: which of them changed.

A line is the hash of `analyze --format json` (without the field `tool`), that of `export --table allocations --format csv`
(- where there is none; --drop leaves columns and fields out, to compare with a binary that lacks them) and the path.
It is for refactoring: the same hashes before and after a change prove that the change kept every answer.
"""
import argparse
import concurrent.futures
import csv
import hashlib
import io
import json
import os
import subprocess
import sys

NOT_EVIDENCE = (".py", ".tsv", ".md", ".sh", "truth.json.gz", "index.tsv", "run.json", "expected.json", "counterfactual.json")


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def without(value, drop):
    if isinstance(value, dict):
        return {k: without(v, drop) for k, v in value.items() if k not in drop}
    return [without(v, drop) for v in value] if isinstance(value, list) else value


def report(binary, path, drop):
    p = subprocess.run([binary, "analyze", "--format", "json", path], capture_output=True)
    if p.returncode:
        return digest(p.stderr), None
    document = json.loads(p.stdout)
    return digest(json.dumps(without(document, drop | {"tool"}), sort_keys=True).encode()), document


def allocations(binary, path, drop):
    p = subprocess.run([binary, "export", path, "--table", "allocations", "--format", "csv"], capture_output=True)
    if p.returncode:
        return digest(p.stderr)
    if not drop:
        return digest(p.stdout)
    rows = csv.reader(io.StringIO(p.stdout.decode()))
    header = next(rows)
    keep = [i for i, name in enumerate(header) if name not in drop]
    h = hashlib.sha256()
    for row in [header, *rows]:
        h.update(",".join(row[i] for i in keep).encode() + b"\n")
    return h.hexdigest()[:16]


def one(binary, path, drop):
    said, document = report(binary, path, drop)
    table = allocations(binary, path, drop) if document and document["devices"] else "-"
    return f"{said} {table} {path}"


def compare(before, after):
    old, new = ({line.split(" ", 2)[2]: line.split(" ", 2)[:2] for line in open(name).read().splitlines()} for name in (before, after))
    changed = 0
    for path in sorted(old.keys() | new.keys()):
        a, b = old.get(path), new.get(path)
        if a != b:
            changed += 1
            what = "only before" if not b else "only after" if not a else " ".join(w for w, x, y in zip(("report", "allocations"), a, b) if x != y)
            print(f"{what}: {path}")
    print(f"{len(new)} inputs, {changed} changed")
    return 1 if changed else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--drop", action="append", default=[])
    parser.add_argument("-o", default="/dev/stdout")
    parser.add_argument("rest", nargs="*")
    a = parser.parse_args()
    if a.compare:
        sys.exit(compare(*a.compare))
    binary, paths = a.rest[0], []
    for folder in a.rest[1:]:
        for where, _, names in os.walk(folder):
            paths += [os.path.join(where, name) for name in names if not name.endswith(NOT_EVIDENCE)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = list(pool.map(lambda path: one(binary, path, set(a.drop)), sorted(paths)))
    with open(a.o, "w") as out:
        out.write("\n".join(lines) + "\n")


main()
