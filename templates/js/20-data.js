// ---- a device's columns, as doc/page-columns.md describes them
function inflate(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer().then(b => new Uint8Array(b));
}

const ALLOC = 0, FREE_REQUESTED = 1, FREE_COMPLETED = 2, SEGMENT_ALLOC = 3, SEGMENT_FREE = 4, SEGMENT_MAP = 5, SEGMENT_UNMAP = 6, OOM = 7;
const UNTOLD = 255; // the event of an allocation that the page doesn't hold

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  byte() { return this.bytes[this.at++]; }
  number() {
    const b = this.bytes;
    let c = b[this.at++], v = c & 127;
    for (let m = 128; c > 127; m *= 128) { c = b[this.at++]; v += (c & 127) * m; }
    return v;
  }
  signed() { const v = this.number(); return v % 2 ? -(v + 1) / 2 : v / 2; }
  size() { const v = this.number(); return v % 2 ? (v - 1) / 2 : v * 256; }
  text(length) { const s = new TextDecoder().decode(this.bytes.subarray(this.at, this.at + length)); this.at += length; return s; }
}

class History {
  constructor(bytes) {
    const r = new Reader(bytes), h = this.header = JSON.parse(r.text(r.number())), n = this.length = h.bands, older = h.older;
    this.events = h.events;
    this.id = null;
    if (h.hasIDs) { this.id = new Uint32Array(n); for (let i = 0, p = 0; i < n; i++) this.id[i] = p += r.number(); }
    this.born = new Int32Array(n).fill(-1);
    for (let i = older, p = 0; i < n; i++) this.born[i] = p += r.number();
    this.died = new Int32Array(n);
    for (let i = 0; i < n; i++) { const v = r.number(); this.died[i] = v === 0 ? this.events : i < older ? v - 2 : this.born[i] + v; }
    this.bytes = new Float64Array(n);
    for (let i = 0; i < n; i++) this.bytes[i] = r.size();
    this.kind = new Uint16Array(n);
    for (let i = 0; i < n; i++) this.kind[i] = r.number();
    this.stack = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.stack[i] = r.number();
    const column = there => there ? Uint32Array.from({length: n}, () => r.number()) : null;
    h.names ||= [];
    this.names = column(h.names.length);
    this.forward = column(h.hasForward);
    this.times = new Float64Array(h.times);
    for (let i = 1, p = 0; i < h.times; i++) this.times[i] = p += r.signed();
    this.readStacks(r);
    this.readRest(r);
    this.others = [];
    this.segments = [];
    if (h.hasEvents) this.readEvents(r);
    this.category = new Uint8Array(h.kinds.map(k => k.category));
    this.index();
  }

  // readEvents reads where allocations lie, what only their events tell, and all
  // other events.
  readEvents(r) {
    const h = this.header, n = this.length, column = type => { const c = new type(n); for (let i = 0; i < n; i++) c[i] = r.number(); return c; };
    this.addresses = new Float64Array(h.addresses);
    for (let i = 0, p = 0; i < h.addresses; i++) this.addresses[i] = p += r.size();
    this.place = column(Uint32Array); // index into addresses
    this.requested = new Float64Array(n);
    for (let i = 0; i < n; i++) this.requested[i] = this.bytes[i] - r.signed();
    this.gone = new Int32Array(n); // when its free is completed
    for (let i = 0; i < n; i++) { const v = r.number(); this.gone[i] = v === 0 ? this.events : this.died[i] + v - 1; }
    this.stream = column(Uint16Array);
    this.pool = column(Uint16Array);
    this.freeStack = column(Uint32Array);
    for (let i = 0, event = 0; i < h.others; i++) {
      event += r.number();
      this.others.push({event, action: r.byte(), address: r.size(), bytes: r.size(), stream: r.number(), pool: r.number(), stack: r.number(), of: r.number() - 1});
    }
    for (let i = 0; i < h.segments; i++) {
      const address = r.size(), bytes = r.size(), stream = r.number(), pool = r.number(), flags = r.byte();
      this.segments.push({address, bytes, stream, pool, small: !!(flags & 1), expandable: !!(flags & 2)});
    }
  }

  readStacks(r) {
    const h = this.header;
    this.siteOfStack = new Int32Array(h.stacks);
    this.nodeOfStack = new Int32Array(h.stacks);
    for (let i = 0; i < h.stacks; i++) { this.siteOfStack[i] = r.number() - 1; this.nodeOfStack[i] = r.number() - 1; }
    this.frameOf = new Int32Array(h.nodes).fill(-1);
    this.parentOf = new Int32Array(h.nodes).fill(-1);
    for (let i = 1; i < h.nodes; i++) { this.frameOf[i] = r.number(); this.parentOf[i] = i - r.number(); }
  }

  readRest(r) {
    const n = this.header.restPoints;
    this.rest = null;
    if (!n) return;
    const events = new Int32Array(n), levels = [];
    for (let i = 0, p = -1; i < n; i++) events[i] = p += r.number();
    for (let c = 0; c < this.header.categories.length; c++) {
      const column = new Float64Array(n);
      for (let i = 0; i < n; i++) column[i] = r.size();
      levels.push(column);
    }
    this.rest = {events, levels};
  }

  // index notes which allocation begins and which ends at each event; at an
  // address that is given out again, both happen at once. Then it tells what each
  // event is: action, and of which allocation, -1 for none.
  index() {
    const n = this.events, put = (column, event, v) => { if (event >= 0 && event < n) column[event] = v; };
    this.begins = new Int32Array(n).fill(-1);
    this.ends = new Int32Array(n).fill(-1);
    for (let i = 0; i < this.length; i++) {
      put(this.begins, this.born[i], i);
      put(this.ends, this.died[i], i);
    }
    this.action = new Uint8Array(n).fill(UNTOLD);
    this.of = new Int32Array(n).fill(-1);
    if (!this.header.hasEvents) return;
    const tell = (event, action, i) => { put(this.action, event, action); put(this.of, event, i); };
    for (let i = 0; i < this.length; i++) {
      tell(this.gone[i], FREE_COMPLETED, i);
      if (this.gone[i] !== this.died[i] || !this.header.completes) tell(this.died[i], FREE_REQUESTED, i);
    }
    for (let i = this.header.older; i < this.length; i++) tell(this.born[i], ALLOC, i);
    this.otherAt = new Map(this.others.map(o => [o.event, o]));
    for (const o of this.others) tell(o.event, o.action, o.of);
  }

  alive(i, event) { return this.born[i] <= event && this.died[i] > event; }
  idOf(i) { return this.id ? this.id[i] : i; }
  // find is the index of an allocation's id, -1 when it isn't drawn.
  find(id) {
    if (!this.id) return id < this.length ? id : -1;
    let a = 0, b = this.length - 1;
    while (a < b) { const m = a + b >> 1; if (this.id[m] < id) a = m + 1; else b = m; }
    return this.id[a] === id ? a : -1;
  }
  restAt(event, category) {
    if (!this.rest) return 0;
    const e = this.rest.events;
    let a = 0, b = e.length - 1;
    while (a < b) { const m = a + b + 1 >> 1; if (e[m] <= event) a = m; else b = m - 1; }
    return this.rest.levels[category][a];
  }
  // time of an event since the first one, in microseconds; null without a clock.
  time(event) {
    const n = this.times.length;
    if (n === 0) return null;
    const x = clamp(event, 0, this.events - 1) / this.header.timeEvery, k = Math.min(n - 1, Math.floor(x));
    return k + 1 < n ? this.times[k] + (this.times[k + 1] - this.times[k]) * (x - k) : this.times[k];
  }
  frames(stack) {
    const out = [];
    for (let n = this.nodeOfStack[stack]; n > 0; n = this.parentOf[n]) out.push(this.header.frames[this.frameOf[n]]);
    return out;
  }
  nameOf(i) { return this.names ? this.header.names[this.names[i]] : ''; }
  siteOf(i) {
    const site = this.siteOfStack[this.stack[i]];
    return site >= 0 ? site : i < this.header.older ? -2 : -1;
  }
  site(number) {
    if (number >= 0) return this.header.sites[number];
    return {function: '', file: '', line: null, called_from: null, op: '', has_stack: false, before_recording: number === -2};
  }
}

// siteName is a call site in a few words.
function siteName(s) {
  if (s.function && s.file) return s.function + ' ' + placeOf(s.file, s.line);
  return s.function || s.op || (s.before_recording ? 'allocated before the recording' : s.has_stack ? 'no line of Python on the stack' : 'no stack recorded');
}

// siteNames are those of several call sites, with what tells apart those of one line.
function siteNames(sites) {
  const names = sites.map(siteName);
  return names.map((name, i) => {
    if (names.indexOf(name) === names.lastIndexOf(name)) return name;
    const {op, called_from: from} = sites[i];
    return name + (from ? ', from ' + from.function + ' ' + placeOf(from.file, from.line) : '') + (op && op !== name ? ' [' + op + ']' : '');
  });
}
