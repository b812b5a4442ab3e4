// ---- the table of runs
const MOST_ROWS = 200, RANK = {oom: 0, leak: 1, warning: 2, failed: 3, fine: 4};
const STATUS = {oom: 'Out of memory', leak: 'Leak', warning: 'Warning', failed: 'Failed', fine: 'Fine'};
const rows = json('rows'), categories = json('categories');
const whole = rows.reduce((n, r) => Math.max(n, r.c || 0, r.a || 0), 1);
const table = document.querySelector('table.runs'), body = table.tBodies[0];
const view = {by: '', down: false, status: '', words: [], all: false};

// has tells whether a run is of a status; one that leaks may also run out of memory.
const has = (r, status) => !status || (status === 'leak' ? r.l !== null : r.s === status);

function found() {
  const list = rows.filter(r => has(r, view.status) && view.words.every(w => (r.p + ' ' + r.e + ' ' + r.t + ' ' + (r.f || '') + ' ' + STATUS[r.s] + ' ' + r.w + ' ' + (r.g || []).join(' ')).toLowerCase().includes(w)));
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

function line(r) {
  const cell = (label, ...content) => el('td', {'data-label': label}, ...content), left = (label, ...content) => el('td', {'data-label': label, class: 'left'}, ...content);
  const bytes = n => n === null ? '' : size(n);
  const fix = r.f ? [el('br'), el('span', {class: 'muted'}, r.f), r.b === null ? '' : ' ', r.b === null ? '' : el('span', {class: 'saves'}, 'saves ' + size(r.b))] : [];
  return el('tr', null,
    cell('', r.s === 'failed' ? r.p : el('a', {href: 'runs/' + encodeURIComponent(r.n) + '/report.html'}, r.p), r.d > 1 ? el('span', {class: 'muted'}, ' ' + r.d + ' GPUs') : ''),
    el('td', {class: 'left text', 'data-label': ''}, el('span', {class: 'badge ' + r.s}, STATUS[r.s]), ' ', r.t, ...fix),
    left('Peak', bar(r)), cell('Allocated', bytes(r.a)), cell('Reserved', bytes(r.r)), cell('Capacity', bytes(r.c)), cell('Leak a step', bytes(r.l)), left('Recorded', r.w));
}

function fill() {
  const list = found(), shown = view.all ? list : list.slice(0, MOST_ROWS);
  body.replaceChildren(...shown.map(line));
  for (const th of table.tHead.rows[0].cells) {
    if (view.by && th.dataset.sort === view.by) th.setAttribute('aria-sort', view.down ? 'descending' : 'ascending'); else th.removeAttribute('aria-sort');
  }
  keepFocus(byId('more'), plural(list.length, 'run') + (list.length === rows.length ? '' : ' of ' + count(rows.length)) + (shown.length < list.length ? ', ' + count(shown.length) + ' shown ' : ''),
    shown.length < list.length ? el('button', {type: 'button', onclick: () => { view.all = true; fill(); }}, 'Show all') : '');
  say(plural(list.length, 'run'));
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

// fold hides all but the first rows of the tables above the runs.
const FIRST_ROWS = 10;
function fold(part) {
  const rest = all('tbody tr', part).slice(FIRST_ROWS);
  if (rest.length < 3) return;
  rest.forEach(tr => { tr.hidden = true; });
  const button = el('button', {type: 'button', class: 'unfold', onclick: () => { rest.forEach(tr => { tr.hidden = false; }); button.remove(); }}, 'Show ' + count(rest.length) + ' more');
  part.append(button);
}

function setTheme(theme) { root.setAttribute('data-theme', theme); }

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
    const n = rows.filter(r => has(r, b.dataset.status)).length;
    b.hidden = b.dataset.status !== '' && n === 0;
    if (b.dataset.status) b.append(' ' + count(n));
    b.addEventListener('click', () => choose(b.dataset.status));
  });
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
