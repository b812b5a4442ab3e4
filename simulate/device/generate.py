#!/usr/bin/env python3
"""Writes source/table.h: an answer for every function of CUDA's libraries that no file answers by hand.

    python3 simulate/device/generate.py HEADERS... > simulate/device/source/table.h

HEADERS are folders with headers of CUDA 11.8 to 13 (the packages nvidia-*-cu11, -cu12 and -cu13 have them, below
nvidia/*/include). Only names, and which argument a function writes, come from there. A function whose arguments
differ between versions gets an answer only where all versions agree on what is written.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

HERE = pathlib.Path(__file__).resolve().parent
HEADER = re.compile(
    r"(cuda|cuda_runtime_api|cudaProfiler|cuda_profiler_api|cublas_api|cublas_v2|cublas|cublasLt|cufft|cufftXt|curand|cusolverDn|cusolverSp|"
    r"cusolverRf|cusolver_common|cusparse|cudnn\w*|nccl|nccl_device_wrapper|core)\.h$"
)
PROTOTYPE = re.compile(r"([\w\s*]*?)\b((?:cuda|cu|nccl)[A-Za-z0-9_]+)\s*\(((?:[^;{}()]|\([^()]*\))*)\)\s*(?:__attribute__\s*\(\(.*?\)\)\s*)?;")
STATUS = re.compile(r"(cudaError_t|CUresult|\w+Status_t|cufftResult|ncclResult_t)\b")
# the code for "not supported", by the library's prefix
REFUSALS = [("cudnn", 3000), ("cublas", 15), ("cusparse", 10), ("cusolver", 9), ("cufft", 16), ("curand", 204), ("nccl", 3), ("cu", 801)]
SCALAR = re.compile(r"^(?:unsigned\s+)?(int|size_t|int32_t|uint32_t|int64_t|uint64_t|long long|unsigned)\s*\*|^(\w+_t)\s*\*")
LONG = ("size_t", "int64_t", "uint64_t", "long long")


class Function(NamedTuple):
    returns: str
    parameters: Tuple[str, ...]


def functions(folder: pathlib.Path) -> Dict[str, Function]:
    found: Dict[str, Function] = {}
    for path in sorted(folder.rglob("*.h")):
        if not HEADER.match(path.name):
            continue
        text = path.read_text(errors="replace")
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
        text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.M)
        text = re.sub(r"\b(CUDARTAPI|CUDAAPI|CUDNNWINAPI|CUBLASWINAPI|CUFFTAPI|CURANDAPI|CUSPARSEAPI|CUSOLVERAPI|WINAPI|__dv\([^)]*\))", " ", text)
        for match in PROTOTYPE.finditer(text):
            parameters = tuple(" ".join(p.split()) for p in match.group(3).split(",")) if match.group(3).strip() not in ("", "void") else ()
            if not match.group(1).strip().startswith("typedef") and match.group(1).strip():
                found.setdefault(match.group(2), Function(" ".join(match.group(1).split()), parameters))
    return found


def by_hand() -> Set[str]:
    names: Set[str] = set()
    for path in HERE.glob("source/*.c"):
        text = path.read_text()
        names |= set(re.findall(r"^EXPORT [^;{]*?\**\b(\w+)\(", text, re.M))
        names |= set(re.findall(r"^(?:ALIAS|GET|FIND|NEEDS)\((\w+)", text, re.M))
        names |= set(re.findall(r"^IN_CUDA_\d+\(\w+, (\w+)\)", text, re.M))
    return names


def integers(function: Function) -> List[str]:
    """The parameters that are no floating-point numbers, which an ABI passes apart."""
    number = re.compile(r"^(const )?(float|double|cuComplex|cuDoubleComplex|cufftReal|cufftComplex)\b(?!.*[*\[])")
    return [p for p in function.parameters if not number.match(p)]


def writes(parameter: str) -> Optional[str]:
    """INT or LONG, of a parameter through which one number is written."""
    if "const" in parameter or parameter.count("*") != 1:
        return None
    scalar = SCALAR.match(parameter)
    if not scalar:
        return None
    kind = scalar.group(1) or scalar.group(2)
    if kind in LONG:
        return "LONG"
    if scalar.group(1):
        return "INT"
    # an enumeration has the size of an int, a handle doesn't, and nothing tells them apart but the name
    return "INT" if re.search(r"(Type|Mode|Order|Format|Base|Status|Fill\w*|Diag\w*|Algo\w*|Level|Policy|Operation|Direction)_t$", kind) else None


COMPUTES = re.compile(r"^(cublas|cusparse|cusolver|cufft|cufftXt|curand|cudnn|nccl)")
SIZES = re.compile(r"[bB]ufferSize|[wW]ork_?[sS]pace|SpaceSize|StatesSize|SizeInBytes|^cufft(Estimate|GetSize|MakePlan|XtMakePlan|XtGetSize)|Size$|Size2$|size$")
MAKES = re.compile(r"[cC]reate|Init$|Plan(1d|2d|3d|Many)$")
DROPS = re.compile(r"[dD]estroy")
SILENT = re.compile(r"(Set|Destroy|Unregister|Prefetch|Advise|TrimTo|Flush|Discard|Upload|ProfilerSt|Close|Enable|Disable)")


def refusal(name: str) -> int:
    return next(code for prefix, code in REFUSALS if name.startswith(prefix))


def answer(name: str, function: Function) -> str:
    """The row of a function."""
    if not STATUS.search(function.returns):
        return ""
    parameters = integers(function)
    first = parameters[0] if parameters else ""
    if not COMPUTES.match(name):
        return f"DONE({name})" if SILENT.search(name) and "**" not in first else f"REFUSES({name}, {refusal(name)})"
    if DROPS.search(name):
        return f"DONE({name})" if first.startswith("cufftHandle") else f"DROPS({name})"  # those of cuFFT are numbers
    if MAKES.search(name) and not SIZES.search(name) and re.match(r"(cu|nccl)\w*(_t|Info|Plan|Handle|Desc\w*)\s*\*", first.replace("const ", "")):
        return f"NUMBERS({name}, 1, a0)" if first.startswith("cufftHandle") else f"MAKES({name}, 1, a0)"
    if name.startswith("cufftPlan"):
        return f"NUMBERS({name}, 1, a0)"
    out = [(i, kind) for i, p in enumerate(parameters) for kind in [writes(p)] if kind]
    asks = SIZES.search(name) or "Get" in name
    if asks and out and out[-1][0] < 24:
        macro = "SIZES" if SIZES.search(name) and not name.startswith("cusparseSpMatGetSize") else "READS"
        return f"{macro}({name}, {out[-1][0] + 1}, {' '.join(f'{kind}(a{i})' for i, kind in out)})"
    if "Get" in name or name.startswith("nccl"):
        return f"REFUSES({name}, {refusal(name)})"
    return f"DONE({name})"


def main() -> None:
    versions = [functions(pathlib.Path(folder)) for folder in sys.argv[1:]]
    skip = by_hand()
    rows, differing = [], []
    for name in sorted(set().union(*versions)):
        if name in skip:
            continue
        answers = {answer(name, v[name]) for v in versions if name in v} - {""}
        if len(answers) > 1:
            differing.append(f"{name}: {sorted(answers)}")
            answers = {f"REFUSES({name}, {refusal(name)})"}
        rows += answers
    changed = [n for n in sorted(skip) if len({len(v[n].parameters) for v in versions if n in v}) > 1]
    print("/* Made by generate.py from names and parameters of CUDA 11.8 to 13. */")
    print("\n".join(rows))
    for line in differing:
        print("differs between versions, so refused:", line, file=sys.stderr)
    print("by hand, with a parameter more or fewer in some version:", " ".join(changed), file=sys.stderr)
    print(len(rows), "rows", file=sys.stderr)


if __name__ == "__main__":
    main()
