// ---- what every page does: its theme, its copies, its folded parts, its plots
function copyText(text, button) {
  const done = ok => { const was = button.dataset.was || button.textContent; button.dataset.was = was; button.textContent = ok ? 'Copied' : 'Copying failed'; say(button.textContent); setTimeout(() => { button.textContent = was; }, 1500); };
  const old = () => {
    const area = el('textarea', {style: {position: 'fixed', top: '0', opacity: '0'}});
    area.value = text;
    document.body.append(area);
    area.select();
    let ok = false;
    try { ok = document.execCommand('copy'); } catch (e) { ok = false; }
    area.remove();
    done(ok);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => done(true), old); else old();
}

function pair(name, value, color) {
  return el('div', {class: 'pair'}, el('span', null, color ? el('span', {class: 'dot', style: {background: color}}) : '', name), el('b', null, value));
}
function box(...lines) { return el('div', null, ...lines); }

// plot says what the lines of a plot are at the pointer.
function plot(figure) {
  const area = figure.querySelector('.area'), data = json('plot-' + figure.dataset.plot);
  if (!data) return;
  const show = e => {
    const r = area.getBoundingClientRect(), x = data.a + (data.b - data.a) * clamp((e.clientX - r.left) / r.width, 0, 1);
    let at = null;
    const near = data.l.map(l => {
      const p = l.p.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      if (at === null || Math.abs(p[0] - x) < Math.abs(at - x)) at = p[0];
      return pair(l.n, l.u === 'bytes' ? size(Math.round(p[1])) : +p[1].toFixed(3) + ' s', css('--' + l.c));
    });
    tip.show(e, box(el('b', null, data.x === 'clock' ? new Date(at).toISOString().slice(11, 19) : data.x + ' ' + count(at)), ...near));
  };
  area.addEventListener('pointermove', show);
  area.addEventListener('pointerleave', () => tip.hide());
}

// unfoldTo opens the folded parts around a place that somebody wants to see.
function unfoldTo(place) {
  for (let e = place; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
}

function setTheme(theme) {
  root.setAttribute('data-theme', theme);
  redraw('build');
}

function page() {
  root.setAttribute('data-theme', matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', e => setTheme(e.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () => setTheme(root.getAttribute('data-theme') === 'dark' ? 'light' : 'dark'));
  byId('copy').addEventListener('click', e => copyText(json('markdown'), e.currentTarget));
  all('.copycode').forEach(b => b.addEventListener('click', () => copyText(b.parentElement.querySelector('pre').textContent, b)));
  all('.scroll table').forEach(label);
  scenes.push({build() {}, resize: fit});
  fit();
  all('figure.plot').forEach(f => attempt(() => plot(f)));
  all('details.card, details.tree, details.figures').forEach(d => d.addEventListener('toggle', () => { if (d.open) redraw('resize'); }));
  all('.top nav a').forEach(a => a.addEventListener('click', () => { const place = byId(a.hash.slice(1)); if (place) unfoldTo(place); }));
  let was = '', opened = [];
  window.addEventListener('beforeprint', () => {
    was = root.getAttribute('data-theme');
    opened = all('details.finding, details.card').filter(x => !x.open);
    opened.forEach(x => { x.open = true; });
    setTheme('light');
    redraw('resize');
  });
  window.addEventListener('afterprint', () => { opened.forEach(x => { x.open = false; }); setTheme(was); });
  let timer = 0, width = -1;
  new ResizeObserver(e => {
    const first = width < 0;
    if (e[0].contentRect.width === width) return;
    width = e[0].contentRect.width;
    if (first) return;
    clearTimeout(timer);
    timer = setTimeout(() => redraw('resize'), 60);
  }).observe(document.querySelector('main'));
}
const ready = () => { performance.mark('ready'); root.setAttribute('data-ready', '1'); };
