// ---- where everything lies at an event, as timeline.LayoutAt works it out
const SMALL_BUFFER = 2 << 20;

class Memory {
  constructor(history) {
    const h = this.h = history, n = h.length, starts = new Uint32Array(h.header.addresses + 1);
    // The allocations by address: places are sorted, so counting does it.
    for (let i = 0; i < n; i++) starts[h.place[i] + 1]++;
    for (let k = 1; k < starts.length; k++) starts[k] += starts[k - 1];
    this.order = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.order[starts[h.place[i]]++] = i;
    this.changes = h.others.filter(o => o.action >= SEGMENT_ALLOC && o.action <= SEGMENT_UNMAP && o.bytes > 0);
    this.cache = new Map();
  }

  // whole reports whether every block is known right after an event.
  whole(event) { return !this.h.rest || this.h.header.moments.includes(event); }

  // spans are the pieces of memory that were reserved right after an event: the
  // final segments with all later changes taken back. Each piece was then as the
  // first later change that touches it says, or as it is at the end.
  spans(event) {
    const later = this.changes.slice(lowerBound(this.changes, event + 1)), final = this.h.segments.map((s, i) => ({...s, start: s.address, end: s.address + s.bytes, owner: -i - 1}));
    if (!later.length) return merged(final);
    const bounds = Array.from(new Set(later.flatMap(c => [c.address, c.address + c.bytes]).concat(final.flatMap(s => [s.start, s.end])))).sort((a, b) => a - b);
    const at = new Map(bounds.map((b, i) => [b, i])), painter = new Array(bounds.length).fill(null), next = bounds.map((_, i) => i), out = [];
    const find = k => { while (next[k] !== k) { next[k] = next[next[k]]; k = next[k]; } return k; };
    const paint = (start, end, who) => { for (let k = find(at.get(start)); k + 1 < bounds.length && bounds[k] < end; k = find(k)) { painter[k] = who; next[k] = k + 1; } };
    for (const c of later) paint(c.address, c.address + c.bytes, c);
    for (const s of final) paint(s.start, s.end, s);
    painter.forEach((c, k) => {
      if (!c || c.action === SEGMENT_ALLOC || c.action === SEGMENT_MAP) return; // nothing there, or not yet
      const span = c.action === undefined ? c : {stream: c.stream, pool: c.pool, small: c.action === SEGMENT_FREE && c.bytes === SMALL_BUFFER, expandable: c.action === SEGMENT_UNMAP, owner: c.event + 1};
      out.push({...span, start: bounds[k], end: bounds[k + 1]});
    });
    return merged(out);
  }

  // at is the layout right after an event: segments by address, each tiled by
  // blocks of {at, bytes, state, i}: 0 free, 1 in use, 2 its free is pending.
  at(event) {
    let l = this.cache.get(event);
    if (l) return l;
    if (this.cache.size > 3) this.cache.delete(this.cache.keys().next().value);
    this.cache.set(event, l = this.layOut(event));
    return l;
  }

  // near is the layout of the one segment that holds an address: all that a look at a block needs.
  near(event, address) { return this.cache.get(event) || this.layOut(event, address); }
  // firstAt is the first allocation, in the order of addresses, at an address or behind it.
  firstAt(address) {
    let a = 0, b = this.order.length;
    while (a < b) { const m = a + b >> 1; if (this.h.addresses[this.h.place[this.order[m]]] < address) a = m + 1; else b = m; }
    return a;
  }

  layOut(event, only) {
    const h = this.h, segments = [], live = [], spans = this.spans(event).filter(s => only === undefined || s.start <= only && only < s.end);
    const from = only === undefined ? 0 : spans.length ? this.firstAt(spans[0].start) : this.order.length, to = only === undefined ? this.order.length : spans.length ? this.firstAt(spans[0].end) : 0;
    for (let k = from; k < to; k++) { const i = this.order[k]; if (h.born[i] <= event && h.gone[i] > event) live.push(i); }
    let next = 0, misfits = 0;
    const address = k => h.addresses[h.place[live[k]]];
    for (const s of spans) {
      for (; next < live.length && address(next) < s.start; next++) misfits++;
      const blocks = [];
      let at = s.start, used = 0;
      const free = end => { if (end > at) blocks.push({at, bytes: end - at, state: 0, i: -1}); };
      for (; next < live.length && address(next) < s.end; next++) {
        const i = live[next], a = address(next), bytes = h.bytes[i];
        if (a < at || bytes > s.end - a) { misfits++; continue; }
        free(a);
        blocks.push({at: a, bytes, state: h.died[i] <= event ? 2 : 1, i});
        at = a + bytes;
        used += bytes;
      }
      free(s.end);
      segments.push({address: s.start, bytes: s.end - s.start, stream: s.stream, pool: s.pool, small: s.small, expandable: s.expandable, used, blocks});
    }
    return {event, segments, misfits: misfits + live.length - next};
  }

  // block is the segment and block of a layout that hold an address, null for none.
  block(layout, address) {
    const s = layout.segments.find(x => x.address <= address && address < x.address + x.bytes);
    return s ? {segment: s, block: s.blocks.find(b => address < b.at + b.bytes)} : null;
  }

  // bands are the lives of pieces of reserved memory, {start, end, from, to, ...}:
  // what a change unmaps ends, and the rest of its segment goes on.
  bands() {
    const done = [];
    let live = this.spans(-1).map(s => ({...s, from: -1}));
    for (const c of this.changes) {
      const start = c.address, end = start + c.bytes;
      if (c.action === SEGMENT_ALLOC || c.action === SEGMENT_MAP) {
        live.push({start, end, from: c.event, stream: c.stream, pool: c.pool, small: c.action === SEGMENT_ALLOC && c.bytes === SMALL_BUFFER, expandable: c.action === SEGMENT_MAP});
        continue;
      }
      const rest = [];
      for (const s of live) {
        if (s.end <= start || s.start >= end) { rest.push(s); continue; }
        done.push({...s, start: Math.max(s.start, start), end: Math.min(s.end, end), to: c.event});
        if (s.start < start) rest.push({...s, end: start});
        if (s.end > end) rest.push({...s, start: end});
      }
      live = rest;
    }
    return done.concat(live.map(s => ({...s, to: this.h.events}))).sort((a, b) => a.from - b.from || a.start - b.start);
  }
}

// lowerBound is the first of things by event that isn't before an event.
function lowerBound(things, event) {
  let a = 0, b = things.length;
  while (a < b) { const m = a + b >> 1; if (things[m].event < event) a = m + 1; else b = m; }
  return a;
}

// merged joins the pieces of one segment, and neighbours that were mapped alike.
function merged(spans) {
  const out = [];
  for (const s of spans.sort((a, b) => a.start - b.start)) {
    const p = out[out.length - 1];
    if (p && p.end === s.start && (p.owner === s.owner || p.expandable && s.expandable && p.stream === s.stream && p.pool === s.pool)) {
      p.end = s.end;
      p.small = p.small || s.small;
    } else out.push({...s});
  }
  return out;
}
