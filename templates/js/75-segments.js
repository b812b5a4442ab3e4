// ---- the segment map: memory by address at the cursor, rows of equal length
const ROW = 15, BAR = 12, HOLES = 3, MOST_REQUEST = 40;

class SegmentMap {
  constructor(state, part, canvas) {
    Object.assign(this, {s: state, h: state.h, part, canvas, g: canvas.getContext('2d'), paint: 'use', by: 'address'});
    const ask = view(canvas, () => this.update(), true);
    state.cursor.subscribe(ask);
    state.listeners.push(ask);
    for (const key of ['paint', 'by']) {
      const buttons = all('[data-map-' + key + ']', part), value = b => b.getAttribute('data-map-' + key);
      buttons.forEach(b => {
        b.hidden = value(b) === 'category' && !state.classified;
        b.addEventListener('click', () => { this[key] = value(b); buttons.forEach(x => x.setAttribute('aria-pressed', String(x === b))); this.update(); });
      });
    }
    canvas.addEventListener('pointermove', e => { const x = this.find(e); if (x) tip.show(e, this.describe(x)); else tip.hide(); });
    canvas.addEventListener('pointerleave', () => tip.hide());
    canvas.addEventListener('click', e => { const x = this.find(e); if (x && x.block && x.block.state) this.show(x.block.i); });
    canvas.addEventListener('keydown', e => { if (this.key(e)) e.preventDefault(); });
  }
  show(i) {
    devices[+this.part.dataset.index].see('each');
    this.s.cursor.pin(i, true);
    const panel = this.part.querySelector('[data-role=pin]');
    if (panel) panel.scrollIntoView({block: 'center'}); // smoothly or not, as the style sheet says
  }

  update() {
    const event = this.s.cursor.event, known = this.s.memory.whole(event), l = this.layout = this.s.memory.at(event);
    this.arrange(l);
    const note = this.part.querySelector('[data-role=map-note]'), t = this.totals(l);
    all('[data-role=map-end]', this.part).forEach(p => { p.hidden = event !== this.h.events - 1; });
    if (note) note.textContent = plural(l.segments.length, 'segment') + ' at event ' + count(Math.max(0, event)) + ', ' + size(t.bytes) + ', ' + size(t.pinned) + ' free beside blocks in use, ' + size(t.empty) + ' in empty segments' + (t.pending ? ', ' + size(t.pending) + ' pending free' : '') + '; each row is ' + size(this.row) + {use: '', category: '; blocks have the colours of their categories', age: '; the older a block, the lighter'}[this.paint] + (known ? '.' : '. Blocks that the page doesn\'t hold are drawn as free here; at the peak, the failure and the end it holds all.') + (this.request ? ' The ' + short(this.request.whole) + ' that were asked for are hatched below; the largest free block is framed.' : '');
    this.canvas.setAttribute('aria-label', 'Segment map. ' + (note ? note.textContent : '') + ' Arrow keys choose a block, Enter pins it.');
    this.canvas.style.height = this.rows * ROW + 'px';
    this.draw();
    this.holes(l, t);
  }
  totals(l) {
    const t = {bytes: 0, pinned: 0, empty: 0, pending: 0, largest: 0};
    for (const s of l.segments) {
      t.bytes += s.bytes;
      t[s.used ? 'pinned' : 'empty'] += s.bytes - s.used;
      for (const b of s.blocks) if (b.state === 2) t.pending += b.bytes; else if (!b.state) t.largest = Math.max(t.largest, b.bytes);
    }
    return t;
  }

  // arrange gives every segment its place in rows; pools and streams begin new rows.
  arrange(l) {
    const total = l.segments.reduce((n, s) => n + s.bytes, 0), unit = this.row = Math.max(1 << 20, Math.pow(2, Math.ceil(Math.log2(total / 28))));
    this.places = l.segments.map(s => ({s, group: s.pool * 65536 + s.stream}));
    if (this.by === 'pool') this.places.sort((a, b) => a.group - b.group || a.s.address - b.s.address);
    this.labels = new Map();
    let at = 0, last = -1;
    for (const p of this.places) {
      if (this.by === 'pool' && p.group !== last) {
        at = Math.ceil(at / unit) * unit;
        this.labels.set(at / unit, (p.s.pool ? 'pool ' + this.h.header.pools[p.s.pool] : 'stream ' + this.streamName(p.s.stream)));
        last = p.group;
      }
      p.offset = at;
      at += p.s.bytes;
    }
    this.total = at;
    // A request that failed at this moment comes behind all segments, as long as it is.
    const failed = this.h.header.ooms.find(o => o.event === l.event);
    this.request = failed ? {at: Math.ceil(at / unit) * unit, bytes: Math.min(failed.requested, MOST_REQUEST * unit), whole: failed.requested} : null;
    if (this.request) at = this.request.at + this.request.bytes;
    this.rows = Math.max(1, Math.ceil(at / unit));
  }
  streamName(stream) { return this.h.header.streams[stream] === '0' ? 'default' : String(stream); }

  draw() {
    const box = this.canvas.getBoundingClientRect(), h = this.h, s = this.s;
    if (!box.width || !this.layout) return;
    const d = Math.min(2, window.devicePixelRatio || 1), g = this.g, w = this.w = box.width - LEFT - 4;
    this.canvas.width = Math.round(box.width * d); this.canvas.height = Math.round(this.rows * ROW * d);
    g.setTransform(d, 0, 0, d, 0, 0);
    g.font = '11px ' + getComputedStyle(document.body).fontFamily;
    g.textBaseline = 'middle'; g.textAlign = 'right'; g.fillStyle = css('--mut');
    for (let k = 0; k < this.rows; k++) {
      if (this.by === 'pool' ? this.labels.has(k) : k % (this.rows > 12 ? 4 : 1) === 0 && (!this.request || k * this.row < this.request.at)) g.fillText(this.by === 'pool' ? this.labels.get(k) : size(k * this.row).replace('.00', ''), LEFT - 8, k * ROW + 6.5, LEFT - 10);
    }
    const color = {used: css('--used'), pinned: css('--pinned'), empty: css('--empty'), pending: css('--pending'), card: css('--card'), ink: css('--ink'), acc: css('--acc')};
    const kinds = h.header.categories.map(c => css('--c-' + c)), ages = Array.from({length: 8}, (_, k) => 'rgb(' + mix(rgb(color.used), rgb(color.card), k / 11).join() + ')');
    const paint = b => this.paint === 'category' ? kinds[h.category[h.kind[b.i]]] : this.paint === 'age' ? ages[this.age(b.i)] : color.used;
    const mask = s.found && s.found.mask, chosen = s.chosen();
    for (const p of this.places) {
      let o = p.offset;
      for (const b of p.s.blocks) {
        g.globalAlpha = mask && !(b.state && mask[b.i]) ? 0.22 : 1;
        this.rect(o, b.bytes, b.state ? paint(b) : p.s.used ? color.pinned : color.empty);
        if (b.state && b.bytes > h.requested[b.i]) { g.globalAlpha *= 0.55; this.rect(o + h.requested[b.i], b.bytes - h.requested[b.i], color.card); }
        if (b.state === 2) this.hatch(o, b.bytes, color.pending, color.card);
        o += b.bytes;
      }
      g.globalAlpha = 1;
      g.fillStyle = color.card;
      const row = Math.floor(p.offset / this.row);
      g.fillRect(LEFT + (p.offset - row * this.row) / this.row * w - 0.5, row * ROW, p.s.expandable ? 0.5 : 1, BAR);
      if (p.s.pool) this.frame(p.offset, p.s.bytes, color.acc);
    }
    g.globalAlpha = 1;
    if (this.request) {
      const fail = css('--fail'), largest = this.largest();
      this.hatch(this.request.at, this.request.bytes, fail, color.card);
      if (largest) this.frame(largest.offset, largest.bytes, color.ink);
      g.fillStyle = fail; g.textAlign = 'right';
      g.fillText('asked for', LEFT - 8, this.request.at / this.row * ROW + 6.5, LEFT - 10);
    }
    for (const p of this.places) {
      let o = p.offset;
      for (const b of p.s.blocks) { if (b.state && b.i === chosen) this.frame(o, b.bytes, color.ink); o += b.bytes; }
    }
  }
  // largest is the place of the largest free block, null where none is free.
  largest() {
    let found = null;
    for (const p of this.places) {
      let offset = p.offset;
      for (const b of p.s.blocks) { if (!b.state && (!found || b.bytes > found.bytes)) found = {offset, bytes: b.bytes}; offset += b.bytes; }
    }
    return found;
  }
  age(i) { return Math.min(7, Math.floor(Math.log2(1 + (this.s.cursor.event - this.h.born[i]) / Math.max(1, this.h.events) * 255))); }

  // pieces are the rectangles of a range of bytes, one for each row.
  pieces(o, bytes) {
    const out = [];
    while (bytes > 0) {
      const row = Math.floor(o / this.row), at = o - row * this.row, part = Math.min(bytes, this.row - at);
      out.push([LEFT + at / this.row * this.w, row * ROW, Math.max(0.4, part / this.row * this.w)]);
      o += part; bytes -= part;
    }
    return out;
  }
  rect(o, bytes, color) {
    this.g.fillStyle = color;
    for (const [x, y, w] of this.pieces(o, bytes)) this.g.fillRect(x, y, w, BAR);
  }
  frame(o, bytes, color) {
    this.g.strokeStyle = color;
    this.g.lineWidth = 1.5;
    for (const [x, y, w] of this.pieces(o, bytes)) this.g.strokeRect(x + 0.75, y + 0.75, Math.max(0.5, w - 1.5), BAR - 1.5);
  }
  hatch(o, bytes, color, back) {
    for (const [x, y, w] of this.pieces(o, bytes)) hatched(this.g, x, y, w, BAR, color, back);
  }

  // holes are the largest free blocks beside the failed request, to scale.
  holes(l, t) {
    const place = this.part.querySelector('[data-role=holes]'), event = this.s.cursor.event, failed = this.h.header.ooms.find(o => o.event === event), found = [];
    if (!place) return;
    place.hidden = !l.segments.length;
    for (const s of l.segments) s.blocks.forEach((block, k) => { if (!block.state) found.push({segment: s, block, k}); });
    found.sort((a, b) => b.block.bytes - a.block.bytes || a.block.at - b.block.at);
    const most = Math.max(1, failed ? failed.requested : 0, found.length ? found[0].block.bytes : 0);
    const bar = (name, bytes, kind, note) => el('li', {'data-bytes': String(bytes)}, el('span', {class: 'name'}, name), el('span', {class: 'track'}, el('i', {class: kind, style: {width: (100 * bytes / most).toFixed(2) + '%'}})), el('b', null, size(bytes)), el('span', {class: 'muted'}, note));
    place.replaceChildren(el('h3', null, failed ? 'The failed request beside the largest free blocks' : 'The largest free blocks'), el('ul', {class: 'holes'},
      failed ? bar('failed request', failed.requested, 'request', failed.requested <= t.largest ? 'would fit into a free block' : t.bytes - l.segments.reduce((n, s) => n + s.used, 0) >= failed.requested ? 'all free blocks together would hold it, none does' : 'more than all free blocks together') : '',
      found.slice(0, HOLES).map(x => bar(hex(x.block.at), x.block.bytes, x.segment.used ? 'pinned' : 'empty', this.between(x.segment, x.k))),
      found.length ? '' : el('li', null, 'No block is free.')));
  }
  // between says what pins a free block: its neighbours in use.
  between(segment, k) {
    const name = b => b && b.state ? this.nameOf(b.i) + ' (' + size(b.bytes) + ')' : '', before = name(segment.blocks[k - 1]), after = name(segment.blocks[k + 1]);
    return before && after ? 'between ' + before + ' and ' + after : before ? 'behind ' + before : after ? 'before ' + after : 'a whole segment';
  }
  nameOf(i) { return siteName(this.h.site(this.h.siteOf(i))); }

  find(e) {
    const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left - LEFT, o = (Math.floor((e.clientY - box.top) / ROW) + x / this.w) * this.row;
    const p = x >= 0 && x <= this.w && this.places.find(q => q.offset <= o && o < q.offset + q.s.bytes);
    if (!p) return null;
    const at = p.s.address + (o - p.offset), k = p.s.blocks.findIndex(b => at < b.at + b.bytes);
    return {segment: p.s, block: p.s.blocks[k], k};
  }
  describe({segment, block, k}) {
    const h = this.h, lines = [], free = block && !block.state;
    if (block) lines.push(pair(free ? segment.used ? 'Free, pinned' : 'Free' : block.state === 2 ? 'Pending free' : 'In use', size(block.bytes)));
    if (free && segment.used) lines.push(el('div', null, 'Pinned: ', el('code', null, this.between(segment, k))));
    if (block && block.state) {
      const i = block.i, kind = h.header.kinds[h.kind[i]];
      if (h.requested[i] !== block.bytes) lines.push(pair('Requested', size(h.requested[i])));
      if (this.s.classified) lines.push(el('div', null, h.header.titles[kind.category]));
      lines.push(el('code', null, this.nameOf(i)), el('div', {class: 'muted'}, 'allocation ' + h.idOf(i) + ', ' + life(h, i)));
    }
    if (block) lines.push(el('div', {class: 'muted'}, 'at ' + hex(block.at)));
    lines.push(el('div', {class: 'muted'}, 'in a ' + this.segmentName(segment)));
    return box(...lines);
  }
  segmentName(s) {
    return (s.expandable ? 'mapped range of an expandable segment' : 'segment') + ' of ' + size(s.bytes) + ' at ' + hex(s.address) + ', ' + size(s.bytes - s.used) + ' of it free, ' +
      (s.pool ? 'private pool ' + this.h.header.pools[s.pool] : s.small ? 'small pool' : 'large pool') + ', stream ' + this.streamName(s.stream);
  }

  // key walks over the blocks in use by address.
  key(e) {
    if (e.key === 'Enter' && this.at >= 0) { this.show(this.at); return true; }
    const step = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!step || !this.layout) return false;
    const blocks = this.layout.segments.flatMap(s => s.blocks).filter(b => b.state), k = blocks.findIndex(b => b.i === this.s.chosen()), b = blocks[clamp(k + step, 0, blocks.length - 1)];
    if (!b) return false;
    this.at = b.i;
    this.s.cursor.pin(b.i, true);
    say(size(b.bytes) + ', ' + this.nameOf(b.i));
    return true;
  }
}
