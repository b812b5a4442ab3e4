"""A report in a cell of a notebook: the verdict, what filled the GPU, and what to change, in a few kilobytes."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Optional, Tuple

ROWS = 8
COLOURS = {"critical": "#c62828", "warning": "#b26a00"}


def size(n: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}" if n < 1000 * scale else f"{n / scale:.0f} {unit}"
    return f"{n} B"


def page(document: Dict[str, Any], device: Optional[Dict[str, Any]]) -> str:
    """The verdict's device in one look."""
    verdict = document["verdict"]
    colour = COLOURS.get(verdict["severity"], "inherit")
    parts = [f'<p style="font-weight:600;color:{colour};margin:.3em 0">{_text(verdict["text"])}</p>']
    if verdict["fix"]:
        parts.append(f'<p style="margin:.3em 0">First change: {_text(verdict["fix"])}</p>')
    if device is not None:
        parts += _device(device)
    return f'<div style="max-width:60em;overflow-x:auto">{"".join(parts)}</div>'


def _device(d: Dict[str, Any]) -> List[str]:
    peak = d["at_peak"]
    parts = [f'<p style="margin:.6em 0 .2em">At the peak: {size(peak["allocated_bytes"])} allocated</p>']
    categories = [(n, name.replace("_", " ")) for name, n in peak["categories"].items() if n]
    parts.append(_table(sorted(categories, reverse=True)[:ROWS], peak["allocated_bytes"]))
    sites = [(s["bytes"], f"{s['function']} {_short(s['file'])}:{s['line']}  {s['category'].replace('_', ' ')}")
             for s in d["sites"] if s["has_stack"]]  # fmt: skip
    holders = [(h["bytes"] + h["graph_bytes"], h["path"]) for h in d["holders"]]
    for title, rows in (("Made by", sites), ("Held by", holders)):
        if rows:
            parts += [f'<p style="margin:.6em 0 .2em">{title}</p>', _table(sorted(rows, reverse=True)[:ROWS], 0)]
    return parts


def _table(rows: List[Tuple[int, str]], whole: int) -> str:
    lines = []
    for n, text in rows:
        bar = f'<div style="background:#5b8def;height:.7em;width:{12 * n / whole:.1f}em"></div>' if whole else ""
        cell = f'<td style="text-align:left">{_text(text)}</td>'
        lines.append(f'<tr><td style="text-align:right">{size(n)}</td>{cell}<td>{bar}</td></tr>')
    return f'<table style="margin:0">{"".join(lines)}</table>'


def _short(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _text(text: str) -> str:
    return html.escape(text[:500] + ("…" if len(text) > 500 else ""))
