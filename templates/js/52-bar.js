// ---- the bar above the pictures: the moment, the search and its filters
const STEPS_LISTED = 2000;

function startBar(d) {
  const s = d.state, h = s.h, bar = d.part.querySelector('[data-role=bar]');
  if (!bar) return;
  const input = role => bar.querySelector('[data-role=' + role + ']'), ooms = h.header.ooms, last = h.events - 1;
  const show = () => { if (d.timeline) d.timeline.show(s.moment.event); };
  const set = event => { s.cursor.set(event, true); show(); };
  const named = {peak: s.peak, oom: ooms.length ? ooms[ooms.length - 1].event : last, end: last};
  all('[data-moment]', bar).forEach(b => b.addEventListener('click', () => { s.cursor.go({kind: b.dataset.moment, event: named[b.dataset.moment]}, true); show(); }));
  all('[data-move]', bar).forEach(b => b.addEventListener('click', () => set(s.moment.event + +b.dataset.move)));
  input('event').addEventListener('change', e => { if (e.target.value === '') e.target.value = Math.max(0, s.moment.event); else set(+e.target.value); });
  const range = () => { if (input('from').value !== '' && input('to').value !== '') { s.cursor.range(+input('from').value, +input('to').value, true); show(); } };
  input('from').addEventListener('change', range);
  input('to').addEventListener('change', range);
  const step = input('step');
  if (step) step.addEventListener('change', () => { const x = h.header.steps.find(y => y.step === +step.value); if (x) { s.cursor.range(x.first_event, x.last_event, true); show(); } });

  const follow = () => {
    const m = s.moment, put = (role, v) => { const i = input(role); if (i && document.activeElement !== i) i.value = v; };
    all('[data-moment]', bar).forEach(b => b.setAttribute('aria-pressed', String(b.dataset.moment === m.kind)));
    put('event', Math.max(0, m.event));
    put('from', m.kind === 'range' ? m.from : '');
    put('to', m.kind === 'range' ? m.to : '');
    const at = h.header.steps.find(x => x.first_event <= m.event && m.event <= x.last_event);
    put('step', at ? at.step : '');
    input('now').textContent = m.event < 0 ? 'before the first event' : nameOfEvent(h, m.event) + (h.time(m.event) === null ? '' : ', ' + duration(h.time(m.event)));
  };
  s.cursor.subscribe(what => { if (what === 'moment') follow(); });
  follow();
  startSearch(s, bar);
}

// nameOfEvent is what happened at an event, in a few words.
function nameOfEvent(h, event) {
  const a = h.action[event], i = h.of[event], o = h.otherAt && h.otherAt.get(event);
  if (a === UNTOLD) return 'event of an allocation that isn\'t in the page';
  return words(h.header.actions[a] || 'other') + (o ? o.bytes ? ' ' + size(o.bytes) : '' : i >= 0 ? ' ' + size(h.bytes[i]) : '');
}

// startSearch fills the filters with what there is, and follows them.
function startSearch(s, bar) {
  const h = s.h, head = h.header, form = bar.querySelector('[data-role=find]');
  if (!form) return;
  const fields = all('[data-filter]', form), list = (name, values) => {
    const f = fields.find(x => x.dataset.filter === name);
    if (!f) return;
    f.closest('label').hidden = values.length < 2;
    f.append(...values.map(([value, text]) => el('option', {value: String(value)}, text)));
  };
  const kinds = key => Array.from(new Set(head.kinds.map(k => k[key]))).filter(Boolean).sort();
  list('category', s.classified ? head.titles.map((t, i) => [i, t]) : []);
  list('phase', kinds('phase').map(p => [p, words(p)]));
  list('rule', kinds('rule').map(r => [r, words(r)]));
  list('stream', head.streams.map((x, i) => [i, x === '0' ? 'default' : i + ' (' + hex(+x) + ')']));
  list('pool', head.pools.map((p, i) => [i, p || 'default']));
  list('step', head.steps.slice(0, STEPS_LISTED).map(x => [x.step, 'step ' + x.step]));
  list('action', head.actions.map((a, i) => [i, words(a)]).filter(([i]) => h.action.includes(i)));
  if (!head.steps.length) all('option[value=long]', form).forEach(o => o.remove());

  const said = form.querySelector('[data-role=found]');
  const read = () => Object.fromEntries(fields.map(f => [f.dataset.filter, f.dataset.bytes ? bytesOf(f.value) : f.value.trim()]));
  const apply = () => {
    try { s.search(read(), true); } catch (e) { said.textContent = e.message; }
  };
  let timer = 0;
  fields.forEach(f => f.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(apply, 120); }));
  form.addEventListener('submit', e => { e.preventDefault(); clearTimeout(timer); apply(); });
  form.querySelector('[data-role=clear]').addEventListener('click', () => { fields.forEach(f => { f.value = ''; }); apply(); });
  const tell = () => {
    form.querySelector('[data-role=clear]').hidden = !Object.values(s.filter).some(v => v !== undefined && v !== '');
    if (!s.found || !s.found.mask) { said.textContent = ''; return; }
    const now = aliveOf(h, s.found.mask, s.moment.event);
    said.textContent = count(s.found.count) + ' of ' + plural(h.length, 'allocation') + ', ' + size(s.found.bytes) + ' in all; ' + count(now.count) + ' with ' + size(now.bytes) + ' allocated at this moment';
  };
  s.listeners.push(what => { if (what === 'found' || what === 'moment') tell(); });
  s.findText = text => {
    fields.find(f => f.dataset.filter === 'text').value = text;
    apply();
    say(said.textContent);
  };
}

// bytesOf reads a size as people write it, '' for none.
function bytesOf(text) {
  const m = /^\s*([\d.]+)\s*([kmgt]?)i?b?\s*$/i.exec(text);
  return m ? parseFloat(m[1]) * Math.pow(1024, 'kmgt'.indexOf(m[2].toLowerCase() || ' ') + 1) : '';
}
