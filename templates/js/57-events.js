// ---- the list of events
const EVENT_ROW = 24, PRINTED_ROWS = 18, MOST_PIXELS = 8e6; // browsers bound how high an element may be

class EventList {
  constructor(state, part) {
    this.s = state;
    this.h = state.h;
    this.box = part.querySelector('[data-role=events]');
    this.note = part.querySelector('[data-role=events-note]');
    this.detail = part.querySelector('[data-role=event-detail]');
    this.layer = el('div', {class: 'layer'});
    this.space = el('div', null, this.layer);
    this.box.append(this.space);
    this.marks = this.h.header.spans.flatMap(x => [{event: x.first, name: x.name, start: true, span: x}, {event: x.last + 1, name: x.name, start: false, span: x}]).sort((a, b) => a.event - b.event);
    this.stale = true;
    const ask = view(this.box, () => this.update(), true);
    state.listeners.push(what => { if (what === 'found') this.stale = true; if (what !== 'view') ask(); });
    this.box.addEventListener('scroll', () => { if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.fill(); }); });
    this.box.addEventListener('click', e => { const r = e.target.closest('[data-row]'); if (r) this.go(+r.dataset.row); });
    this.box.addEventListener('keydown', e => { if (this.key(e)) e.preventDefault(); });
  }

  // eventOf is where a row stands.
  eventOf(k) { const r = this.rows[k]; return r >= 0 ? r : this.marks[~r].event; }
  // rowAt is the first row at an event or behind it.
  rowAt(event) {
    let a = 0, b = this.rows.length;
    while (a < b) { const m = a + b >> 1; if (this.eventOf(m) < event) a = m + 1; else b = m; }
    while (a < this.rows.length - 1 && this.rows[a] < 0 && this.eventOf(a + 1) === event) a++; // the event, not the mark before it
    return a;
  }

  update() {
    if (this.stale) {
      const s = this.s, f = s.filter;
      this.rows = s.finder.rows(s.found || {mask: null}, f, this.marks);
      this.stale = false;
      const whole = !s.found, marks = whole ? this.marks.length : 0, events = this.rows.length - marks;
      this.note.textContent = (events === this.h.events ? plural(events, 'event') : count(events) + ' of ' + plural(this.h.events, 'event')) + (whole ? '' : ' found') + (marks ? ', and where ' + plural(this.h.header.spans.length, 'annotation') + (marks === 2 ? ' begins and ends' : ' begin and end') : '') + (this.h.rest ? '. Those of allocations that the page doesn\'t hold are left out' : '') + '.';
      this.space.style.height = Math.min(MOST_PIXELS, this.rows.length * EVENT_ROW) + 'px';
    }
    this.chosen = this.mark !== undefined ? this.mark : this.rowAt(this.s.moment.event);
    if (this.rows.length && this.chosen < this.rows.length) this.scrollTo(this.chosen);
    this.fill();
    this.tell();
  }

  get visible() { return printing() ? PRINTED_ROWS : Math.max(1, Math.floor(this.box.clientHeight / EVENT_ROW)); }
  // first is the row at the top: where there are more than pixels, a share of the way.
  first() {
    if (printing()) return clamp(this.chosen - (PRINTED_ROWS >> 1), 0, Math.max(0, this.rows.length - PRINTED_ROWS)); // paper doesn't scroll
    const all = this.rows.length * EVENT_ROW, room = Math.min(MOST_PIXELS, all) - this.box.clientHeight;
    return room <= 0 ? 0 : Math.round(this.box.scrollTop / room * Math.max(0, this.rows.length - this.visible));
  }
  scrollTo(k) {
    const first = this.first(), n = this.visible;
    if (k >= first && k < first + n) return;
    const room = Math.min(MOST_PIXELS, this.rows.length * EVENT_ROW) - this.box.clientHeight;
    this.box.scrollTop = clamp(k - (n >> 1), 0, this.rows.length - n) / Math.max(1, this.rows.length - n) * room;
  }

  fill() {
    if (!this.rows) return;
    const first = this.first(), n = Math.min(this.rows.length, first + this.visible + 1);
    this.layer.style.height = this.box.clientHeight + 'px';
    const rows = [];
    for (let k = first; k < n; k++) rows.push(this.row(k));
    this.layer.replaceChildren(...rows);
    const chosen = rows.find(r => r.getAttribute('aria-selected') === 'true');
    if (chosen) this.box.setAttribute('aria-activedescendant', chosen.id); else this.box.removeAttribute('aria-activedescendant');
  }

  row(k) {
    const h = this.h, r = this.rows[k], cell = (name, ...x) => el('span', {class: name}, ...x), id = 'event-row-' + this.s.part.dataset.index + '-' + k;
    const attributes = {role: 'option', id, 'data-row': String(k), 'aria-selected': String(k === this.chosen), 'aria-setsize': String(this.rows.length), 'aria-posinset': String(k + 1)};
    if (r < 0) { const m = this.marks[~r]; return el('div', {...attributes, class: 'annotation'}, cell('n', count(m.event)), cell('a', m.start ? 'begin' : 'end'), cell('w', m.name)); }
    const i = h.of[r], o = h.otherAt.get(r), stack = o ? o.stack : i >= 0 ? h.stack[i] : 0, site = o ? h.siteOfStack[stack] : h.siteOf(i), c = i >= 0 ? h.category[h.kind[i]] : -1;
    return el('div', {...attributes, class: 'x' + h.action[r]}, cell('n', count(r)), cell('a', words(h.header.actions[h.action[r]] || 'other')),
      cell('b', o && i < 0 ? o.bytes ? size(o.bytes) : '' : size(h.bytes[i])), cell('p', hex(i >= 0 ? h.addresses[h.place[i]] : o.address)),
      cell('w', c >= 0 && this.s.classified ? el('i', {class: 'dot', style: {background: this.color(c)}}) : '', o && i < 0 && !stack ? '' : siteName(h.site(site))));
  }
  color(c) { return 'var(--c-' + this.h.header.categories[c] + ')'; }

  go(k) {
    const r = this.rows[k];
    if (r === undefined) return;
    this.mark = r < 0 ? k : undefined; // an annotation stands before its event
    const event = this.eventOf(k);
    this.s.cursor.pin(-1);
    if (r < 0 && !this.marks[~r].start) this.s.cursor.set(event - 1, true); else this.s.cursor.set(event, true);
    this.mark = undefined;
    this.chosen = k;
    this.fill();
    this.tell();
    const t = devices[+this.s.part.dataset.index].timeline;
    if (t) t.show(event);
    say(r < 0 ? this.marks[~r].name : 'event ' + count(r) + ', ' + nameOfEvent(this.h, r) + ', ' + this.layer.querySelector('[aria-selected=true] .w')?.textContent);
  }
  key(e) {
    const n = this.visible, to = {ArrowUp: this.chosen - 1, ArrowDown: this.chosen + 1, PageUp: this.chosen - n, PageDown: this.chosen + n, Home: 0, End: this.rows.length - 1}[e.key];
    if (to !== undefined) { const k = clamp(to, 0, this.rows.length - 1); this.scrollTo(k); this.go(k); return true; }
    if (e.key !== 'Enter') return false;
    this.detail.tabIndex = -1;
    this.detail.focus();
    return true;
  }

  // tell fills the panel beside the list: the chosen event and all around it.
  tell() {
    const r = this.rows[this.chosen];
    if (r === undefined) { this.detail.replaceChildren(el('p', {class: 'muted'}, 'No event is left by the search.')); return; }
    if (r < 0) {
      const {span, start} = this.marks[~r];
      this.detail.replaceChildren(el('h3', null, span.name), el('p', null, (start ? 'begins' : 'ends') + '; it lasts from event ' + count(span.first) + ' to ' + count(span.last) + '.'),
        el('button', {type: 'button', onclick: () => this.s.cursor.range(span.first, span.last, true)}, 'Show this range'));
      return;
    }
    keepFocus(this.detail, ...eventDetails(this.s, r));
  }
}

// eventDetails is all that is known of an event.
function eventDetails(s, event) {
  const h = s.h, i = h.of[event], o = h.otherAt.get(event), head = h.header, rows = [], t = h.time(event);
  const row = (name, ...value) => { if (value.some(v => v !== '' && v !== null)) rows.push(el('dt', null, name), el('dd', null, ...value)); };
  const to = (e, text) => el('button', {type: 'button', class: 'jump', onclick: () => s.cursor.set(e, true)}, text + ' ' + count(e));
  const step = head.steps.find(x => x.first_event <= event && event <= x.last_event), phase = step && step.phases.find(p => p.first_event <= event && event <= p.last_event);
  row('When', [t === null ? '' : duration(t), step ? 'step ' + step.step : '', phase ? words(phase.phase) : ''].filter(Boolean).join(', '));
  const address = i >= 0 ? h.addresses[h.place[i]] : o.address, bytes = i >= 0 ? h.bytes[i] : o.bytes, stream = i >= 0 ? h.stream[i] : o.stream, pool = i >= 0 ? h.pool[i] : o.pool;
  if (i >= 0) {
    row('Size', size(bytes) + (h.requested[i] === bytes ? '' : ', ' + size(h.requested[i]) + ' requested'));
    const k = head.kinds[h.kind[i]];
    if (s.classified) row('Category', head.titles[k.category] + (k.detail ? ', ' + words(k.detail) : '') + (why(k) ? ' (' + why(k) + ')' : ''));
    if (k.rule) row('Rule', k.rule + ': ' + (head.rules?.[k.rule] || ''));
    row('Life', h.born[i] < 0 ? 'older than the recording' : to(h.born[i], 'made at'), h.died[i] >= h.events ? ', never freed' : '', h.died[i] >= 0 && h.died[i] < h.events ? to(h.died[i], 'free requested at') : '',
      h.gone[i] < h.events && h.gone[i] !== h.died[i] ? to(h.gone[i], 'completed at') : h.died[i] < h.events && h.gone[i] >= h.events ? ', not completed' : '');
    row('Name', h.nameOf(i));
    row('Made by', siteName(h.site(h.siteOf(i))));
  } else row('Size', bytes ? size(bytes) + ' (' + count(bytes) + ' bytes)' : '');
  if (address) row('Address', el('button', {type: 'button', class: 'jump', title: 'Find this address', onclick: () => s.findText(hex(address))}, hex(address)));
  row('Stream', head.streams[stream] === '0' ? '' : String(stream));
  row('Pool', head.pools[pool] ? 'private pool ' + head.pools[pool] : '');
  if (address) around(s, event, address).forEach(([name, text]) => row(name, text));
  const out = [el('h3', null, 'Event ' + count(event) + ': ' + nameOfEvent(h, event)), el('dl', null, rows)];
  const free = i >= 0 && h.freeStack[i], freed = h.action[event] === FREE_REQUESTED || h.action[event] === FREE_COMPLETED, made = o && i < 0 ? o.stack : h.stack[i];
  const stack = (title, k) => out.push(el('h4', null, title), folded(h, k));
  if (freed) stack('Stack of the free', free || 0);
  if (made || i >= 0) stack(i >= 0 ? 'Stack of the allocation' : 'Stack', made);
  if (i >= 0) out.push(forwardOf(h, i));
  if (!freed && free) stack('Stack of its free', free);
  return out;
}

// around is the segment and block of an address before and after an event.
function around(s, event, address) {
  const m = s.memory, out = [], say = (name, l) => {
    const x = m.block(l, address);
    if (!x || !x.block) { out.push([name, 'not reserved']); return; }
    const {segment, block} = x, k = segment.blocks.indexOf(block), side = b => b ? (b.state ? b.state === 2 ? 'pending free' : 'in use' : 'free') + ' ' + size(b.bytes) : 'the segment\'s edge';
    out.push([name, (block.state === 0 ? 'free' : block.state === 2 ? 'pending free' : 'in use') + ' ' + size(block.bytes) + ', between ' + side(segment.blocks[k - 1]) + ' and ' + side(segment.blocks[k + 1])]);
    if (name === 'Block after') out.push(['Segment', size(segment.bytes) + ' at ' + hex(segment.address) + ', ' + size(segment.bytes - segment.used) + ' of it free' + (segment.expandable ? ', expandable' : '') + (segment.small ? ', small pool' : '')]);
  };
  say('Block before', m.near(event - 1, address));
  say('Block after', m.near(event, address));
  return out;
}
