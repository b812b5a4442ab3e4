// ---- the segment map: memory by address, rows of equal length
class SegmentMap {
  constructor(state, part, canvas) {
    Object.assign(this, {s: state, h: state.h, part, canvas, g: canvas.getContext('2d'), which: 0});
    this.choose(Math.max(0, this.h.maps.findIndex(m => m.name === 'oom'))); // a failure is what somebody came for
    scenes.push({place: canvas, build: () => this.draw(), resize: () => this.draw()});
    all('[data-map]', part).forEach(b => b.addEventListener('click', () => {
      this.choose(+b.dataset.map);
    }));
    canvas.addEventListener('pointermove', e => { const x = this.find(e); if (x) tip.show(e, this.describe(x)); else tip.hide(); });
    canvas.addEventListener('pointerleave', () => tip.hide());
    canvas.addEventListener('click', e => {
      const x = this.find(e), i = x && x.block && x.block.state ? this.h.find(x.block.allocation) : -1;
      if (i < 0) return;
      devices[+this.part.dataset.index].see('each');
      this.s.pin(i, true);
      const panel = this.part.querySelector('[data-role=pin]');
      if (panel) panel.scrollIntoView({block: 'center'}); // smoothly or not, as the style sheet says
    });
  }
  choose(which) {
    this.which = which;
    const map = this.h.maps[which];
    all('[data-map]', this.part).forEach(b => b.setAttribute('aria-pressed', String(+b.dataset.map === which)));
    all('[data-role=map-end]', this.part).forEach(p => { p.hidden = map.name !== 'end'; });
    this.offsets = [];
    this.total = 0;
    let free = 0, empty = 0;
    for (const s of map.segments) {
      this.offsets.push(this.total);
      this.total += s.bytes;
      free += s.bytes - s.used;
      if (!s.used) empty += s.bytes;
    }
    const unit = Math.max(1 << 20, Math.pow(2, Math.ceil(Math.log2(this.total / 28))));
    this.row = unit;
    this.rows = Math.max(1, Math.ceil(this.total / unit));
    const note = this.part.querySelector('[data-role=map-note]');
    if (note) note.textContent = plural(map.segments.length, 'segment') + (map.event < 0 ? '' : ' at event ' + count(map.event)) + ', ' + size(this.total) + ', ' + size(free - empty) + ' free beside blocks in use, ' + size(empty) + ' in empty segments; each row is ' + size(unit);
    this.canvas.style.height = this.rows * 15 + 'px';
    this.draw();
  }
  draw() {
    const box = this.canvas.getBoundingClientRect();
    if (!box.width) return;
    const d = Math.min(2, window.devicePixelRatio || 1), g = this.g, w = this.w = box.width - LEFT - 4;
    this.canvas.width = Math.round(box.width * d); this.canvas.height = Math.round(this.rows * 15 * d);
    g.setTransform(d, 0, 0, d, 0, 0);
    g.font = '11px ' + getComputedStyle(document.body).fontFamily;
    g.textBaseline = 'middle'; g.textAlign = 'right'; g.fillStyle = css('--mut');
    for (let k = 0; k < this.rows; k += this.rows > 12 ? 4 : 1) g.fillText(size(k * this.row).replace('.00', ''), LEFT - 8, k * 15 + 6.5);
    const color = {used: css('--used'), pinned: css('--pinned'), empty: css('--empty'), pending: css('--pending'), card: css('--card')};
    this.h.maps[this.which].segments.forEach((s, i) => {
      let o = this.offsets[i];
      for (const b of s.blocks) {
        this.rect(o, b.bytes, b.state === 2 ? color.pending : b.state ? color.used : s.used ? color.pinned : color.empty);
        o += b.bytes;
      }
      const row = Math.floor(this.offsets[i] / this.row);
      g.fillStyle = color.card;
      g.fillRect(LEFT + (this.offsets[i] - row * this.row) / this.row * w - 0.5, row * 15, 1, 12);
    });
  }
  rect(o, bytes, color) {
    this.g.fillStyle = color;
    while (bytes > 0) {
      const row = Math.floor(o / this.row), at = o - row * this.row, part = Math.min(bytes, this.row - at);
      this.g.fillRect(LEFT + at / this.row * this.w, row * 15, Math.max(0.4, part / this.row * this.w), 12);
      o += part; bytes -= part;
    }
  }
  find(e) {
    const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left - LEFT, o = (Math.floor((e.clientY - box.top) / 15) + x / this.w) * this.row;
    if (x < 0 || x > this.w || o >= this.total || o < 0) return null;
    let a = 0, b = this.offsets.length - 1;
    while (a < b) { const m = a + b + 1 >> 1; if (this.offsets[m] <= o) a = m; else b = m - 1; }
    const segment = this.h.maps[this.which].segments[a], at = segment.address + (o - this.offsets[a]);
    return {segment, block: segment.blocks.find(k => at < k.at + k.bytes)};
  }
  describe({segment, block}) {
    const h = this.h, lines = [];
    if (block) {
      lines.push(pair(block.state === 0 ? segment.used ? 'Free, pinned by a block in use' : 'Free' : block.state === 2 ? 'Waiting for the device' : 'In use', size(block.bytes)));
      if (block.state) {
        const k = h.header.kinds[block.kind];
        if (this.s.classified) lines.push(el('div', null, h.header.titles[k.category]));
        const site = h.siteOfStack[block.stack];
        lines.push(el('code', null, siteName(h.site(site >= 0 ? site : -1))), el('div', {class: 'muted'}, 'allocation ' + block.allocation));
      }
    }
    lines.push(el('div', {class: 'muted'}, 'in a segment of ' + size(segment.bytes) + ', ' + size(segment.bytes - segment.used) + ' of it free, ' + (segment.pool ? 'private pool ' + segment.pool : segment.small ? 'small pool' : 'large pool') + (segment.expandable ? ', expandable' : '')));
    return box(...lines);
  }
}
