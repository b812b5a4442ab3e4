// ---- the flame graph of the moment, or of what a range made
const FLAME_ROW = 19, MOST_BARS = 1500;

class Flame {
  constructor(state, part) {
    Object.assign(this, {s: state, h: state.h, box: part.querySelector('[data-role=flame]'), note: part.querySelector('[data-role=flame-note]'), measure: 'bytes', inverted: false, everything: false});
    const ask = view(this.box, () => this.draw());
    state.listeners.push(what => { if (what !== 'view' && what !== 'pin') ask(); });
    const measures = all('[data-measure]', part);
    measures.forEach(b => b.addEventListener('click', () => { this.measure = b.dataset.measure; measures.forEach(x => x.setAttribute('aria-pressed', String(x === b))); this.draw(); }));
    all('[data-flame]', part).forEach(b => b.addEventListener('click', () => { const key = b.dataset.flame; this[key] = !this[key]; b.setAttribute('aria-pressed', String(this[key])); this.draw(); }));
    this.box.addEventListener('pointermove', e => { const b = e.target.closest('button'); if (b) tip.show(e, this.describe(this.bars[+b.dataset.bar])); else tip.hide(); });
    this.box.addEventListener('pointerleave', () => tip.hide());
    this.box.addEventListener('keydown', e => { if (this.key(e)) e.preventDefault(); });
  }

  draw() {
    const s = this.s, h = this.h, m = s.moment, ranged = m.kind === 'range', mask = this.shown();
    const root = flame(h, weigh(h, m, mask, this.measure), this.inverted, this.everything), width = this.box.clientWidth || 800;
    this.total = root.value;
    this.bars = bars(root, 1.5 / width, MOST_BARS);
    const deepest = this.bars.reduce((n, b) => Math.max(n, b.depth), 0);
    this.note.textContent = (ranged ? 'What events ' + count(m.from) + ' to ' + count(m.to) + ' allocated: ' : 'Allocated at event ' + count(Math.max(0, m.event)) + ': ') + this.amount(root.value) + (this.everything ? '' : ', without the lines of torch and C++') + (h.rest && !ranged ? ', of what the page holds' : '') + '.';
    this.box.style.height = (deepest + 1) * FLAME_ROW + 'px';
    const focus = this.box.contains(document.activeElement);
    const colors = Array.from({length: 8}, (_, k) => { return '#' + mix(rgb(css('--s' + k)), rgb(css('--card')), 0.45).map(v => v.toString(16).padStart(2, '0')).join(''); }), grid = css('--grid');
    const color = b => b.node.frame < 0 || h.header.frames[b.node.frame].fold ? grid : colors[this.hue(b)];
    this.box.replaceChildren(...this.bars.map((b, k) => el('button', {type: 'button', tabindex: k ? '-1' : '0', 'data-bar': String(k), 'aria-label': this.name(b) + ', ' + this.amount(b.node.value),
      style: {left: 100 * b.x + '%', width: 'calc(' + 100 * b.w + '% - 1px)', top: b.depth * FLAME_ROW + 'px', background: color(b), color: onColor(color(b))},
      onclick: () => this.filter(b)}, b.w * width > 26 ? this.name(b) : '')));
    if (focus) this.box.firstChild?.focus();
  }
  // shown is what the search and the choice of categories leave.
  shown() {
    const s = this.s, found = s.found && s.found.mask;
    if (s.shown.every((x, g) => x || !s.used[g])) return found;
    return Uint8Array.from(s.of, (g, i) => s.shown[g] && (!found || found[i]) ? 1 : 0);
  }
  amount(v) { return this.measure === 'count' ? plural(v, 'allocation') : this.measure === 'life' ? size(v) + ' × events' : size(v); }
  name(b) {
    if (b.node.frame === -1) return 'everything';
    const f = this.h.header.frames[b.node.frame];
    return f ? f.function + ' ' + placeOf(f.file, f.line) : 'no line of Python recorded';
  }
  hue(b) { const file = this.h.header.frames[b.node.frame].file; let n = 7; for (let i = 0; i < file.length; i++) n = n * 31 + file.charCodeAt(i) >>> 0; return n % 8; }
  describe(b) { return box(el('code', null, this.name(b)), pair(this.amount(b.node.value), percent(b.node.value, this.total))); }

  // filter searches for a line; the root ends that.
  filter(b) {
    const f = this.h.header.frames[b.node.frame], place = f ? placeOf(f.file, f.line) || f.function : '';
    this.s.findText(/[\s]/.test(place) || place[0] === '/' ? '/' + place.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&') + '/' : place);
  }
  key(e) {
    const k = +(document.activeElement.dataset.bar || 0), b = this.bars[k], near = f => { const n = this.bars.findIndex(f); if (n >= 0) this.box.children[n].focus(); };
    switch (e.key) {
      case 'ArrowDown': near(x => x.parent === b); return true;
      case 'ArrowUp': near(x => x === b.parent); return true;
      case 'ArrowRight': near((x, n) => n > k && x.depth === b.depth); return true;
      case 'ArrowLeft': { let n = k - 1; while (n >= 0 && this.bars[n].depth !== b.depth) n--; if (n >= 0) this.box.children[n].focus(); return true; }
    }
    return false;
  }
}
