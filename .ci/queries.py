"""Runs every query of doc/queries.md in DuckDB over a batch of recordings.

usage: queries.py DOC RESULTS

A query must run, and those about what the shipped recordings show must find it.
"""
import os
import re
import subprocess
import sys

import duckdb


def blocks(text, language):
    return re.findall(r"^```%s\n(.*?)^```" % language, text, re.S | re.M)


def find(rows, names, **want):
    """The first row in which the named columns have these values."""
    for row in rows:
        if all(dict(zip(names, row))[k] == v for k, v in want.items()):
            return dict(zip(names, row))
    raise AssertionError(f"no row with {want} among {len(rows)}")


# What the shipped recordings are known to hold: by the query's name, a check of its rows.
def failures(rows, names):
    row = find(rows, names, verdict="fragmentation")
    assert "expandable_segments" in row["fix"], row
    assert sum(r[names.index("runs")] for r in rows) >= 6, rows


def top_call_sites(rows, names):
    assert any("loss" in (r[names.index("file")] or "") or "qwen" in (r[names.index("file")] or "") for r in rows), rows
    assert rows[0][names.index("gib_in_all")] > 10, rows[0]


def what_filled_them(rows, names):
    assert find(rows, names, category="logits")["share_on_average"] > 0.1
    shares = [r[names.index("share_on_average")] for r in rows]
    assert all(0 <= s <= 1 for s in shares), shares


def settings(rows, names):
    assert any("expandable_segments" in r[0] and r[names.index("failures_met")] > 0 for r in rows), rows


def leaks_by_line(rows, names):
    assert any((r[0] or "").endswith("replay_buffer.py") and r[names.index("kind")] == "growing_list" for r in rows), rows
    assert any(r[names.index("kind")] == "retained_graph" for r in rows), rows


def regressions(rows, names):
    row = find(rows, names, experiment="planted")
    assert row["percent"] > 5 and row["run"] == "planted/2", row
    assert len([r for r in rows if r[0] == "planted"]) == 1, rows


def unknown_share(rows, names):
    row = find(rows, names, history="complete")
    assert 0 <= row["unknown_percent"] < 50 and row["runs"] > 5, row


def failed(rows, names):
    assert len(rows) == 1 and "broken" in rows[0][1], rows


def ranks(rows, names):
    assert any("device_map" in r[0] and r[1] == 2 for r in rows), rows


def budget_gaps(rows, names):
    row = find(rows, names, model="gpt2")
    assert row["budget_gib"] > 1 and row["measured_gib"] > 1, row


def any_rows(rows, names):
    assert rows, "no rows"


CHECKS = {
    "failures": failures, "top call sites": top_call_sites, "what filled them": what_filled_them, "settings": settings,
    "changes": any_rows, "advice": any_rows, "waste by experiment": any_rows, "waste by user": any_rows, "leaks by line": leaks_by_line,
    "regressions": regressions, "budget gaps": budget_gaps, "unknown share": unknown_share, "failed": failed, "ranks": ranks,
}


def main(doc, results):
    text = open(doc, encoding="utf-8").read()
    queries = blocks(text, "sql")
    seen = set()
    os.chdir(results)
    for query in queries:
        name = re.match(r"-- (.*)\n", query).group(1)
        seen.add(name)
        cursor = duckdb.connect().execute(query)
        names = [c[0] for c in cursor.description]
        rows = cursor.fetchall()
        CHECKS[name](rows, names)
        print(f"{name}: {len(rows)} rows")
    for code in blocks(text, "python"):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "peak_allocated_bytes" in out and "'unit': 'bytes'" in out, out[:500]
        print(f"columns: {len(out.splitlines())} described")
    missing = set(CHECKS) - seen
    assert not missing, f"{doc} has no query named {missing}"
    print(f"{len(queries)} queries passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
