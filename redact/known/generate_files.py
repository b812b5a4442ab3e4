#!/usr/bin/env python3
"""generate_files.py FOLDER|WHEEL|SOURCE|LIST... > files.txt.gz

Writes the names of the files and folders of public Python packages and of Python's own library:
site-packages and lib/python3.x as folders, wheels and source distributions as they are, an
earlier list (.txt.gz), to which the others add. A file under site-packages with another name is
taken for its user's. The result depends on the inputs alone.
"""
import gzip, os, sys, tarfile, zipfile

ENDINGS = (".py", ".pyx", ".pyi", ".so", ".cu", ".cpp", ".c", ".h", ".cuh")


def names(place):
    if zipfile.is_zipfile(place):
        yield from zipfile.ZipFile(place).namelist()
    elif os.path.isfile(place):
        yield from (m.name.partition("/")[2] for m in tarfile.open(place) if m.isfile())
    else:
        for folder, _, files in os.walk(place):
            below = os.path.relpath(folder, place)
            if below.startswith("site-packages"):
                continue
            yield from (os.path.join(below, f) for f in files)


def main():
    found = set()
    for place in sys.argv[1:]:
        if place.endswith(".txt.gz"):
            found.update(gzip.open(place, "rt").read().split("\n")[:-1])
            continue
        for name in names(place):
            if name.endswith(ENDINGS):
                found.update(e for e in name.split("/") if e not in (".", "..") and not e.endswith((".dist-info", ".data")))
    found = {f for f in found if len(f) <= 80}
    text = "".join(f + "\n" for f in sorted(found)).encode()
    sys.stdout.buffer.write(gzip.compress(text, 9, mtime=0))
    print(len(found), "names", file=sys.stderr)


main()
