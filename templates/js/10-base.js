// ---- small things that everything uses
const root = document.documentElement;
const byId = id => document.getElementById(id);
const json = id => { const e = byId(id); return e ? JSON.parse(e.textContent) : null; };
const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
const css = name => getComputedStyle(root).getPropertyValue(name).trim();

// el makes an element. Texts are only ever set as text, never as markup.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const k in attributes || {}) {
    if (k === 'style') Object.assign(e.style, attributes.style);
    else if (k.slice(0, 2) === 'on') e.addEventListener(k.slice(2), attributes[k]);
    else if (attributes[k] !== null && attributes[k] !== undefined) e.setAttribute(k, attributes[k]);
  }
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== '') e.append(c);
  return e;
}

// breakable is a name that may be broken where its parts meet, and nowhere else.
function breakable(name) {
  const out = [];
  for (const part of String(name).split(/(?<=[/_.:])(?=\w)/)) { if (out.length) out.push(document.createElement('wbr')); out.push(part); }
  return out;
}

// say tells a screen reader what has changed.
function say(text) { byId('said').textContent = text; }

const tip = {
  show(event, content) {
    const t = byId('tip');
    t.replaceChildren(content);
    t.hidden = false;
    const w = t.offsetWidth, h = t.offsetHeight, right = document.documentElement.clientWidth;
    const x = event.clientX + 16 + w > right ? Math.max(4, event.clientX - w - 12) : event.clientX + 16;
    const y = event.clientY + 14 + h > window.innerHeight ? Math.max(4, event.clientY - h - 10) : event.clientY + 14;
    t.style.left = x + window.scrollX + 'px';
    t.style.top = y + window.scrollY + 'px';
  },
  hide() { byId('tip').hidden = true; }
};

function rgb(color) {
  let h = color.replace('#', '');
  if (h.length === 3) h = h.replace(/./g, '$&$&');
  return [0, 2, 4].map(i => parseInt(h.slice(i, i + 2), 16));
}
const abgr = c => (0xff000000 | c[2] << 16 | c[1] << 8 | c[0]) >>> 0;
const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));

// onColor is the colour, black or white, in which text is readable on another.
function onColor(color) {
  const [r, g, b] = rgb(color).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? '#000' : '#fff';
}

// keepFocus fills a place anew, and leaves the keyboard where it was in it: on
// the button of the same place, or else the nearest.
function keepFocus(place, ...children) {
  const before = all('button', place).indexOf(document.activeElement);
  place.replaceChildren(...children);
  if (before < 0) return;
  const now = all('button', place), next = now[Math.min(before, now.length - 1)];
  if (next) next.focus(); else { place.tabIndex = -1; place.focus(); }
}

// unseen tells of a place that nobody can see, in a folded part: it is drawn when
// that is opened.
const unseen = place => !place.clientWidth || !place.checkVisibility();

// printing tells of paper, on which nothing scrolls.
const printing = () => matchMedia('print').matches;

// attempt lets one picture fail without the rest of the page; the console has why.
function attempt(f) {
  try { return f(); } catch (e) { console.error(e); }
}

// Scenes are what must be drawn again in other colours or another size.
const scenes = [];
const redraw = how => scenes.forEach(s => attempt(() => s[how]()));

// label notes in each cell what its column is called, for rows that become blocks; below its name if that is more than a number.
function label(table) {
  if (!table.tHead || table.matches('.sites')) return;
  const names = Array.from(table.tHead.rows[0].cells, c => c.textContent);
  for (const body of table.tBodies) for (const row of body.rows) Array.from(row.cells).forEach((c, i) => { if (i || c.tagName === 'TD' && /^\d[\d,\s-]*$/.test(c.textContent)) c.dataset.label = names[i] || ''; if (!c.textContent.trim()) c.classList.add('none'); });
}

// fit makes blocks of the rows of tables that are wider than their place.
function fit() {
  const tables = all('.scroll > table:not(.sites)');
  tables.forEach(t => t.classList.remove('wide'));
  tables.filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth + 1).forEach(t => t.classList.add('wide'));
}
