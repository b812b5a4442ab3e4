"""load.py FILE: what CPython's own unpickler takes for a file that holds only data, in
seconds: the first time in a process and, of small files, the best of many times."""

import os
import pickle
import sys
import time


class DataOnly(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} refused")


def load():
    start = time.perf_counter()
    with open(sys.argv[1], "rb") as f:
        DataOnly(f).load()
    return time.perf_counter() - start


print(f"pickle.load {load():.6f}")
if os.path.getsize(sys.argv[1]) < 16 << 20:
    print(f"pickle.load-again {min(load() for _ in range(30)):.6f}")
