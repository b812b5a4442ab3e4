// ---- the table of runs
// MANY rows are drawn at a time: more when somebody scrolls down to where they begin.
const MANY = 100, RANK = {oom: 0, leak: 1, warning: 2, failed: 3, fine: 4};
const STATUS = {oom: 'Out of memory', leak: 'Leak', warning: 'Warning', failed: 'Failed', fine: 'Fine'};
const rows = json('rows'), categories = json('categories'), axes = json('axes') || [];
const whole = rows.reduce((n, r) => Math.max(n, r.c || 0, r.a || 0), 1);
const table = document.querySelector('table.runs'), body = table.tBodies[0];
const view = {by: '', down: false, status: '', words: [], list: [], drawn: 0};
rows.forEach(r => { r.all = [r.p, r.e, r.t, r.h, STATUS[r.s], r.w, ...(r.g || [])].join(' ').toLowerCase(); });

// has tells whether a run is of a status; one that leaks may also run out of memory.
const has = (r, status) => !status || (status === 'leak' ? r.l !== null : r.s === status);

function found() {
  const list = rows.filter(r => has(r, view.status) && view.words.every(w => r.all.includes(w)));
  const worst = (a, b) => RANK[a.s] - RANK[b.s] || (b.a === null ? -1 : b.a) - (a.a === null ? -1 : a.a) || (a.p < b.p ? -1 : 1);
  if (!view.by) return list.sort(worst);
  const sign = view.down ? -1 : 1, key = view.by;
  // Unknown values come last, whichever way.
  return list.sort((a, b) => {
    const x = key === 's' ? RANK[a.s] : a[key], y = key === 's' ? RANK[b.s] : b[key], no = v => v === null || v === undefined || v === '';
    if (no(x) || no(y)) return no(x) - no(y) || worst(a, b);
    return sign * (typeof x === 'string' ? (x < y ? -1 : x > y ? 1 : 0) : x - y) || worst(a, b);
  });
}

function bar(r) {
  if (r.a === null) return '';
  const parts = [], of = r.c !== null && r.a !== null ? Math.max(r.c, r.a) : whole;
  for (let i = 0; i < r.k.length; i += 2) parts.push(el('span', {class: 'c-' + categories[r.k[i]], style: {width: (100 * r.k[i + 1] / of).toFixed(2) + '%'}, title: words(categories[r.k[i]]) + ' ' + size(r.k[i + 1])}));
  return el('span', {class: r.c === null ? 'fill free' : 'fill', title: size(r.a) + (r.c === null ? ', capacity unknown' : ' of ' + size(r.c) + ' (' + percent(r.a, r.c) + ')')}, parts);
}

function below(path) {
  const p = path.startsWith(table.dataset.root) ? path.slice(table.dataset.root.length) : path, parts = p.split('/');
  return p.length > 36 && parts.length > 2 ? '…/' + parts.slice(-2).join('/') : p;
}
const page = r => 'runs/' + encodeURIComponent(r.n) + '/report.html';
const bytes = n => n === null ? '' : size(n);

function line(r) {
  const open = el('button', {type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-label': 'More of ' + r.p}, '+');
  const tr = el('tr', {class: 'line'},
    el('td', {class: 'left path', title: r.p}, open, ' ', r.s === 'failed' ? below(r.p) : el('a', {href: page(r)}, below(r.p))),
    el('td', {class: 'left text', title: r.t}, el('span', {class: 'badge ' + r.s}, STATUS[r.s]), ' ', r.h || r.t),
    el('td', {class: 'left peak'}, bar(r), el('span', {class: 'of'}, r.a === null ? '' : short(r.a))),
    el('td', {class: 'saves'}, r.y || (r.b > 0 ? 'saves ' + short(r.b) : '')), el('td', {class: 'grows'}, r.l === null ? '' : short(r.l)), el('td', {class: 'when'}, r.w));
  tr.addEventListener('click', e => {
    if (e.target.closest('a')) return;
    const was = open.getAttribute('aria-expanded') === 'true';
    open.setAttribute('aria-expanded', String(!was));
    open.textContent = was ? '+' : '−';
    if (was) tr.nextElementSibling.remove(); else tr.after(rest(r));
  });
  return tr;
}

// rest is what a line has no room for.
function rest(r) {
  const facts = [['Allocated', bytes(r.a)], ['Reserved', bytes(r.r)], ['Capacity', bytes(r.c)], ['GPUs', r.d > 1 ? String(r.d) : ''], ['Experiment', r.e === r.p ? '' : r.e]];
  for (let i = 0; i < (r.x || []).length; i += 2) facts.push([axes[r.x[i]], String(r.x[i + 1])]);
  return el('tr', {class: 'rest'}, el('td', {class: 'left', colspan: '6'}, el('p', null, r.t),
    r.f ? el('p', null, el('b', null, 'First change: '), r.f, r.y ? el('span', {class: 'saves'}, ' peak ' + r.y) : r.b > 0 ? el('span', {class: 'saves'}, ' saves ' + short(r.b)) : '') : '',
    el('dl', null, facts.filter(x => x[1]).map(x => el('div', null, el('dt', null, x[0]), el('dd', null, x[1])))),
    r.s === 'failed' ? '' : el('p', null, el('a', {href: page(r)}, 'Open its report'))));
}

// grow draws the next rows.
function grow() {
  const to = Math.min(view.list.length, view.drawn + MANY);
  body.append(...view.list.slice(view.drawn, to).map(line));
  view.drawn = to;
  byId('more').textContent = plural(view.list.length, 'run') + (view.list.length === rows.length ? '' : ' of ' + count(rows.length)) + (to < view.list.length ? ', the first ' + count(to) + ' drawn' : '');
}

function fill() {
  view.list = found();
  view.drawn = 0;
  body.replaceChildren();
  grow();
  for (const th of table.tHead.rows[0].cells) {
    if (view.by && th.dataset.sort === view.by) th.setAttribute('aria-sort', view.down ? 'descending' : 'ascending'); else th.removeAttribute('aria-sort');
  }
  scatter.draw();
  say(plural(view.list.length, 'run'));
}

function choose(status) {
  view.status = status;
  all('button[data-status]').forEach(b => b.setAttribute('aria-pressed', String(b.dataset.status === status)));
  fill();
}

function search(text) {
  byId('search').value = text;
  view.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  fill();
}

// ---- the peak of each run against its date or a number of its own
const COLOR = {oom: '--fail', leak: '--warn', warning: '--warn', failed: '--mut', fine: '--ok'};
const scatter = {
  points: [],
  begin() {
    const names = axes.map((name, i) => [String(i), name]);
    if (new Set(rows.map(r => r.m).filter(x => x !== null)).size > 1) names.unshift(['m', 'the date']);
    if (!names.length) return;
    byId('compare').hidden = false;
    byId('axis').append(...names.map(([value, name]) => el('option', {value}, name)));
    byId('axis').addEventListener('change', () => { byId('compare').open = true; this.choose(); this.draw(); });
    this.choose();
    byId('axis').addEventListener('click', e => e.preventDefault()); // choosing folds nothing
    byId('compare').addEventListener('toggle', () => this.draw());
    const c = byId('scatter'), near = e => {
      const r = c.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
      let best = null, least = 144;
      for (const p of this.points) { const d = (p.x - x) ** 2 + (p.y - y) ** 2; if (d < least) { least = d; best = p; } }
      return best;
    };
    c.addEventListener('pointermove', e => {
      const p = near(e);
      c.style.cursor = p ? 'pointer' : '';
      if (p) tip.show(e, el('div', null, el('b', null, p.r.p), el('div', null, size(p.r.a) + ' at ' + this.label(p.v)), el('div', {class: 'muted'}, STATUS[p.r.s] + ': ' + p.r.h))); else tip.hide();
    });
    c.addEventListener('pointerleave', () => tip.hide());
    c.addEventListener('click', e => { const p = near(e); if (p) location.href = page(p.r); });
    window.addEventListener('resize', () => this.draw());
  },
  fact(r, key) {
    if (key === 'm') return r.m;
    for (let i = 0; i < (r.x || []).length; i += 2) if (r.x[i] === +key) return r.x[i + 1];
    return null;
  },
  // choose takes an axis; texts stand on it in their order, as their numbers.
  choose() {
    const key = byId('axis').value, values = [...new Set(rows.map(r => this.fact(r, key)).filter(v => v !== null))];
    this.texts = values.some(v => typeof v === 'string') ? values.map(String).sort() : null;
  },
  value(r) {
    const v = this.fact(r, byId('axis').value);
    return v !== null && this.texts ? this.texts.indexOf(String(v)) : v;
  },
  label(v) { return this.texts ? this.texts[v] ?? '' : byId('axis').value === 'm' ? new Date(v).toISOString().slice(0, 10) : axes[+byId('axis').value] + ' ' + (+v.toPrecision(6)); },
  draw() {
    const c = byId('scatter'), box = c.getBoundingClientRect();
    if (!byId('compare').open || !box.width) return;
    const d = Math.min(2, window.devicePixelRatio || 1), g = c.getContext('2d'), left = 76, right = 16, bottom = 26, top = 8;
    c.width = Math.round(box.width * d); c.height = Math.round(box.height * d);
    g.setTransform(d, 0, 0, d, 0, 0);
    const seen = view.list.map(r => ({r, v: this.value(r)})).filter(p => p.v !== null && p.v !== undefined && p.r.a !== null);
    const most = seen.reduce((n, p) => Math.max(n, p.r.a), 1), a = seen.reduce((n, p) => Math.min(n, p.v), Infinity), b = seen.reduce((n, p) => Math.max(n, p.v), -Infinity);
    const w = box.width - left - right, h = box.height - top - bottom, y = v => top + h - v / (most * 1.05) * h, x = v => b > a ? left + (v - a) / (b - a) * w : left + w / 2;
    g.font = '11.5px ' + getComputedStyle(document.body).fontFamily;
    g.textBaseline = 'middle'; g.lineWidth = 1;
    for (let v = 0, step = niceStep(most, 5); v <= most * 1.05; v += step) {
      g.strokeStyle = css('--grid'); g.beginPath(); g.moveTo(left, y(v)); g.lineTo(left + w, y(v)); g.stroke();
      g.fillStyle = css('--mut'); g.textAlign = 'right'; g.fillText(size(v).replace(/\.0+ /, ' '), left - 8, y(v));
    }
    if (this.texts) this.texts.forEach((text, k) => {
      g.textAlign = this.texts.length < 2 ? 'center' : k === 0 ? 'left' : k === this.texts.length - 1 ? 'right' : 'center';
      if (k >= a && k <= b) g.fillText(text, x(k), top + h + 15, w / Math.max(1, b - a) - 8);
    });
    else if (seen.length) for (let k = 0; k <= 4; k++) {
      if (k && b === a) break;
      g.textAlign = k === 0 ? 'left' : k === 4 ? 'right' : 'center';
      g.fillText(this.label(a + (b - a) * k / 4), b > a ? left + w * k / 4 : left + w / 2, top + h + 15);
    }
    this.points = seen.map(p => ({...p, x: x(p.v), y: y(p.r.a)}));
    g.globalAlpha = 0.7;
    for (const p of this.points) { g.fillStyle = css(COLOR[p.r.s]); g.beginPath(); g.arc(p.x, p.y, 3.2, 0, 7); g.fill(); }
    g.globalAlpha = 1;
  }
};

// fold hides all but the first rows of the tables above the runs.
const FIRST_ROWS = 10;
function fold(part) {
  const rest = all('tbody tr', part).slice(FIRST_ROWS);
  if (rest.length < 3) return;
  rest.forEach(tr => { tr.hidden = true; });
  const button = el('button', {type: 'button', class: 'unfold', onclick: () => { rest.forEach(tr => { tr.hidden = false; }); button.remove(); }}, 'Show ' + count(rest.length) + ' more');
  part.append(button);
}

function setTheme(theme) { root.setAttribute('data-theme', theme); scatter.draw(); }

function main() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', e => setTheme(e.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () => setTheme(root.getAttribute('data-theme') === 'dark' ? 'light' : 'dark'));
  byId('controls').hidden = false;
  all('section.card').filter(part => part.id !== 'runs').forEach(fold);
  for (const th of table.tHead.rows[0].cells) {
    th.replaceChildren(el('button', {type: 'button', onclick: () => {
      const by = th.dataset.sort;
      view.down = by === view.by ? !view.down : !['p', 's', 'w'].includes(by);
      view.by = by;
      fill();
    }}, th.textContent));
  }
  all('button[data-status]').forEach(b => {
    const n = rows.filter(r => has(r, b.dataset.status)).length, tile = b.classList.contains('tile');
    b.hidden = !tile && b.dataset.status !== '' && n === 0;
    if (b.dataset.status && !tile) b.append(' ' + count(n));
    b.addEventListener('click', () => { choose(b.dataset.status); if (tile) byId('runs').scrollIntoView(); });
  });
  fit();
  window.addEventListener('resize', fit);
  scatter.begin();
  new IntersectionObserver(e => { if (e[0].isIntersecting && view.drawn < view.list.length) grow(); }, {rootMargin: '600px'}).observe(byId('more'));
  all('button.pick').forEach(b => b.addEventListener('click', () => {
    choose('');
    search(b.dataset.fingerprint);
    byId('runs').scrollIntoView();
  }));
  byId('search').addEventListener('input', e => search(e.target.value));
  // A search can be linked to: index.html#q=words
  const link = () => { const q = new URLSearchParams(location.hash.slice(1)).get('q'); if (q !== null) search(q); else fill(); };
  window.addEventListener('hashchange', link);
  link();
  root.setAttribute('data-ready', '1');
}
main();
