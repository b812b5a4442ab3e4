"""corpus.py SHARED: analyse every recording there and compare the peaks with an independent count.

Fails on a crash, on damage where none is known, and on a peak (requested, reserved) that
SHARED/oracles/peaks.py counts differently.
"""
import glob
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

shared = sys.argv[1]
# Trimmed or synthetic: their final state can't follow from their events.
INCONSISTENT = {"drisspg__transformer_nuggets__mini_snapshot.pickle", "facebookresearch__mosaic__output.pickle"}

with tempfile.TemporaryDirectory() as work:
    binary = os.path.join(work, "vramscope")
    subprocess.run(["go", "build", "-o", binary, "./cmd/vramscope"], check=True)
    files = {}
    for path in sorted(glob.glob(f"{shared}/corpus/snapshots/*.p*kl*")):
        files[os.path.basename(path)] = path
    for path in sorted(glob.glob(f"{shared}/corpus/labelled/*/snapshot_*.pickle.gz")):
        name = path.split("/")[-2] + "__" + path.split("/")[-1][:-3]
        files[name] = os.path.join(work, name)
        with gzip.open(path) as f, open(files[name], "wb") as g:
            shutil.copyfileobj(f, g)
    table = os.path.join(work, "peaks.tsv")
    subprocess.run([sys.executable, f"{shared}/oracles/peaks.py", table] + list(files.values()), check=True, stdout=subprocess.DEVNULL)
    want = {}
    for line in open(table).read().splitlines()[1:]:
        name, device, events, requested, reserved = line.split("\t")
        want[name, int(device)] = int(events), int(requested), int(reserved)
    failures = compared = 0
    for name, path in files.items():
        p = subprocess.run([binary, "analyze", "--format", "json", path], capture_output=True, text=True)
        if p.returncode:
            print("FAILED", name, p.stderr.strip())
            failures += 1
            continue
        for d in json.loads(p.stdout)["devices"]:
            if d["damage"] and name not in INCONSISTENT:
                print("DAMAGE", name, d["damage"])
                failures += 1
            if (name, d["device"]) in want:
                got = d["events"], d["peaks"]["requested"]["bytes"], d["peaks"]["reserved"]["bytes"]
                compared += 1
                if got != want[name, d["device"]]:
                    print("DIFFERS", name, d["device"], "got", got, "want", want[name, d["device"]])
                    failures += 1
    print(f"{len(files)} recordings, {compared} devices compared with the independent count, {failures} failures")
    sys.exit(1 if failures or not compared else 0)
