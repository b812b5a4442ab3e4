#!/usr/bin/env python3
"""mutate.py BINARY COUNT FOLDER [SEED]: spoils copies of the files below a folder in one way each and has
the program analyse them. It must end within bounds, with 0 or 2, without a panic and with nothing
half-written, and name the file in its errors. Prints what it took; exits with 1 if anything was otherwise.
"""
import collections, os, random, resource, subprocess, sys, tempfile, time

LIMIT_S = 60


def spoil(data, rnd):
    data = bytearray(data)
    kind = rnd.choice(["flip", "cut", "insert", "repeat", "zero", "swap"])
    at = rnd.randrange(len(data) or 1)
    n = rnd.choice([1, 2, 8, 64, 1000])
    if kind == "flip":
        for _ in range(n):
            if data:
                data[rnd.randrange(len(data))] = rnd.randrange(256)
    elif kind == "cut":
        del data[at:]
    elif kind == "insert":
        data[at:at] = rnd.randbytes(n)
    elif kind == "repeat":
        data[at:at] = data[at:at + n] * rnd.choice([2, 100])
    elif kind == "zero":
        data[at:at + n] = bytes(n)
    else:
        other = rnd.randrange(len(data) or 1)
        data[at:at + n], data[other:other + n] = data[other:other + n], data[at:at + n]
    return kind, bytes(data)


def main():
    binary, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    rnd = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    files = sorted(os.path.join(d, f) for d, _, names in os.walk(folder) for f in names if not f.endswith((".py", ".md")))
    codes, wrong, slowest = collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as work:
        for i in range(count):
            source = rnd.choice(files)
            kind, data = spoil(open(source, "rb").read(), rnd)
            path, out = os.path.join(work, os.path.basename(source)), os.path.join(work, "report.json")
            with open(path, "wb") as f:
                f.write(data)
            flags = rnd.choice([[], ["--partial"], ["--redact"], []])
            began = time.time()
            try:
                p = subprocess.run([binary, "analyze", path, "-q", "-o", out, *flags], capture_output=True, timeout=LIMIT_S)
                code, said = p.returncode, p.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                code, said = "time", ""
            slowest = max(slowest, time.time() - began)
            codes[code] += 1
            named = os.path.basename(path) in said or "--redact" in flags
            if code not in (0, 2) or "goroutine " in said or code == 2 and (os.path.exists(out) or not named):
                wrong += 1
                kept = os.path.join(tempfile.gettempdir(), f"mutated-{i}-{os.path.basename(source)}")
                with open(kept, "wb") as f:
                    f.write(data)
                print(f"{kept}: {kind}, {flags}: {code}, {said[:300]!r}")
            for f in os.listdir(work):
                os.remove(os.path.join(work, f))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"{count} mutations of {len(files)} files: {dict(codes)}, slowest {slowest:.1f} s, most memory {peak} MiB, {wrong} wrong")
    sys.exit(wrong > 0)


main()
