// ---- what a search and its filters find
// A filter is {text, category, phase, rule, stream, pool, step, action, from, to, life};
// what is undefined or '' asks for nothing. Words of text are all wanted; one between
// slashes is a regular expression, one that begins with 0x an address.
class Finder {
  constructor(history) {
    this.h = history;
    this.longest = history.header.steps.reduce((n, s) => Math.max(n, s.last_event - s.first_event + 1), 0);
  }

  // words are tests of a text, and addresses; it throws what is wrong with a pattern.
  words(text) {
    const out = {tests: [], addresses: []};
    for (const w of (text || '').match(/\/(?:\\.|[^/])+\/(?=\s|$)|\S+/g) || []) {
      if (/^0x[0-9a-f]+$/i.test(w)) out.addresses.push(Number(w));
      else if (w.length > 2 && w[0] === '/' && w[w.length - 1] === '/') { const r = new RegExp(w.slice(1, -1), 'i'); out.tests.push(s => r.test(s)); } else { const low = w.toLowerCase(); out.tests.push(s => s.toLowerCase().includes(low)); }
    }
    return out;
  }

  // stacks tells of each stack whether one of its lines passes a test.
  stacks(test) {
    const h = this.h, frames = h.header.frames.map(f => test(f.function + ' ' + f.file + (f.line ? ':' + f.line : '') + (f.fx ? ' ' + f.fx + ' ' + f.code : '')) ? 1 : 0), nodes = new Uint8Array(h.parentOf.length);
    for (let n = 1; n < nodes.length; n++) nodes[n] = frames[h.frameOf[n]] || nodes[h.parentOf[n]]; // parents come first
    const sites = h.header.sites.map(s => test(s.op || '') ? 1 : 0);
    return Uint8Array.from(h.nodeOfStack, (n, k) => n > 0 && nodes[n] || h.siteOfStack[k] >= 0 && sites[h.siteOfStack[k]] ? 1 : 0);
  }

  // find marks what a filter lets through: {mask, count, bytes} of allocations, and
  // stacks; mask is null when everything passes. event is the moment, for life 'alive'.
  find(f, event) {
    const h = this.h, n = h.length, set = v => v !== undefined && v !== '', {tests, addresses} = this.words(f.text);
    this.wanted = tests.map(t => this.stacks(t));
    const asks = tests.length || addresses.length || ['category', 'phase', 'rule', 'stream', 'pool', 'step', 'from', 'to', 'life'].some(k => set(f[k]));
    if (!asks) return {mask: null, count: n, bytes: h.bytes.reduce((a, b) => a + b, 0), stacks: []};
    const kinds = h.header.kinds.map(k => (!set(f.category) || k.category === +f.category) && (!set(f.phase) || k.phase === f.phase) && (!set(f.rule) || k.rule === f.rule) ? 1 : 0);
    const texts = tests.map(t => h.header.kinds.map(k => t(h.header.titles[k.category] + ' ' + k.detail + ' ' + k.rule + ' ' + k.phase) ? 1 : 0));
    const names = tests.map(t => h.header.names.map(name => name && t(name) ? 1 : 0));
    const from = set(f.from) ? +f.from : 0, to = set(f.to) ? +f.to : Infinity, step = set(f.step) ? h.header.steps.find(s => s.step === +f.step) : null;
    const stream = set(f.stream) ? +f.stream : -1, pool = set(f.pool) ? +f.pool : -1, mask = new Uint8Array(n);
    let count = 0, bytes = 0;
    for (let i = 0; i < n; i++) {
      if (!kinds[h.kind[i]] || h.bytes[i] < from || h.bytes[i] > to) continue;
      if (stream >= 0 && h.stream[i] !== stream || pool >= 0 && h.pool[i] !== pool) continue;
      if (step && (h.born[i] < step.first_event || h.born[i] > step.last_event) || step === undefined) continue;
      if (f.life && !this.lives(i, f.life, event)) continue;
      if (!this.wanted.every((w, k) => w[h.stack[i]] || texts[k][h.kind[i]] || h.names && names[k][h.names[i]] || h.forward && w[h.forward[i]])) continue;
      if (!addresses.every(a => this.holds(i, a))) continue;
      mask[i] = 1;
      count++;
      bytes += h.bytes[i];
    }
    return {mask, count, bytes, stacks: this.wanted, addresses};
  }
  lives(i, life, event) {
    const h = this.h;
    return life === 'never' ? h.died[i] >= h.events : life === 'long' ? h.died[i] - h.born[i] > this.longest : h.alive(i, event);
  }
  holds(i, address) {
    const h = this.h;
    if (!h.place) return false;
    const a = h.addresses[h.place[i]];
    return a <= address && address < a + Math.max(1, h.bytes[i]);
  }

  // rows are the events that are left: numbers of events, and of annotations the
  // complements (~k) of places in marks, before the event where they stand.
  rows(found, f, marks) {
    const h = this.h, {mask, stacks, addresses} = found, out = new Int32Array(h.events + marks.length), wanted = f.action === undefined || f.action === '' ? -1 : +f.action;
    const only = ['category', 'phase', 'rule', 'step', 'life'].some(k => f[k] !== undefined && f[k] !== ''); // these ask for allocations
    const between = o => (!f.from || o.bytes >= +f.from) && (!f.to || o.bytes <= +f.to) && (f.stream === undefined || f.stream === '' || o.stream === +f.stream) && (f.pool === undefined || f.pool === '' || o.pool === +f.pool);
    let n = 0, k = 0;
    for (let e = 0; e < h.events; e++) {
      if (!mask && wanted < 0) while (k < marks.length && marks[k].event <= e) out[n++] = ~k++;
      const action = h.action[e];
      if (action === UNTOLD || wanted >= 0 && action !== wanted) continue;
      if (mask) {
        const i = h.of[e];
        if (i >= 0) { if (!mask[i]) continue; } else {
          const o = h.otherAt.get(e);
          if (only || !o || !between(o) || !stacks.every(s => s[o.stack]) || !addresses.every(a => o.address <= a && a < o.address + o.bytes)) continue;
        }
      }
      out[n++] = e;
    }
    if (!mask && wanted < 0) while (k < marks.length) out[n++] = ~k++;
    return out.subarray(0, n);
  }
}

// aliveOf sums up what a mask leaves of an event's allocations.
function aliveOf(h, mask, event) {
  let count = 0, bytes = 0;
  for (let i = 0; i < h.length; i++) if ((!mask || mask[i]) && h.born[i] <= event && h.died[i] > event) { count++; bytes += h.bytes[i]; }
  return {count, bytes};
}
