#!/usr/bin/env python3
"""generate.py LIBRARY... [--frames FILE...] > symbols.txt.gz

Writes the words of which the names of public compiled code are made: of the symbols of shared
libraries (nm and c++filt must be there), such as those of a torch wheel, its CUDA libraries,
libstdc++, the C library and the interpreter, and of names in files with one a line, where
recordings of other versions have shown some. A word that isn't among them makes a compiled
function's name private. Names that stand in no namespace, such as those of C functions, have
"=" in front. The result depends on the inputs alone.
"""
import gzip, re, subprocess, sys

# What a compiler makes of whole files and constants, and kernels of processors, never allocate.
NOISE = re.compile(r"[0-9a-f]{12}|_Z[NTGK]|_GLOBAL__|toplevel_consts|module_id|RegisterLinkedBinary|_[0-9a-f]{8}$|"
                   r"^=?_?(mkl|vml|Sleef|cblas|itt|owns)_|avx|_mc3_|_lp64_|_def_|sse[0-9]|static_init|_cu_[0-9a-f]{8}")
WORD = re.compile(r"[A-Za-z_$~][\w$]*")


def symbols(library):
    for flags in (["-D"], []):
        nm = subprocess.Popen(["nm", "--defined-only", "--format=posix", *flags, library], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)
        names = subprocess.Popen(["cut", "-d ", "-f1"], stdin=nm.stdout, stdout=subprocess.PIPE)
        plain = subprocess.Popen(["c++filt"], stdin=names.stdout, stdout=subprocess.PIPE, text=True, errors="replace")
        yield from plain.stdout
        plain.wait()


def words(name, found):
    head = name.partition("(")[0].strip()
    if WORD.fullmatch(head):
        found.add("=" + head)
    found.update(WORD.findall(name))


def main():
    arguments = sys.argv[1:]
    at = arguments.index("--frames") if "--frames" in arguments else len(arguments)
    found = set()
    for library in arguments[:at]:
        for name in symbols(library):
            if not name.startswith("_Z"):  # what could not be read
                words(name.split("@")[0], found)
    for file in arguments[at + 1:]:
        for name in open(file, errors="replace"):
            words(name.strip(), found)
    found = {w for w in found if 2 <= len(w) <= 96 and not NOISE.search(w)}
    text = "".join(w + "\n" for w in sorted(found)).encode()
    sys.stdout.buffer.write(gzip.compress(text, 9, mtime=0))
    print(len(found), "words", file=sys.stderr)


main()
