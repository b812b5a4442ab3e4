// ---- what one device shows: the moment, the pinned allocation, the filter
class State {
  constructor(history, part) {
    this.h = history;
    this.part = part; // the device's element
    const h = history.header;
    this.peak = h.peak === null ? -1 : h.peak;
    const failed = h.ooms[h.ooms.length - 1];
    this.start = failed ? {kind: 'oom', event: failed.event} : {kind: 'peak', event: this.peak}; // what the page opens at
    this.cursor = new Cursor(history.events, this.start);
    this.listeners = [];
    this.cursor.subscribe((what, byHand) => { this.changed(what); if (byHand) this.link(); });
    this.raster = new Raster(history);
    this.cursor.fullest = (from, to) => this.raster.fullest(from, to);
    this.range = {v0: 0, v1: Math.max(1, history.events)}; // of events that pictures show
    this.finder = new Finder(history);
    this.filter = {};
    this.found = null; // what the search lets through, null: everything
    this.cursor.subscribe(what => { if (what === 'moment' && this.filter.life === 'alive') this.search(this.filter); });
    this.memory = h.hasEvents ? new Memory(history) : null;
    this.classified = h.categories.some((c, i) => c && c !== 'unknown' && history.category.length && h.kinds.some(k => k.category === i));
    this.nameSites();
    this.colorBy(this.classified ? 'category' : 'site');
  }

  // nameSites gives the call sites with most bytes at the peak colours of their own.
  nameSites() {
    const h = this.h, sums = new Map();
    for (let i = 0; i < h.length; i++) if (h.alive(i, this.peak)) { const s = h.siteOf(i); sums.set(s, (sums.get(s) || 0) + h.bytes[i]); }
    this.topSites = Array.from(sums).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 8).map(x => x[0]);
    this.slots = new Map(this.topSites.map((s, i) => [s, i]));
  }
  slot(site) { const s = this.slots.get(site); return s === undefined ? 8 : s; }

  colorBy(mode) {
    const h = this.h, header = h.header;
    this.mode = mode;
    if (mode === 'category') {
      this.groups = header.categories.map((c, i) => ({name: header.titles[i], color: this.classified ? '--c-' + c : '--c-all'}));
      this.of = new Uint8Array(h.length);
      for (let i = 0; i < h.length; i++) this.of[i] = h.category[h.kind[i]];
      this.restGroup = header.categories.map((_, i) => i);
    } else {
      this.groups = siteNames(this.topSites.map(s => h.site(s))).map((name, i) => ({name, color: '--s' + i}));
      while (this.groups.length < 9) this.groups.push({name: 'all other call sites', color: '--s8'});
      this.of = new Uint8Array(h.length);
      for (let i = 0; i < h.length; i++) this.of[i] = this.slot(h.siteOf(i));
      this.restGroup = header.categories.map(() => 8);
    }
    this.used = new Array(this.groups.length).fill(false);
    for (let i = 0; i < h.length; i++) this.used[this.of[i]] = true;
    if (h.rest) this.restGroup.forEach(g => { this.used[g] = true; });
    this.shown = this.groups.map(() => true);
    this.regroup();
  }
  regroup() {
    this.raster.group(this.groups.length, this.of, this.restGroup, this.shown);
    this.changed('groups');
  }
  toggle(g) {
    this.shown[g] = !this.shown[g];
    if (!this.shown.some((s, i) => s && this.used[i])) this.shown = this.shown.map(() => true); // nothing left: everything again
    this.regroup();
    this.changed('moment');
  }

  // search marks what a filter lets through; it throws what is wrong with it.
  search(filter, byHand) {
    const found = this.finder.find(filter, this.moment.event);
    this.filter = filter;
    this.found = found.mask || filter.action ? found : null;
    this.changed('found');
    if (byHand) this.link();
  }
  get moment() { return this.cursor.moment; }
  // chosen is the allocation that is pinned, or else that of the event.
  chosen() { return this.pinned >= 0 ? this.pinned : this.moment.event >= 0 && this.moment.kind === 'event' ? this.h.of[this.moment.event] : -1; }
  get pinned() { return this.cursor.pinned; }
  first(byHand) { this.cursor.go(this.start, byHand); }
  link() {
    const words = [], moment = this.cursor.words();
    if (this.part.dataset.index !== '0') words.push('device=' + this.part.dataset.index);
    if (moment) words.push(moment);
    if (this.filter.text) words.push('find=' + encodeURIComponent(this.filter.text));
    if (this.pinned >= 0) words.push('allocation=' + this.h.idOf(this.pinned));
    history.replaceState(null, '', words.length ? '#' + words.join('&') : '#');
  }
  changed(what) { this.listeners.forEach(f => f(what)); }

  // rows sums up what is allocated at the moment by call site and category.
  rows() {
    const h = this.h, m = this.moment, rows = new Map(), ranged = m.kind === 'range', categories = h.header.categories.length;
    const row = (site, category) => {
      const key = (site + 2) * categories + category;
      let r = rows.get(key);
      if (!r) rows.set(key, r = {site, category, blocks: 0, bytes: 0, growth: 0, stacks: new Map()});
      return r;
    };
    const mask = this.found && this.found.mask;
    if (m.kind === 'peak' && h.header.peakSites && !mask) return this.peakRows(h.header.peakSites);
    for (let i = 0; i < h.length; i++) {
      if (!this.shown[this.of[i]] || mask && !mask[i]) continue;
      const here = h.alive(i, m.event), before = ranged && h.alive(i, m.from - 1), after = ranged && h.alive(i, m.to);
      if (!here && before === after) continue;
      const r = row(h.siteOf(i), h.category[h.kind[i]]);
      if (here) { r.blocks++; r.bytes += h.bytes[i]; r.stacks.set(h.stack[i], (r.stacks.get(h.stack[i]) || 0) + h.bytes[i]); }
      r.growth += (after ? h.bytes[i] : 0) - (before ? h.bytes[i] : 0);
    }
    const out = Array.from(rows.values(), r => this.finish(r, h.site(r.site)));
    if (h.rest && !mask) h.header.categories.forEach((c, k) => {
      const bytes = this.shown[this.restGroup[k]] ? h.restAt(m.event, k) : 0;
      if (bytes > 0) out.push(this.finish({site: -3, category: k, blocks: null, bytes, growth: 0, stacks: new Map()}, {function: 'small or short-lived allocations, not kept one by one', file: '', op: ''}));
    });
    return out;
  }
  // peakRows are the figures of the peak as they were worked out from
  // everything, where the page doesn't hold every allocation.
  peakRows(sites) {
    const header = this.h.header, key = s => JSON.stringify([s.function, s.file, s.line, s.called_from, s.op, s.has_stack, s.before_recording]);
    const numbers = new Map(header.sites.map((s, i) => [key(s), i]));
    return sites.map(s => {
      const site = numbers.has(key(s)) ? numbers.get(key(s)) : s.has_stack ? -3 : s.before_recording ? -2 : -1;
      return this.finish({site, category: Math.max(0, header.categories.indexOf(s.category)), blocks: s.blocks, bytes: s.bytes, growth: 0, stacks: new Map()}, s);
    }).filter(r => this.shown[this.mode === 'site' ? this.slot(r.site) : r.category]);
  }
  finish(r, s) {
    const h = this.h;
    r.function = s.function || siteName(s);
    r.place = placeOf(s.file, s.line);
    r.file = s.file;
    r.from = s.called_from ? s.called_from.function + ' ' + placeOf(s.called_from.file, s.called_from.line) : '';
    r.fromFile = s.called_from ? s.called_from.file : '';
    r.op = s.op || '';
    r.title = h.header.titles[r.category];
    r.color = this.classified ? '--c-' + h.header.categories[r.category] : '--s' + this.slot(r.site);
    r.name = siteName(s);
    return r;
  }
}

// view draws a place when it can be seen, and again when what it shows has changed;
// what belongs into a picture of the whole page is drawn at leisure before it is seen.
function view(place, draw, soon) {
  let due = true, seen = false, frame = 0;
  const run = () => { if (due && !unseen(place)) { due = false; attempt(draw); } };
  const ask = () => { due = true; if (seen && !frame) frame = requestAnimationFrame(() => { frame = 0; run(); }); };
  new IntersectionObserver(entries => { seen = entries[entries.length - 1].isIntersecting; if (seen) run(); }, {rootMargin: '200px'}).observe(place);
  scenes.push({place, build: () => { due = true; run(); }, resize: () => { due = true; run(); }});
  if (soon) (window.requestIdleCallback || setTimeout)(run);
  return ask;
}
