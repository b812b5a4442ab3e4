// ---- the allocation timeline: axes, marks, and what hands do with it
const LEFT = 70, RIGHT = 24, LANE = 15, BOTTOM = 40;

class Timeline {
  constructor(state, canvas) {
    this.s = state;
    this.h = state.h;
    this.canvas = canvas;
    this.g = canvas.getContext('2d');
    this.view(0, this.h.events);
    this.drag = 'pan';
    this.lanes = this.findLanes();
    this.topMargin = 10 + LANE * this.lanes.length;
    this.frame = 0;
    this.stale = true; // the pixels
    this.build();
    scenes.push({place: canvas, build: () => this.build(), resize: () => { if (this.canvas.clientWidth !== Math.round(this.width || 0)) this.build(); else this.draw(); }});
    state.listeners.push(what => { if (what !== 'moment') this.stale = true; this.later(); });
    this.listen();
  }

  // lanes are named ranges above the picture: steps and phases, or else what
  // the program itself annotated.
  findLanes() {
    const {steps, spans} = this.h.header, lanes = [];
    if (steps.length) {
      lanes.push(steps.map(s => ({name: 'step ' + s.step, first: s.first_event, last: s.last_event})));
      const phases = steps.flatMap(s => s.phases.map(p => ({name: words(p.phase), first: p.first_event, last: p.last_event})));
      if (phases.length) lanes.push(phases);
    } else if (spans.length) {
      const ends = [];
      for (const s of spans) {
        let k = ends.findIndex(e => e < s.first);
        if (k < 0) { k = ends.length; ends.push(-1); lanes.push([]); }
        lanes[k].push(s);
        ends[k] = s.last;
      }
      lanes.length = Math.min(lanes.length, 3);
    }
    return lanes;
  }

  build() {
    const box = this.canvas.getBoundingClientRect();
    if (!box.width) return;
    const d = this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.width = box.width; this.height = box.height;
    this.canvas.width = Math.round(box.width * d); this.canvas.height = Math.round(box.height * d);
    this.W = Math.max(1, this.canvas.width - Math.round((LEFT + RIGHT) * d));
    this.H = Math.max(1, this.canvas.height - Math.round((BOTTOM + this.topMargin) * d));
    this.image = this.g.createImageData(this.W, this.H);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.ids = new Int32Array(this.W * this.H);
    this.stale = true;
    this.draw();
  }
  later() { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); }); }
  // All pictures of a device show the same range of events.
  get v0() { return this.s.range.v0; }
  get v1() { return this.s.range.v1; }

  // fill draws the bands, and finds their scale.
  fill(card, ink) {
    const s = this.s;
    const colors = s.groups.map(x => { const c = rgb(css(x.color)), dim = mix(c, card, 0.8); return [abgr(c), abgr(mix(c, card, 0.18)), abgr(mix(c, card, 0.34)), abgr(dim), abgr(mix(dim, card, 0.3)), abgr(mix(dim, card, 0.5))]; });
    const full = s.raster.fullest(Math.floor(this.v0), Math.ceil(this.v1) - 1);
    const failed = this.failed(), room = failed ? s.raster.total[failed.event] + Math.min(failed.requested, 2 * s.raster.total[failed.event]) : 0;
    this.top = Math.max(1, s.raster.total[full] * 1.04, room * 1.02); // of what is in view
    s.raster.draw(this.pixels, this.ids, this.W, this.H, this.v0, this.v1, this.top, colors, abgr(card), s.pinned, abgr(ink), s.found && s.found.mask);
  }
  // failed is the last failed request in view, undefined without one.
  failed() { return this.h.header.ooms.filter(o => o.event >= this.v0 && o.event < this.v1).pop(); }
  // tell is the text beside the pointer, where there is something.
  tell(i, event) { return i === -1 ? null : describe(this.s, i, event); }

  draw() {
    if (!this.pixels || !this.canvas.clientWidth) return;
    const g = this.g, d = this.ratio;
    if (this.stale) { this.fill(rgb(css('--card')), rgb(css('--ink'))); this.stale = false; }
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    g.putImageData(this.image, Math.round(LEFT * d), Math.round(this.topMargin * d));
    g.setTransform(d, 0, 0, d, 0, 0);
    g.font = '11.5px ' + getComputedStyle(document.body).fontFamily;
    g.textBaseline = 'middle';
    g.lineWidth = 1;
    this.drawAxes(g);
    this.lanes.forEach((lane, k) => this.drawLane(g, lane, k * LANE));
    this.drawMarks(g);
    this.drawRequest(g);
  }
  x(event) { return LEFT + (event - this.v0) / (this.v1 - this.v0) * this.w; }
  get w() { return this.W / this.ratio; }
  get hh() { return this.H / this.ratio; }

  drawAxes(g) {
    const mut = css('--mut'), step = niceStep(this.top, 5), unit = (UNITS.find(u => this.top >= u[0]) || [1, 'B']);
    for (let v = 0; v <= this.top; v += step) {
      const y = this.topMargin + this.hh - v / this.top * this.hh;
      g.globalAlpha = 0.2; g.strokeStyle = mut; g.beginPath(); g.moveTo(LEFT, y + 0.5); g.lineTo(LEFT + this.w, y + 0.5); g.stroke();
      g.globalAlpha = 1; g.fillStyle = mut; g.textAlign = 'right';
      g.fillText(+(v / unit[0]).toFixed(3) + ' ' + unit[1], LEFT - 8, y);
    }
    const span = this.v1 - this.v0, apart = Math.max(1, niceCount(span / (this.w < 500 ? 3 : this.w < 900 ? 5 : 8))), y = this.topMargin + this.hh + 13;
    let last = '';
    for (let event = Math.ceil(this.v0 / apart) * apart; event <= this.v1; event += apart) {
      const x = this.x(event), t = this.h.time(event), room = Math.min(x - LEFT, LEFT + this.w - x);
      g.textAlign = room > 40 ? 'center' : x - LEFT < 40 ? 'left' : 'right';
      g.fillText(count(event), x, y);
      if (t === null || event >= this.h.events) continue;
      const text = duration(t);
      if (text !== last) g.fillText(text, x, y + 14);
      last = text;
    }
  }
  drawLane(g, lane, y) {
    let last = -1;
    for (const s of lane) {
      if (s.last < this.v0 || s.first > this.v1) continue;
      const a = Math.max(LEFT, this.x(s.first)), b = Math.min(LEFT + this.w, this.x(s.last + 1));
      if (b - a < 1 && a - last < 1) continue;
      last = b;
      g.fillStyle = css('--mut'); g.globalAlpha = 0.16;
      g.fillRect(a, y + 3, Math.max(0.7, b - a - 1), LANE - 3);
      g.globalAlpha = 1;
      const room = b - a - 8;
      if (room < 14) continue;
      let text = s.name;
      if (g.measureText(text).width > room) {
        while (text.length > 1 && g.measureText(text + '…').width > room) text = text.slice(0, Math.min(text.length - 1, Math.floor(text.length * 0.85)));
        text = text.length > 2 ? text + '…' : '';
      }
      g.fillStyle = css('--ink'); g.textAlign = 'left';
      g.fillText(text, a + 4, y + 3 + (LANE - 3) / 2 + 0.5);
    }
  }
  line(g, event, color, dash) {
    if (event < this.v0 || event > this.v1) return;
    const x = Math.round(this.x(event)) + 0.5;
    g.strokeStyle = color; g.setLineDash(dash); g.beginPath(); g.moveTo(x, this.topMargin); g.lineTo(x, this.topMargin + this.hh); g.stroke(); g.setLineDash([]);
  }
  drawMarks(g) {
    const s = this.s, m = s.moment, head = this.h.header;
    for (const o of head.ooms) this.line(g, o.event, css('--fail'), [4, 3]);
    if (s.peak >= 0) this.line(g, s.peak, css('--ink'), [2, 3]);
    if (m.kind === 'range') {
      const a = Math.max(LEFT, this.x(m.from)), b = Math.min(LEFT + this.w, this.x(m.to + 1));
      if (b > a) { g.fillStyle = css('--acc'); g.globalAlpha = 0.16; g.fillRect(a, this.topMargin, b - a, this.hh); g.globalAlpha = 1; }
    }
    if (m.kind !== 'peak' && m.kind !== 'oom') this.line(g, m.event, css('--acc'), []);
    if (this.brush) {
      g.fillStyle = css('--acc'); g.globalAlpha = 0.2;
      g.fillRect(Math.min(this.brush.a, this.brush.b), this.topMargin, Math.abs(this.brush.b - this.brush.a), this.hh); g.globalAlpha = 1;
    }
  }

  // drawRequest draws what was asked for on top of what was in use: where it didn't fit.
  drawRequest(g) {
    const o = this.failed();
    if (!o) return;
    const at = bytes => this.topMargin + this.hh - bytes / this.top * this.hh, used = this.s.raster.total[o.event], y = at(used), high = Math.min(y - this.topMargin, y - at(used + o.requested));
    const x = Math.min(LEFT + this.w - 12, this.x(o.event)), right = x < LEFT + this.w / 2;
    hatched(g, x, y - high, 12, high, css('--fail'), css('--card'));
    g.fillStyle = css('--fail'); g.textAlign = right ? 'left' : 'right';
    g.fillText(short(o.requested) + ' asked for', right ? x + 18 : x - 6, clamp(y - high / 2, this.topMargin + 8, this.topMargin + this.hh - 8));
  }

  view(v0, v1) {
    const n = Math.max(1, this.h.events), span = clamp(v1 - v0, Math.min(n, 20), n);
    const a = clamp(v0, 0, n - span);
    this.s.range = {v0: a, v1: a + span};
    this.s.changed('view');
  }
  zoom(at, factor) { const span = (this.v1 - this.v0) * factor, c = this.v0 + (this.v1 - this.v0) * at; this.view(c - span * at, c - span * at + span); }
  // show moves the view so that an event can be seen.
  show(event) { if (event < this.v0 || event >= this.v1) { const w = this.v1 - this.v0; this.view(event - w / 2, event + w / 2); } }

  point(e) {
    const b = this.canvas.getBoundingClientRect(), x = e.clientX - b.left, y = e.clientY - b.top;
    return {x, px: Math.floor((x - LEFT) * this.ratio), py: Math.floor((y - this.topMargin) * this.ratio), event: Math.floor(this.v0 + (x - LEFT) / this.w * (this.v1 - this.v0))};
  }
  pick(p) { return p.px >= 0 && p.px < this.W && p.py >= 0 && p.py < this.H ? this.ids[p.py * this.W + p.px] : -1; }

  // choose is a click: the event, and the allocation under the pointer.
  choose(i, event) {
    this.s.cursor.pin(i >= 0 ? i : -1);
    this.s.cursor.set(event, true);
  }

  listen() {
    const c = this.canvas;
    let held = null;
    c.addEventListener('wheel', e => {
      if (!e.ctrlKey && !e.metaKey && document.activeElement !== c) return; // the page scrolls
      e.preventDefault();
      this.zoom(clamp(this.point(e).px / this.W, 0, 1), e.deltaY < 0 ? 0.8 : 1.25);
    }, {passive: false});
    c.addEventListener('pointerdown', e => {
      if (e.button) return;
      held = {x: e.clientX, a: this.v0, b: this.v1, moved: false, select: e.shiftKey || this.drag === 'select', from: this.point(e)};
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener('pointermove', e => {
      const p = this.point(e);
      if (held) {
        if (Math.abs(e.clientX - held.x) > 3) held.moved = true;
        if (!held.moved) return;
        tip.hide();
        if (held.select) { this.brush = {a: clamp(held.from.x, LEFT, LEFT + this.w), b: clamp(p.x, LEFT, LEFT + this.w)}; this.later(); } else {
          const dx = (e.clientX - held.x) / this.w * (held.b - held.a);
          this.view(held.a - dx, held.b - dx);
        }
        return;
      }
      const text = this.tell(this.pick(p), p.event);
      if (text) tip.show(e, text); else tip.hide();
    });
    c.addEventListener('pointerup', e => {
      const was = held, p = this.point(e);
      held = null;
      this.brush = null;
      if (!was) return;
      if (was.moved) { if (was.select) this.s.cursor.range(was.from.event, p.event, true); this.later(); return; }
      if (p.px < 0 || p.px >= this.W) return;
      this.choose(this.pick(p), p.event);
    });
    c.addEventListener('pointercancel', () => { held = null; this.brush = null; this.later(); });
    c.addEventListener('pointerleave', () => tip.hide());
    c.addEventListener('dblclick', () => this.view(0, this.h.events));
    c.addEventListener('keydown', e => { if (this.key(e)) e.preventDefault(); });
  }

  key(e) {
    const step = (this.v1 - this.v0) * 0.1, m = this.s.moment;
    switch (e.key) {
      case '+': case '=': this.zoom(0.5, 0.8); return true;
      case '-': this.zoom(0.5, 1.25); return true;
      case '0': this.view(0, this.h.events); return true;
      case 'ArrowLeft': this.view(this.v0 - step, this.v1 - step); return true;
      case 'ArrowRight': this.view(this.v0 + step, this.v1 + step); return true;
      case ',': case '.': this.s.cursor.set(m.event + (e.key === ',' ? -1 : 1), true); this.show(this.s.moment.event); return true;
      case 'Enter': {
        let best = -1;
        for (let i = 0; i < this.h.length; i++) if (this.s.shown[this.s.of[i]] && this.h.alive(i, m.event) && (best < 0 || this.h.bytes[i] > this.h.bytes[best])) best = i;
        this.s.cursor.pin(best, true);
        return true;
      }
      case 'Escape': this.s.cursor.pin(-1, true); return true;
    }
    return false;
  }
}
