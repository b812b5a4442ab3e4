// ---- segments over time: reserved memory as a band for each piece
class Reserved extends Timeline {
  // bands are worked out when they are first drawn.
  get bands() { return this.known || (this.known = this.s.memory.bands()); }

  drawRequest() {}

  fill(card) {
    const h = this.h, {W, H, pixels, ids, v0, v1} = this, bands = this.bands, per = (v1 - v0) / W;
    const color = bands.map((b, k) => abgr(mix(rgb(css(b.pool ? '--s5' : b.expandable ? '--s2' : b.small ? '--s4' : '--used')), card, k & 1 ? 0.2 : 0)));
    pixels.fill(abgr(card));
    ids.fill(-1);
    // What is reserved changes seldom: each column shows what was so at its end, or the most within it.
    const changes = this.s.memory.changes, levels = [{event: -1, bytes: bands.reduce((n, b) => n + (b.from < 0 ? b.end - b.start : 0), 0)}];
    for (const c of changes) levels.push({event: c.event, bytes: levels[levels.length - 1].bytes + (c.action === SEGMENT_ALLOC || c.action === SEGMENT_MAP ? c.bytes : -c.bytes)});
    const at = e => Math.max(0, lowerBound(levels, e + 1) - 1);
    let most = 1;
    for (let k = at(v0); k < levels.length && levels[k].event < v1; k++) most = Math.max(most, levels[k].bytes);
    this.top = most * 1.04;
    const scale = H / this.top;
    let live = [], shown = -2;
    for (let x = 0; x < W; x++) {
      const from = Math.floor(v0 + x * per), to = Math.max(from + 1, Math.floor(v0 + (x + 1) * per));
      if (from >= h.events) break;
      let best = at(from);
      for (let k = best; k < levels.length && levels[k].event < to; k++) if (levels[k].bytes > levels[best].bytes) best = k;
      const event = levels[best].event;
      if (event !== shown) { live = []; bands.forEach((b, k) => { if (b.from <= event && b.to > event) live.push(k); }); shown = event; }
      let sum = 0, y = H - 1;
      for (const k of live) {
        sum += bands[k].end - bands[k].start;
        const edge = Math.max(-1, H - 1 - Math.round(sum * scale)), gap = y - edge > 3;
        let o = y * W + x;
        for (; y > edge; y--, o -= W) { pixels[o] = color[k]; ids[o] = k; }
        if (gap) pixels[o + W] = abgr(card);
      }
    }
  }
  tell(k) {
    const b = this.bands[k], h = this.h;
    if (!b) return null;
    return box(pair(b.expandable ? 'Mapped range of an expandable segment' : 'Segment', size(b.end - b.start)), el('div', {class: 'muted'}, 'at ' + hex(b.start) + (b.pool ? ', private pool ' + h.header.pools[b.pool] : b.small ? ', small pool' : '')),
      el('div', {class: 'muted'}, (b.from < 0 ? 'reserved before the recording' : 'reserved at ' + moment(h, b.from)) + ', ' + (b.to >= h.events ? 'never given back' : 'given back at ' + moment(h, b.to))));
  }
  choose(k, event) { this.s.cursor.set(event, true); }
}
