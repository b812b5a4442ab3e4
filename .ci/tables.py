"""tables.py: export every table of the shipped recordings in every format and read them with the usual programs.

pyarrow, DuckDB and Polars must read the same values from Parquet files, Arrow streams, CSV and
JSON lines, with the types, units and meanings that doc/tables.md promises, and the figures must
be those of the report. Needs the packages pyarrow, duckdb and polars.
"""
import csv
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import duckdb
import polars
import pyarrow as pa
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

FORMATS = ["jsonl", "csv", "arrow", "parquet"]
TYPES = {"address": pa.uint64(), "bytes": pa.int64(), "event": pa.uint32(), "device": pa.int32(), "time_us": pa.int64(), "stack": pa.uint32()}
VERSIONS = dict(re.findall(r"`(vramscope\.\w+)/(\d+)`", open("doc/tables.md").read()))
failures = []


def check(what, ok, detail=""):
    if not ok:
        failures.append(what)
        print("FAILED", what, detail)


def first_difference(got, want):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            return i, {k: (a.get(k), b.get(k)) for k in {**a, **b} if a.get(k) != b.get(k)}
    return len(got), len(want)


def same(what, got, want):
    check(what, got == want, got != want and first_difference(got, want))


def cell(text, value):
    """A CSV field as the type that the same value has in JSON."""
    if value is None or isinstance(value, str):
        return text or ("" if value == "" else None)
    return json.loads(text)


def read_parquet(where, path, want):
    table = pq.read_table(path)
    table.validate(full=True)
    same(where + " pyarrow parquet", table.to_pylist(), want)
    same(where + " DuckDB parquet", duckdb.sql(f"from '{path}'").to_arrow_table().to_pylist(), want)
    same(where + " Polars parquet", polars.read_parquet(path).to_dicts(), want)
    return table.schema


def read_arrow(where, path, want):
    stream = pa.ipc.open_stream(path).read_all()
    stream.validate(full=True)
    same(where + " pyarrow stream", stream.to_pylist(), want)
    same(where + " DuckDB stream", duckdb.sql("from stream").to_arrow_table().to_pylist(), want)
    same(where + " Polars stream", polars.read_ipc_stream(path).to_dicts(), want)
    return stream.schema


def read_texts(where, base, want):
    with open(base + ".csv", newline="") as f:
        rows = list(csv.DictReader(f))
    same(where + " CSV", [{k: cell(v, w[k]) for k, v in r.items()} for r, w in zip(rows, want)], want)
    for name, frame in (("DuckDB", duckdb.read_csv(base + ".csv", all_varchar=True, header=True, quotechar='"', delimiter=",").to_arrow_table()),
                        ("Polars", polars.read_csv(base + ".csv", infer_schema=False))):
        check(f"{where} {name} CSV", len(frame) == len(want), f"{len(frame)} rows, want {len(want)}")
    if want:
        lines = {"pyarrow": pa.json.read_json(base + ".jsonl"), "Polars": polars.read_ndjson(base + ".jsonl", infer_schema_length=None),
                 "DuckDB": duckdb.sql(f"from read_json('{base}.jsonl', format='newline_delimited', sample_size=-1)").to_arrow_table()}
        for name, frame in lines.items():
            columns = frame.columns if name == "Polars" else frame.schema.names
            order = sorted if name == "Polars" else list  # it shuffles many columns
            check(f"{where} {name} JSON lines", len(frame) == len(want) and order(columns) == order(want[0]), columns)


def check_schema(where, table, schema):
    check(where + " version", (schema.metadata or {}).get(b"vramscope.schema") == f"vramscope.{table}/{VERSIONS['vramscope.' + table]}".encode(), schema.metadata)
    for field in schema:
        meta = field.metadata or {}
        check(f"{where} {field.name}: meaning", meta.get(b"doc"), meta)
        unit = b"bytes" if field.name.endswith("bytes") else b"us" if field.name.endswith("_us") else meta.get(b"unit")
        check(f"{where} {field.name}: unit", meta.get(b"unit") == unit, meta)
        if pa.types.is_string(field.type):
            check(f"{where} {field.name}: a text that isn't a dictionary", False)
        if table in ("events", "allocations", "blocks") and field.name in TYPES:
            check(f"{where} {field.name}: type", field.type == TYPES[field.name], field.type)


def check_figures(where, rows, report):
    """The tables hold the report's figures."""
    for d in report["devices"]:
        n = d["device"]
        curve = [r for r in rows["categories"] if r["device"] == n]
        sums = {r["event"]: {k: v for k, v in r.items() if k not in ("device", "event")} for r in curve}
        peak = sums.get(d["at_peak"]["event"], {})
        check(f"{where} device {n}: categories at the peak", {k: v for k, v in peak.items() if v} == {k: v for k, v in d["at_peak"]["categories"].items() if v},
              (peak, d["at_peak"]["categories"]))
        check(f"{where} device {n}: allocated at the peak", sum(peak.values()) == d["at_peak"]["allocated_bytes"] == d["peaks"]["allocated"]["bytes"])
        check(f"{where} device {n}: highest point of the curve", max([sum(s.values()) for s in sums.values()], default=0) == d["peaks"]["allocated"]["bytes"])
        end = list(sums.values())[-1] if sums else {}
        check(f"{where} device {n}: allocated at the end", sum(end.values()) == d["at_end"]["allocated_bytes"], (end, d["at_end"]))
        of = lambda table, column="bytes": sum(r[column] for r in rows[table] if r["device"] == n)
        check(f"{where} device {n}: reserved at the end", of("segments") == of("blocks") == d["at_end"]["reserved_bytes"])
        for table in ("events", "allocations"):
            check(f"{where} device {n}: number of {table}", sum(r["device"] == n for r in rows[table]) == d[table])
        for table in ("findings", "ooms", "leaks"):
            check(f"{where} device {n}: number of {table}", sum(r["device"] == n for r in rows[table]) == len(d[table]))
    check(where + ": one row for the run", len(rows["runs"]) == 1 and len(rows["devices"]) == len(report["devices"]))
    known = {r["stack"] for r in rows["stacks"]}
    check(where + ": stacks", all(r["stack"] is None or r["stack"] in known for t in ("events", "allocations", "blocks") for r in rows[t]))


def check_query(where, folder, report):
    """The query of doc/tables.md sums to the peak."""
    with open("doc/tables.md") as f:
        query = f.read().split("```sql\n")[1].split("```")[0]
    with duckdb.connect() as c:
        c.execute(f"SET file_search_path='{folder}'")
        rows = c.execute(query).fetchall()
    peak = max(d["peaks"]["allocated"]["bytes"] for d in report["devices"])
    check(where + ": the query of doc/tables.md", sum(r[2] for r in rows) == peak, (rows[:3], peak))


with tempfile.TemporaryDirectory() as work:
    binary = os.path.join(work, "vramscope")
    subprocess.run(["go", "build", "-o", binary, "./cmd/vramscope"], check=True)
    recordings = [sorted(glob.glob(run + "/snapshot_*.pickle.gz"))[0] for run in sorted(glob.glob("testdata/recordings/*"))]
    tables = 0
    for recording in recordings:
        out = os.path.join(work, "tables")
        for f in FORMATS:
            subprocess.run([binary, "export", recording, "--table", "all", "--format", f, "-o", out], check=True)
        rows = {}
        for path in sorted(glob.glob(out + "/*.jsonl")):
            table = os.path.basename(path)[:-6]
            where = "/".join(recording.split("/")[-2:]) + " " + table
            with open(path) as f:
                rows[table] = [json.loads(line) for line in f]
            base = path[:-6]
            parquet = read_parquet(where, base + ".parquet", rows[table])
            arrow = read_arrow(where, base + ".arrow", rows[table])
            check(where + ": the schemas of Parquet and Arrow", parquet.equals(arrow, check_metadata=True), (parquet, arrow))
            check_schema(where, table, arrow)
            read_texts(where, base, rows[table])
            tables += 1
        report = subprocess.run([binary, "analyze", recording, "--format", "json", "--all-steps"], check=True, capture_output=True, text=True)
        check_figures(recording, rows, json.loads(report.stdout))
        check_query(recording, out, json.loads(report.stdout))
    print(f"{tables} tables of {len(recordings)} recordings in {len(FORMATS)} formats: {len(failures)} failures")
    sys.exit(1 if failures or not tables else 0)
