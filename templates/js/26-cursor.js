// ---- the moment that everything on the page shows
// A moment is {kind, event}: the peak, the failure (oom), the end or any event; or a
// range {kind, from, to, event}, whose event is its fullest.
class Cursor {
  constructor(events, start) {
    this.events = events;
    this.start = this.moment = start;
    this.pinned = -1; // an allocation
    this.listeners = [];
    this.fullest = (from, to) => from; // replaced by who knows
  }
  get event() { return this.moment.event; }
  clamp(event) { return Math.max(0, Math.min(Math.round(event) || 0, this.events - 1)); }

  // subscribe has f(what, byHand) called after each change of 'moment' or 'pin'.
  subscribe(f) { this.listeners.push(f); }
  tell(what, byHand) { this.listeners.forEach(f => f(what, byHand)); }

  go(moment, byHand) { this.moment = moment; this.tell('moment', byHand); }
  set(event, byHand) { this.go({kind: 'event', event: this.clamp(event)}, byHand); }
  range(a, b, byHand) {
    const from = this.clamp(Math.min(a, b)), to = Math.max(from, this.clamp(Math.max(a, b)));
    this.go({kind: 'range', from, to, event: this.fullest(from, to)}, byHand);
  }
  pin(i, byHand) {
    if (i === this.pinned && !byHand) return;
    this.pinned = i;
    this.tell('pin', byHand);
  }

  // words are the moment in the page's address, "" for the one it opens at.
  words() {
    const m = this.moment;
    return m.kind === 'range' ? 'range=' + m.from + '-' + m.to : m.kind !== this.start.kind ? 'at=' + m.event : '';
  }
  // follow goes where such words lead.
  follow(query) {
    const range = /^(\d+)-(\d+)$/.exec(query.get('range') || '');
    if (range) this.range(+range[1], +range[2]); else if (query.has('at')) this.set(+query.get('at') || 0);
  }
}
