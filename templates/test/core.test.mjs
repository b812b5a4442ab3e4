import test from 'node:test';
import assert from 'node:assert/strict';
import core from './load.mjs';

const {Cursor, Finder, History, Memory, Reader, aliveOf, bars, flame, weigh} = core;

// ---- writing columns, as doc/page-columns.md describes them
const uvarint = n => { const out = []; for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 + 128); return [...out, n]; };
const varint = n => uvarint(n < 0 ? -2 * n - 1 : 2 * n);
const size = n => uvarint(n % 512 ? 2 * n + 1 : n / 256);
const MB = 1 << 20, BASE = 7 * 2 ** 44; // no less than real addresses

// columns packs allocations {born, died, gone, at, bytes, requested, kind, stack, stream, pool, freeStack} and others.
function columns({events, older = 0, lives, others = [], segments = [], ...header}) {
  const never = v => v === undefined, places = [...new Set(lives.map(l => l.at))].sort((a, b) => a - b), b = [], every = f => lives.forEach((l, i) => b.push(...f(l, i)));
  const h = {version: 2, device: 0, events, bands: lives.length, older, hasIDs: false, timeEvery: 1, times: 0, firstTime: 0, categories: ['weights', 'activations'], titles: ['Weights', 'Activations'],
    kinds: [{category: 0, detail: '', rule: 'own_weight', phase: 'setup'}, {category: 1, detail: '', rule: 'saved', phase: 'forward'}], rules: {}, sites: [{function: 'f', file: 'a.py', line: 1, op: 'aten::mm'}],
    frames: [{function: 'main', file: 'train.py', line: 9, fold: false}, {function: 'forward', file: 'model.py', line: 40, fold: false}, {function: 'at::mm', file: '', line: 0, fold: true}],
    stacks: 3, nodes: 4, rest: 0, restPoints: 0, hasEvents: true, addresses: places.length, others: others.length, segments: segments.length, moments: [], actions: ['alloc', 'free_requested', 'free_completed', 'segment_alloc', 'segment_free', 'segment_map', 'segment_unmap', 'oom'],
    completes: false, streams: ['0', '77'], pools: ['', '(0, 1)'], spans: [], steps: [{step: 0, first_event: 0, last_event: 3, phases: []}, {step: 1, first_event: 4, last_event: 7, phases: []}], ooms: [], peak: 3, capacity: null, ...header};
  let last = 0;
  every((l, i) => { if (i < older) return []; const d = l.born - last; last = l.born; return uvarint(d); });
  every((l, i) => uvarint(never(l.died) ? 0 : i < older ? l.died + 2 : l.died - l.born));
  every(l => size(l.bytes));
  every(l => uvarint(l.kind || 0));
  every(l => uvarint(l.stack || 0));
  if (header.names) every(l => uvarint(l.name || 0));
  if (header.hasForward) every(l => uvarint(l.forward || 0));
  for (const [site, node] of [[-1, -1], [0, 2], [0, 3]]) b.push(...uvarint(site + 1), ...uvarint(node + 1));
  for (const [frame, up] of [[0, 1], [1, 1], [2, 1]]) b.push(...uvarint(frame), ...uvarint(up));
  places.forEach((a, i) => b.push(...size(a - (i ? places[i - 1] : 0))));
  every(l => uvarint(places.indexOf(l.at)));
  every(l => varint(l.bytes - (l.requested ?? l.bytes)));
  every(l => uvarint(never(l.gone) ? 0 : l.gone - l.died + 1));
  for (const k of ['stream', 'pool', 'freeStack']) every(l => uvarint(l[k] || 0));
  last = 0;
  for (const o of others) { b.push(...uvarint(o.event - last), o.action, ...size(o.at || 0), ...size(o.bytes || 0), ...uvarint(o.stream || 0), ...uvarint(o.pool || 0), ...uvarint(o.stack || 0), ...uvarint((o.of ?? -1) + 1)); last = o.event; }
  for (const s of segments) b.push(...size(s.at), ...size(s.bytes), ...uvarint(s.stream || 0), ...uvarint(s.pool || 0), (s.small ? 1 : 0) + (s.expandable ? 2 : 0));
  const text = [...new TextEncoder().encode(JSON.stringify(h))];
  return Uint8Array.from([...uvarint(text.length), ...text, ...b]);
}

// One older block, a segment that comes and goes, a free that waits, a failed request.
const recorded = () => new History(columns({events: 10, older: 1, segments: [{at: BASE, bytes: 20 * MB}, {at: BASE + 64 * MB, bytes: 4 * MB, pool: 1, expandable: true}],
  lives: [{at: BASE, bytes: 2 * MB, died: 6, gone: 6, stack: 1}, {born: 1, at: BASE + 2 * MB, bytes: 4 * MB, requested: 4 * MB - 100, died: 3, gone: 5, kind: 1, stack: 1, freeStack: 2},
    {born: 2, at: BASE + 8 * MB, bytes: 512, kind: 1, stack: 2, stream: 1}, {born: 8, at: BASE + 64 * MB, bytes: 4 * MB, pool: 1, stack: 2}],
  others: [{event: 0, action: 3, at: BASE + 128 * MB, bytes: 2 * MB}, {event: 4, action: 7, bytes: 30 * MB, stack: 1}, {event: 7, action: 4, at: BASE + 128 * MB, bytes: 2 * MB},
    {event: 9, action: 6, at: BASE + 68 * MB, bytes: 4 * MB, pool: 1}]}));

test('numbers are read as they were written', () => {
  for (const n of [0, 1, 127, 128, 300, 2 ** 31, 2 ** 40 + 5, 2 ** 52]) {
    assert.equal(new Reader(Uint8Array.from(uvarint(n))).number(), n);
    assert.equal(new Reader(Uint8Array.from(varint(-n))).signed(), n ? -n : 0);
    assert.equal(new Reader(Uint8Array.from(size(512 * n))).size(), 512 * n);
  }
  assert.equal(core.hex(2 ** 47 + 512), '0x800000000200');
});

test('every event is told', () => {
  const h = recorded();
  assert.deepEqual([...h.action], [3, 0, 0, 1, 7, 2, 1, 4, 0, 6]);
  assert.deepEqual([...h.of], [-1, 1, 2, 1, -1, 1, 0, -1, 3, -1]);
  const completed = new History(columns({events: 2, completes: true, lives: [{born: 0, at: BASE, bytes: 512, died: 1, gone: 1}]}));
  assert.deepEqual([...completed.action], [0, 2]);
});

test('the layout at an event has what was reserved, in use and pending then', () => {
  const m = new Memory(recorded()), shape = e => m.at(e).segments.map(s => s.blocks.map(b => [(b.at - BASE) / MB, b.bytes, b.state, b.i]));
  assert.deepEqual(shape(3), [[[0, 2 * MB, 1, 0], [2, 4 * MB, 2, 1], [6, 2 * MB, 0, -1], [8, 512, 1, 2], [8 + 512 / MB, 12 * MB - 512, 0, -1]], [[64, 8 * MB, 0, -1]], [[128, 2 * MB, 0, -1]]]);
  assert.deepEqual(shape(9), [[[0, 8 * MB, 0, -1], [8, 512, 1, 2], [8 + 512 / MB, 12 * MB - 512, 0, -1]], [[64, 4 * MB, 1, 3]]]);
  assert.equal(m.at(-1).segments.length, 2);
  assert.equal(m.at(3).misfits, 0);
});

test('bands of reserved memory end piece by piece', () => {
  const m = new Memory(recorded());
  assert.deepEqual(m.bands().map(b => [(b.start - BASE) / MB, (b.end - b.start) / MB, b.from, b.to]), [[0, 20, -1, 10], [64, 4, -1, 10], [68, 4, -1, 9], [128, 2, 0, 7]]);
  for (const e of [-1, 0, 6, 7, 8, 9]) {
    const sum = m.bands().filter(b => b.from <= e && b.to > e).reduce((n, b) => n + b.end - b.start, 0);
    assert.equal(sum, m.at(e).segments.reduce((n, s) => n + s.bytes, 0));
  }
});

test('filters let through what they ask for', () => {
  const h = recorded(), f = new Finder(h), found = (filter, event = 3) => { const {mask} = f.find(filter, event); return mask ? [...mask.keys()].filter(i => mask[i]) : null; };
  for (const [name, filter, want] of [['nothing', {}, null], ['a function', {text: 'forward model.py'}, [0, 1, 2, 3]], ['C++', {text: 'at::mm'}, [2, 3]], ['a line', {text: 'model.py:40'}, [0, 1, 2, 3]],
    ['a pattern', {text: '/^at::.m /'}, [2, 3]], ['an operator', {text: 'aten::mm'}, [0, 1, 2, 3]], ['a rule', {text: 'own_weight'}, [0, 3]], ['no line', {text: 'nowhere'}, []],
    ['an address', {text: core.hex(BASE + 3 * MB)}, [1]], ['a category', {category: 1}, [1, 2]], ['a size', {from: 513, to: 2 * MB}, [0]], ['a stream', {stream: 1}, [2]], ['a pool', {pool: 1}, [3]],
    ['a step', {step: 0}, [1, 2]], ['never freed', {life: 'never'}, [2, 3]], ['long', {life: 'long'}, [0, 2]], ['alive', {life: 'alive'}, [0, 2]], ['two at once', {life: 'never', stream: 1}, [2]]]) assert.deepEqual(found(filter), want, name);
  assert.throws(() => f.find({text: '/(/'}, 0), SyntaxError);
  const {mask, count, bytes} = f.find({category: 1}, 3);
  assert.deepEqual([count, bytes], [2, 4 * MB + 512]);
  assert.deepEqual(aliveOf(h, mask, 2), {count: 2, bytes: 4 * MB + 512});
});

test('rows are the events that are left', () => {
  const h = recorded(), f = new Finder(h), rows = (filter, marks = []) => [...f.rows(f.find(filter, 3), filter, marks)];
  assert.deepEqual(rows({}, [{event: 0}, {event: 4}, {event: 10}]), [~0, 0, 1, 2, 3, ~1, 4, 5, 6, 7, 8, 9, ~2]);
  assert.deepEqual(rows({action: 1}), [3, 6]);
  assert.deepEqual(rows({category: 1}), [1, 2, 3, 5]);
  assert.deepEqual(rows({from: 3 * MB}), [1, 3, 4, 5, 8, 9]);
  assert.deepEqual(rows({text: core.hex(BASE + 128 * MB + 9)}), [0, 7]);
  assert.deepEqual(rows({text: 'train.py', action: 7}), [4]);
});

test('flames add up', () => {
  const h = recorded(), all = flame(h, weigh(h, {kind: 'event', event: 2}, null, 'bytes'), false, true), path = (n, ...frames) => frames.reduce((x, f) => x.children.get(f), n);
  assert.equal(all.value, 6 * MB + 512);
  assert.equal(path(all, 0, 1).value, 6 * MB + 512);
  assert.equal(path(all, 0, 1, 2).value, 512);
  assert.equal(path(flame(h, weigh(h, {kind: 'range', from: 1, to: 2}, null, 'count'), true, false), 1, 0).value, 2);
  assert.equal(flame(h, weigh(h, {kind: 'range', from: 1, to: 1}, null, 'life'), false, false).value, 8 * MB);
  assert.deepEqual(bars(all, 0.01, 100).map(b => [b.depth, b.node.frame]), [[0, -1], [1, 0], [2, 1]]);
  assert.equal(bars(all, 0, 2).length, 2);
});

test('one cursor tells everybody', () => {
  const c = new Cursor(10, {kind: 'peak', event: 3}), told = [];
  c.subscribe((what, byHand) => told.push(what + c.event + !!byHand));
  c.set(99, true); c.range(7, 2); c.pin(4);
  assert.deepEqual(told, ['moment9true', 'moment2false', 'pin2false']);
  assert.equal(c.words(), 'range=2-7');
  const other = new Cursor(10, {kind: 'peak', event: 3});
  assert.equal(other.words(), '');
  other.follow(new URLSearchParams('at=5'));
  assert.deepEqual([other.moment, other.words()], [{kind: 'event', event: 5}, 'at=5']);
  other.follow(new URLSearchParams('range=2-7'));
  assert.equal(other.words(), 'range=2-7');
});

test('names, forward stacks and nodes of torch.fx are read and found', () => {
  const lives = [{born: 0, at: BASE, bytes: MB, stack: 1, name: 1}, {born: 1, at: BASE + MB, bytes: 2 * MB, name: 2, forward: 2}, {born: 2, at: BASE + 3 * MB, bytes: 4 * MB, stack: 2}];
  const frames = [{function: 'main', file: 'train.py', line: 9}, {function: 'forward', file: 'fx_generated__.py', line: 4, fx: 'call_function linear', code: 'h = self.up(x)'}, {function: 'at::mm', file: '', line: 0, fold: true}];
  const h = new History(columns({events: 8, lives, names: ['', 'layers.0', 'forward 1'], hasForward: true, frames, kinds: [{category: 0, detail: '', rule: '', phase: ''}]}));
  assert.deepEqual([0, 1, 2].map(i => h.nameOf(i)), ['layers.0', 'forward 1', '']);
  assert.deepEqual(h.frames(h.forward[1]).map(f => f.function), ['at::mm', 'forward', 'main']);
  const found = text => [...new Finder(h).find({text}, 3).mask].map((m, i) => m ? i : -1).filter(i => i >= 0);
  assert.deepEqual(found('layers.0'), [0]);
  assert.deepEqual(found('/^forward \\d$/'), [1]);
  assert.deepEqual(found('layers'), [0]);
  assert.deepEqual(found('at::mm'), [1, 2]);
  assert.deepEqual(found('train.py'), [0, 1, 2]);
  assert.deepEqual(found('self.up(x)'), [0, 1, 2]);
});
