// ---- two recordings over time, side by side
// stretches lie side by side in both: the time before the first step, then step by step and
// phase by phase; [from, to) of each side. A phase that one of them lacks stands alone; a
// stretch in which a recording ends or runs out of memory is cut: nothing tells how long it
// would have been, so that it lies event by event beside the other.
function stretches(sides, steps, most) {
  const byNumber = sides.map(h => new Map(h.header.steps.map((s, i) => [s.step, i])));
  const step = (side, number) => number === null || number === undefined || !byNumber[side].has(number) ? -1 : byNumber[side].get(number);
  const pairs = steps.map(p => [step(0, p[0]), step(1, p[1])]).filter(p => p[0] >= 0 || p[1] >= 0), out = [];
  const range = (side, i) => { const list = sides[side].header.steps; return i < 0 ? null : [list[i].first_event, i + 1 < list.length ? list[i + 1].first_event : sides[side].events]; };
  const add = (name, a, b, cut) => { if (a && a[1] > a[0] || b && b[1] > b[0]) out.push({name, parts: [a, b], cut: cut || false}); };
  if (!pairs.length || pairs.length > most) return [{name: '', parts: [[0, sides[0].events], [0, sides[1].events]], cut: sides.some(h => h.header.ooms.length)}];
  const first = side => { const i = pairs.map(p => p[side]).find(i => i >= 0); return i === undefined ? sides[side].events : sides[side].header.steps[i].first_event; };
  add('before the first step', [0, first(0)], [0, first(1)]);
  const failsIn = (side, part) => part && sides[side].header.ooms.some(o => o.event >= part[0] && o.event <= part[1]), ends = (side, part) => part && part[1] === sides[side].events;
  for (const p of pairs) {
    const whole = [range(0, p[0]), range(1, p[1])], lists = [0, 1].map(side => p[side] < 0 ? [] : sides[side].header.steps[p[side]].phases || []);
    const number = sides[p[0] >= 0 ? 0 : 1].header.steps[p[p[0] >= 0 ? 0 : 1]].step, name = 'step ' + number;
    if (!whole[0] || !whole[1] || !lists[0].length || !lists[1].length || pairs.length * Math.max(lists[0].length, lists[1].length) > most) {
      add(name, ...whole, [0, 1].some(side => failsIn(side, whole[side]) || ends(side, whole[side])) && failsIn(0, whole[0]) !== failsIn(1, whole[1]));
      continue;
    }
    const part = (side, i) => [i ? lists[side][i].first_event : whole[side][0], i + 1 < lists[side].length ? lists[side][i + 1].first_event : whole[side][1]];
    const last = (side, i) => i === lists[side].length - 1 && ends(side, whole[side]); // the recording ends in it, whole or not
    const rows = alike(lists[0].map(x => x.phase), lists[1].map(x => x.phase));
    for (const [i, k] of rows) {
      const a = i < 0 ? null : part(0, i), b = k < 0 ? null : part(1, k), cut = failsIn(0, a) !== failsIn(1, b) || last(0, i) !== last(1, k) && lists[0].length !== lists[1].length;
      add(name + ', ' + words(lists[i < 0 ? 1 : 0][i < 0 ? k : i].phase), a, b, a && b && cut);
    }
  }
  return out;
}

// alike pairs two rows of words in their order, as many equal ones as there can be: places in
// each, -1 where the other has no such.
function alike(a, b) {
  const n = a.length, m = b.length, best = Array.from({length: n + 1}, () => new Uint16Array(m + 1)), out = [];
  for (let i = n - 1; i >= 0; i--) for (let k = m - 1; k >= 0; k--) best[i][k] = a[i] === b[k] ? best[i + 1][k + 1] + 1 : Math.max(best[i + 1][k], best[i][k + 1]);
  for (let i = 0, k = 0; i < n || k < m;) {
    if (i < n && k < m && a[i] === b[k]) out.push([i++, k++]);
    else if (i < n && (k === m || best[i + 1][k] >= best[i][k + 1])) out.push([i++, -1]);
    else out.push([-1, k++]);
  }
  return out;
}

// place lays stretches out between 0 and 1, each as wide as its longer side; stop is where each
// side ends in it.
function place(list) {
  const span = p => p ? p[1] - p[0] : 0, long = s => Math.max(1, ...s.parts.map(span)), all = list.reduce((n, s) => n + long(s), 0);
  let x = 0;
  for (const s of list) {
    s.x = x;
    x += long(s) / all;
    s.end = x;
    s.stop = s.parts.map(p => s.cut && p ? s.x + (s.end - s.x) * span(p) / long(s) : s.end);
  }
  return list;
}

class Comparison {
  constructor(sides, data, host) {
    this.sides = sides;
    this.data = data;
    this.categories = [...new Set(sides.flatMap(h => h.header.categories))];
    this.titles = this.categories.map(c => { for (const h of sides) { const i = h.header.categories.indexOf(c); if (i >= 0) return h.header.titles[i]; } return c; });
    this.rasters = sides.map(h => {
      const group = h.header.categories.map(c => this.categories.indexOf(c)), r = new Raster(h), of = new Uint8Array(h.length);
      for (let i = 0; i < h.length; i++) of[i] = group[h.category[h.kind[i]]];
      r.group(this.categories.length, of, group, this.categories.map(() => true));
      return r;
    });
    this.top = 1.04 * Math.max(1, ...this.rasters.map(r => r.top));
    this.list = place(stretches(sides, data.steps, 400));
    this.pairOf = [new Map(data.sites.map((p, k) => [p[0], k])), new Map(data.sites.map((p, k) => [p[1], k]))];
    this.frameOf = [new Map(data.frames.map((p, k) => [p[0], k])), new Map(data.frames.map((p, k) => [p[1], k]))];
    this.build(host);
    this.at(this.locate(1, sides[1].header.peak ?? 0));
  }

  // locate is where an event of one side lies, at is a place for both.
  locate(side, event) {
    for (const s of this.list) { const p = s.parts[side]; if (p && event >= p[0] && event < p[1]) return s.x + (s.stop[side] - s.x) * (event + 0.5 - p[0]) / (p[1] - p[0]); }
    return event < 0 ? 0 : 1;
  }
  // eventAt is the event of a side at a place, -1 before its first; what a side lacks
  // stands where it was before.
  eventAt(side, x) {
    let last = -1;
    for (const s of this.list) {
      const p = s.parts[side];
      if (p && p[1] > p[0]) {
        if (x < s.end) return clamp(Math.floor(p[0] + (p[1] - p[0]) * clamp((x - s.x) / (s.stop[side] - s.x), 0, 1)), p[0], p[1] - 1);
        last = p[1] - 1;
      } else if (x < s.end) return last;
    }
    return last;
  }
  stretchAt(x) { return this.list.find(s => x < s.end) || this.list[this.list.length - 1]; }

  // parting says where the two part: the first stretch that one of them lacks or in which
  // one fails, or in which their largest sums are apart by more than a hundredth of the larger peak.
  parting() {
    const most = (side, p) => { let n = 0; for (let e = p[0]; e < p[1]; e++) n = Math.max(n, this.rasters[side].total[e]); return n; }, names = ['first', 'second'];
    for (const s of this.list) {
      const [a, b] = s.parts, name = s.name.startsWith('before') ? s.name : 'in ' + (s.name || 'the recording');
      if (!a || !b) {
        const has = a ? 0 : 1, other = this.sides[1 - has].header.ooms.length ? ', which ran out of memory' : '';
        return 'They part ' + name + ': only the ' + names[has] + ' has it, not the ' + names[1 - has] + other + '.';
      }
      const sums = [most(0, a), most(1, b)], failed = [0, 1].filter(side => this.sides[side].header.ooms.some(o => o.event >= s.parts[side][0] && o.event <= s.parts[side][1]));
      if (Math.abs(sums[0] - sums[1]) > 0.01 * this.top || failed.length === 1)
        return 'They part ' + name + ': at most ' + short(sums[0]) + ' before and ' + short(sums[1]) + ' after' + (failed.length === 1 ? '; the ' + names[failed[0]] + ' runs out of memory there' : '') + '.';
    }
    return 'They don\'t part by more than 1 % of the peak in any phase.';
  }

  build(host) {
    const button = (text, f) => el('button', {type: 'button', onclick: f}, text), names = ['before', 'after'];
    this.canvases = [0, 1].map(side => el('canvas', {tabindex: '0', role: 'img', 'data-side': String(side), 'aria-label': names[side] + ': allocated memory by category over time, at most ' + short(this.rasters[side].top) + '; left and right arrow keys move the moment'}));
    this.heads = [0, 1].map(() => el('span', {class: 'muted'}));
    this.tables = el('div');
    this.flames = el('div', {class: 'flames'});
    this.flameNote = el('p', {class: 'sub'});
    const used = this.categories.filter((c, i) => this.rasters.some(r => r.of.includes(i)));
    host.append(el('div', {class: 'row'}, el('div', null, el('h2', null, 'Both over time'), el('p', {class: 'sub'}, 'Aligned by step and phase, on one scale' + (this.list.some(s => s.cut) ? '; where one is cut short, event by event' : '') + '. A click chooses a moment in one, and the other follows.')),
      el('div', {class: 'seg', role: 'group', 'aria-label': 'Moment'}, button('Peak before', () => this.at(this.locate(0, this.sides[0].header.peak ?? 0))), button('Peak after', () => this.at(this.locate(1, this.sides[1].header.peak ?? 0))), button('End', () => this.at(1 - 1e-9)))),
      el('p', {class: 'parting'}, this.parting()),
      ...[0, 1].map(side => el('figure', null, el('figcaption', null, el('span', {class: 'run', title: this.data.names[side]}, el('b', null, names[side]), ' ', shortFile(this.data.names[side])), this.heads[side]), this.canvases[side])),
      el('p', {class: 'keys'}, used.map(c => el('span', null, el('span', {class: 'dot', style: {background: 'var(--c-' + c + ')'}}), this.titles[this.categories.indexOf(c)]))),
      el('p', {class: 'help'}, 'After a click: ', el('kbd', null, '←'), ' ', el('kbd', null, '→'), ' one event, ', el('kbd', null, 'Page up'), ' ', el('kbd', null, 'Page down'), ' a hundred.'),
      el('h3', null, 'At that moment'), this.tables, el('h3', null, 'The difference as a flame graph'), this.flameNote, this.flames);
    this.canvases.forEach((c, side) => {
      c.addEventListener('click', e => { c.focus({preventScroll: true}); const r = c.getBoundingClientRect(); this.at((e.clientX - r.left) / r.width); });
      c.addEventListener('keydown', e => {
        const move = {ArrowLeft: -1, ArrowRight: 1, PageUp: -100, PageDown: 100}[e.key];
        if (!move) return;
        e.preventDefault();
        this.at(this.locate(side, clamp(this.eventAt(side, this.x) + move, 0, this.sides[side].events - 1)));
      });
    });
    new ResizeObserver(() => this.draw()).observe(host);
    scenes.push({place: host, build: () => this.draw(), resize: () => this.draw()});
  }

  at(x) {
    this.x = clamp(x, 0, 1 - 1e-9);
    this.events = [0, 1].map(side => this.eventAt(side, this.x));
    this.draw();
    this.fill();
    say(this.stretchAt(this.x).name + ': event ' + this.events.map(count).join(' and ') + ', ' + short(Math.abs(this.sums[1] - this.sums[0])) + (this.sums[1] < this.sums[0] ? ' less' : ' more') + ' after than before');
  }

  // draw paints both timelines; the pixels stay until the width changes.
  draw() {
    const card = rgb(css('--card')), ink = css('--ink'), ratio = window.devicePixelRatio || 1;
    const colors = this.categories.map(c => { const v = rgb(css('--c-' + c) || '#888888'); return [abgr(v), abgr(mix(v, card, 0.18)), abgr(mix(v, card, 0.34)), abgr(v), abgr(v), abgr(v)]; });
    this.canvases.forEach((canvas, side) => {
      const W = Math.round(canvas.clientWidth * ratio), H = Math.round(canvas.clientHeight * ratio), key = [W, H, css('--card')].join();
      if (!W) return;
      const c = canvas.getContext('2d', {willReadFrequently: true});
      if (canvas.key !== key) {
        canvas.key = key;
        canvas.width = W; canvas.height = H;
        for (const s of this.list) {
          const p = s.parts[side], x0 = Math.round(s.x * W), w = Math.round(s.stop[side] * W) - x0;
          if (!p || p[1] <= p[0]) { c.fillStyle = css('--grid'); c.fillRect(x0, 0, Math.round(s.end * W) - x0, H); } // it has no such phase
          if (!p || p[1] <= p[0] || w < 1) continue;
          const pixels = new Uint32Array(w * H), ids = new Int32Array(w * H);
          this.rasters[side].draw(pixels, ids, w, H, p[0], p[1], this.top, colors, abgr(card), -1, 0, null);
          c.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), w, H), x0, 0);
        }
        canvas.picture = c.getImageData(0, 0, W, H);
      }
      c.putImageData(canvas.picture, 0, 0);
      c.fillStyle = ink;
      c.globalAlpha = 0.15;
      for (const s of this.list) c.fillRect(Math.round(s.x * W), 0, 1, H);
      c.globalAlpha = 1;
      c.fillRect(Math.round(this.x * W), 0, Math.max(2, ratio), H);
    });
  }

  // held sums up by category and by call site what is allocated on a side.
  held(side) {
    const h = this.sides[side], event = this.events[side], categories = new Float64Array(this.categories.length), sites = new Map();
    for (let i = 0; i < h.length; i++) {
      if (!h.alive(i, event)) continue;
      categories[this.rasters[side].of[i]] += h.bytes[i];
      const s = h.siteOf(i), pair = this.pairOf[side].get(s), key = pair !== undefined ? pair : s < 0 ? 'none' + s : side + '/' + s;
      sites.set(key, (sites.get(key) || 0) + h.bytes[i]);
    }
    h.header.categories.forEach((c, k) => { categories[this.categories.indexOf(c)] += h.restAt(event, k); });
    return {categories, sites};
  }
  siteText(key) {
    const name = (side, i) => siteName(this.sides[side].site(i));
    if (typeof key === 'string') return key.startsWith('none') ? siteName(this.sides[0].site(+key.slice(4))) : name(+key[0], +key.slice(2));
    const [a, b] = this.data.sites[key], before = this.sides[0].site(a), after = this.sides[1].site(b);
    return siteName(after) + (before.line !== after.line && before.line ? ' (was line ' + before.line + ')' : '');
  }

  fill() {
    const rows = [], held = [this.held(0), this.held(1)];
    this.sums = held.map(x => x.categories.reduce((n, v) => n + v, 0));
    this.heads.forEach((place, side) => { place.textContent = this.stretchAt(this.x).name + ' · event ' + count(Math.max(0, this.events[side])) + ' · ' + size(this.sums[side]); });
    const change = (x, y) => el('td', {class: 'n ' + (y > x ? 'more' : y < x ? 'less' : '')}, (y > x ? '+' : '') + size(y - x));
    const row = (name, x, y, c) => el('tr', null, el('th', {scope: 'row'}, c ? el('span', {class: 'dot c-' + c}) : '', name), el('td', {class: 'n'}, size(x)), el('td', {class: 'n'}, size(y)), change(x, y));
    const table = (name, body) => el('div', {class: 'scroll'}, el('table', {class: 'both'}, el('thead', null, el('tr', null, [name, 'Before', 'After', 'Change'].map((t, i) => el('th', {class: i ? 'n' : 'left'}, t)))), el('tbody', null, body)));
    const list = sites => table('Call site', sites.map(r => row(el('code', null, this.siteText(r[0])), r[1], r[2])));
    this.categories.forEach((c, i) => { const [x, y] = held.map(h => h.categories[i]); if (x || y) rows.push([this.titles[i], x, y, c]); });
    const sites = [...new Set(held.flatMap(x => [...x.sites.keys()]))].map(k => [k, ...held.map(x => x.sites.get(k) || 0)]).filter(r => r[1] !== r[2]).sort((p, q) => Math.abs(q[2] - q[1]) - Math.abs(p[2] - p[1]));
    this.tables.replaceChildren(table('Category', [...rows.sort((p, q) => Math.abs(q[2] - q[1]) - Math.abs(p[2] - p[1])).map(r => row(...r)), row('Allocated', ...this.sums)]),
      sites.length ? list(sites.slice(0, 8)) : el('p', null, 'Every call site holds the same in both.'),
      sites.length > 8 ? el('details', {ontoggle: fit}, el('summary', null, el('span', {class: 'muted'}, plural(sites.length - 8, 'smaller change'))), list(sites.slice(8, 100)), sites.length > 100 ? el('p', {class: 'sub'}, count(sites.length - 100) + ' more not listed.') : '') : '');
    all('table', this.tables).forEach(label);
    fit();
    this.fillFlames();
  }

  // fillFlames joins both trees of stacks: a bar is as wide as a line holds in both together.
  fillFlames() {
    const trees = this.sides.map((h, side) => flame(h, weigh(h, {kind: 'event', event: this.events[side]}, null, 'bytes'), false, false));
    const join = (a, b) => {
      const node = {frame: 0, of: [a, b], value: (a ? a.value : 0) + (b ? b.value : 0), children: new Map()}, found = new Map();
      [a, b].forEach((t, side) => t && t.children.forEach(child => { const f = this.frameOf[side].get(child.frame), key = f !== undefined ? f : child.frame < 0 ? 'none' : side + '/' + child.frame, two = found.get(key) || [null, null]; two[side] = child; found.set(key, two); }));
      let n = 0;
      for (const two of found.values()) node.children.set(n++, join(...two));
      return node;
    };
    const list = bars(join(...trees), 0.004, 2000), deep = list.reduce((n, x) => Math.max(n, x.depth), 0);
    this.flameNote.textContent = 'A bar is as wide as what a line and all it called hold in both together, outermost line on top. Red holds more after, green less.';
    this.flames.style.height = (deep + 1) * 19 + 'px';
    this.flames.replaceChildren(...list.map(x => {
      const [a, b] = x.node.of.map(t => t ? t.value : 0), side = x.node.of[1] ? 1 : 0, t = x.node.of[side], f = t.frame >= 0 ? this.sides[side].header.frames[t.frame] : null;
      const text = f ? f.function + ' ' + placeOf(f.file, f.line) : x.depth ? 'no line' : 'everything', moved = x.node.of[0] && x.node.of[1] && f && this.sides[0].header.frames[x.node.of[0].frame].line !== f.line ? ' (was line ' + this.sides[0].header.frames[x.node.of[0].frame].line + ')' : '';
      const bar = el('div', {class: b > a ? 'more' : b < a ? 'less' : 'same', style: {left: 100 * x.x + '%', width: 100 * x.w + '%', top: x.depth * 19 + 'px'}}, text);
      bar.style.setProperty('--much', Math.round(90 * Math.min(1, Math.abs(b - a) / Math.max(1, a + b))) + '%');
      bar.addEventListener('pointermove', e => tip.show(e, el('div', null, el('b', null, text + moved), el('div', null, size(a) + ' before, ' + size(b) + ' after, ' + (b >= a ? '+' : '') + size(b - a)))));
      bar.addEventListener('pointerleave', () => tip.hide());
      return bar;
    }));
  }
}

page();
const data = json('compared');
Promise.all(data.columns.map(c => inflate(c).then(bytes => new History(bytes)))).then(sides => {
  window.vramscope = new Comparison(sides, data, byId('compare'));
  ready();
}).catch(e => console.error(e));
