// ---- the allocation timeline's pixels
// Allocations lie in stacked bands, group by group. For every column of pixels
// the history is replayed up to the column's fullest event. The state where a
// view begins comes from one look at all allocations, which takes milliseconds
// for half a million. What is too small to see is summed up, so that a column
// never has more pieces than a few for each of its pixels.
class Raster {
  constructor(history) {
    this.h = history;
    this.total = new Float64Array(Math.max(1, history.events));
    this.next = new Int32Array(0);
  }

  // group sets the groups of all allocations, and which of them are shown.
  group(groups, of, restGroup, shown) {
    this.groups = groups;
    this.of = of;
    this.restGroup = restGroup; // category -> group, of what isn't drawn one by one
    this.shown = shown;
    const h = this.h, n = h.length;
    if (this.next.length !== n + groups + 1) { this.next = new Int32Array(n + groups + 1); this.previous = new Int32Array(n + groups + 1); }
    let level = 0;
    for (let i = 0; i < h.header.older; i++) if (shown[of[i]]) level += h.bytes[i];
    const rest = h.rest;
    let k = -1, restLevel = 0;
    this.top = 0;
    for (let e = 0; e < h.events; e++) {
      if (rest) {
        while (k + 1 < rest.events.length && rest.events[k + 1] <= e) { k++; restLevel = this.restSum(k); }
      }
      const a = h.begins[e], b = h.ends[e];
      if (a >= 0 && shown[of[a]]) level += h.bytes[a];
      if (b >= 0 && shown[of[b]]) level -= h.bytes[b];
      this.total[e] = level + restLevel;
      if (this.total[e] > this.top) this.top = this.total[e];
    }
  }
  restSum(k) {
    let s = 0;
    this.h.rest.levels.forEach((column, c) => { if (this.shown[this.restGroup[c]]) s += column[k]; });
    return s;
  }
  // fullest is the first event of a range at which most is allocated.
  fullest(from, to) {
    let best = clamp(from, 0, this.h.events - 1);
    for (let e = best; e <= to && e < this.h.events; e++) if (this.total[e] > this.total[best]) best = e;
    return best;
  }

  // sums is the place of what is too small: what a search dims comes after the rest.
  sums(i, g) { return this.mask && !this.mask[i] ? g + this.groups : g; }
  insert(i) {
    const g = this.of[i];
    if (!this.shown[g]) return;
    if (this.h.bytes[i] < this.limit) { this.small[this.sums(i, g)] += this.h.bytes[i]; return; }
    const end = this.h.length + g + 1, p = this.previous[end];
    this.next[p] = i; this.previous[i] = p; this.next[i] = end; this.previous[end] = i;
  }
  remove(i) {
    const g = this.of[i];
    if (!this.shown[g]) return;
    if (this.h.bytes[i] < this.limit) { this.small[this.sums(i, g)] -= this.h.bytes[i]; return; }
    const p = this.previous[i], q = this.next[i];
    this.next[p] = q; this.previous[q] = p;
  }
  step(e) {
    const h = this.h, a = h.begins[e], b = h.ends[e];
    if (a >= 0) this.insert(a);
    if (b >= 0) this.remove(b);
  }
  // begin sets the state right before an event.
  begin(event) {
    const h = this.h, n = h.length, groups = this.groups;
    this.small = new Float64Array(2 * groups);
    for (let g = 0; g <= groups; g++) { this.next[n + g] = g < groups ? n + g + 1 : -1; this.previous[n + g] = g ? n + g - 1 : -1; }
    for (let i = 0; i < n; i++) if (h.born[i] < event && h.died[i] >= event) this.insert(i);
  }

  // draw fills pixels and ids (index of an allocation; -2 - group for what is
  // summed up; -1 for nothing) for the events from v0 to v1. What a mask leaves out
  // has the colours from the fourth on, the rest is outlined.
  draw(pixels, ids, W, H, v0, v1, top, colors, background, pinned, pinColor, mask) {
    const h = this.h, n = h.length, per = (v1 - v0) / W, scale = H / top, rest = h.rest;
    this.limit = top / H / 6;
    this.mask = mask;
    pixels.fill(background);
    ids.fill(-1);
    let now = Math.max(0, Math.floor(v0)), k = -1;
    this.begin(now);
    for (let x = 0; x < W; x++) {
      const from = Math.floor(v0 + x * per), to = Math.max(from + 1, Math.floor(v0 + (x + 1) * per));
      if (from >= h.events) break;
      const best = this.fullest(from, to - 1);
      while (now <= best) this.step(now++);
      if (rest) while (k + 1 < rest.events.length && rest.events[k + 1] <= best) k++;
      let sum = 0, y = H - 1;
      const fill = (color, id) => {
        const edge = Math.max(-1, H - 1 - Math.round(sum * scale));
        if (y <= edge) return;
        const gap = y - edge > 4;
        let o = y * W + x;
        for (; y > edge; y--, o -= W) { pixels[o] = color; ids[o] = id; }
        if (gap) pixels[o + W] = background;
      };
      for (let g = 0; g < this.groups; g++) {
        if (!this.shown[g]) continue;
        let s = this.small[g], dim = this.small[g + this.groups];
        if (k >= 0) rest.levels.forEach((column, c) => { if (this.restGroup[c] !== g) return; if (mask) dim += column[k]; else s += column[k]; });
        if (s > 0.5) { sum += s; fill(colors[g][2], -2 - g); }
        if (dim > 0.5) { sum += dim; fill(colors[g][5], -2 - g); }
        for (let i = this.next[n + g]; i < n; i = this.next[i]) {
          sum += h.bytes[i];
          fill(i === pinned ? pinColor : colors[g][(mask && !mask[i] ? 3 : 0) + (i & 1)], i);
        }
      }
    }
    if (mask) outline(pixels, ids, W, H, mask, pinColor);
  }
}

// hatched fills a rectangle with oblique lines.
function hatched(g, x, y, w, h, color, back) {
  g.save();
  g.beginPath(); g.rect(x, y, w, h); g.clip();
  g.fillStyle = back; g.fillRect(x, y, w, h);
  g.strokeStyle = color; g.lineWidth = 1.5;
  g.beginPath();
  for (let k = x - h; k < x + w; k += 5) { g.moveTo(k, y + h); g.lineTo(k + h, y); }
  g.stroke();
  g.strokeRect(x + 0.75, y + 0.75, Math.max(0.5, w - 1.5), Math.max(0.5, h - 1.5));
  g.restore();
}

// outline draws the edges of what a mask names, where there is room for them.
function outline(pixels, ids, W, H, mask, color) {
  for (let o = 2 * W; o < W * (H - 2); o++) {
    const id = ids[o];
    if (id < 0 || !mask[id]) continue;
    const high = ids[o - 2 * W] === id || ids[o + 2 * W] === id, wide = ids[o - 3] === id || ids[o + 3] === id;
    if (high && (ids[o - W] !== id || ids[o + W] !== id) || wide && (ids[o - 1] !== id || ids[o + 1] !== id)) pixels[o] = color;
  }
}
