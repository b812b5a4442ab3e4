// ---- putting it together
const devices = []; // by index, filled when a device is first shown

function startCharts(part, prefix) {
  const made = {};
  for (const place of all('[data-chart]', part)) {
    const option = json('option-' + place.dataset.chart);
    if (option) made[place.dataset.chart.replace(/-d\d+$/, '')] = {place, option};
  }
  return made;
}

function startDevice(index) {
  if (devices[index]) return devices[index].ready;
  const part = document.querySelector('.device[data-index="' + index + '"]'), suffix = index ? '-d' + index : '';
  const d = devices[index] = {part, index};
  const data = json('data' + suffix), charts = startCharts(part);
  d.ready = data === null ? Promise.resolve(startPlain(charts)) : (typeof data === 'string' ? inflate(data) : download(data)).then(bytes => start(d, new History(bytes), charts)).catch(e => console.error(e));
  return d.ready;
}
function startPlain(charts) { for (const k in charts) attempt(() => mountChart(charts[k].place, charts[k].option)); }

function start(d, h, charts) {
  const part = d.part, {area, tree, ...plain} = charts, canvas = part.querySelector('canvas.timeline'), map = part.querySelector('canvas.map'), reserved = part.querySelector('canvas.reserved');
  startPlain(plain);
  const s = d.state = new State(h, part);
  d.timeline = canvas ? attempt(() => new Timeline(s, canvas)) : null;
  const table = d.table = new Table(s, part);
  if (area) attempt(() => startArea(d, area));
  d.see = which => see(d, which);
  if (reserved && s.memory) attempt(() => { d.reserved = new Reserved(s, reserved); });
  if (tree) attempt(() => { table.tree = mountChart(tree.place, tree.option, o => table.prepareTree(o)); table.askTree = view(tree.place, () => table.drawTree()); });
  if (map && s.memory) attempt(() => { d.map = new SegmentMap(s, part, map); });
  attempt(() => controls(d));
  attempt(() => startBar(d));
  if (part.querySelector('[data-role=events]') && s.memory) attempt(() => { d.list = new EventList(s, part); });
  if (part.querySelector('[data-role=flame]')) attempt(() => { d.flame = new Flame(s, part); });
  attempt(() => all('details.fold[data-stack]', part).forEach(x => unfold(x, h)));
}

// ticksWithin is the y axis for a range of events: that of the whole recording, or
// what leaves the largest value within the range near the top.
function ticksWithin(option, from, to) {
  const x = option.xAxis[0], reserved = option.series[option.series.length - 1].data;
  if (from <= x.min && to >= x.max) return option.ticks;
  let most = 0;
  const stacked = option.series.filter(s => s.stack);
  reserved.forEach(([event, value], i) => {
    const next = i + 1 < reserved.length ? reserved[i + 1][0] : Infinity;
    if (event > to || next <= from) return;
    const sum = stacked.reduce((n, s) => n + (s.data[i] ? s.data[i][1] : 0), 0);
    most = Math.max(most, value, sum);
  });
  const interval = niceStep((most || 1) * option.unit.Bytes, 5) / option.unit.Bytes;
  return {interval, max: Math.ceil((most || 1) * 1.02 / interval) * interval};
}

// poolCurve is what private pools reserve, as a line of the chart; null without them.
function poolCurve(memory, option) {
  const pools = memory.h.header.pools, points = [], bytes = option.unit.Bytes;
  if (!pools.some(Boolean)) return null;
  let level = memory.spans(-1).reduce((n, x) => n + (pools[x.pool] ? x.end - x.start : 0), 0);
  points.push([0, level / bytes]);
  for (const c of memory.changes) {
    if (!pools[c.pool]) continue;
    level += c.action === SEGMENT_ALLOC || c.action === SEGMENT_MAP ? c.bytes : -c.bytes;
    points.push([c.event, level / bytes]);
  }
  points.push([memory.h.events - 1, level / bytes]);
  return {name: POOLS, type: 'line', data: points, showSymbol: false, step: 'end', lineStyle: {width: 1.6, type: 'dashed', color: 'css:--s5'}, itemStyle: {color: 'css:--s5'}};
}

function startArea(d, {place, option}) {
  const s = d.state, t = d.timeline;
  let zooming = false;
  const pools = s.memory ? poolCurve(s.memory, option) : null;
  if (pools) option.series.splice(-1, 0, pools);
  option.series[option.series.length - 1].markLine.data ||= []; // none: no peak, failure or capacity to mark
  const scene = mountChart(place, option, (o, chart) => {
    Object.defineProperty(o, 'history', {value: s.h}); // not among its keys: it isn't walked through
    const steps = o.series[o.series.length - 1].markArea;
    if (steps && place.clientWidth < 80 * steps.data.length) steps.data.forEach(x => { x[0].name = ''; }); // no room for their names
    if (s.mode === 'category' && s.classified) o.legend.selected = Object.fromEntries(s.groups.map((g, i) => [g.name, s.shown[i]]));
    chart.getZr().on('click', e => {
      const at = [e.offsetX, e.offsetY];
      if (chart.containPixel('grid', at)) s.cursor.set(chart.convertFromPixel('grid', at)[0], true);
      place.focus({preventScroll: true}); // its keys go on from there
    });
    if (!t) return;
    let last = '';
    chart.on('datazoom', () => {
      const z = chart.getOption().dataZoom[0], key = z.startValue + '/' + z.endValue;
      if (key === last) return;
      last = key;
      chart.setOption({yAxis: ticksWithin(option, z.startValue, z.endValue)});
      zooming = true;
      t.view(z.startValue, z.endValue + 1);
      zooming = false;
    });
    chart.on('legendselectchanged', e => {
      const g = s.mode === 'category' ? s.groups.findIndex(x => x.name === e.name) : -1;
      if (g >= 0 && s.shown[g] !== e.selected[e.name]) s.toggle(g);
    });
  });
  if (t) {
    place.tabIndex = 0;
    place.addEventListener('keydown', e => { if (t.key(e)) e.preventDefault(); });
  }
  // The moment is a line above the chart: drawing the chart anew takes longer than a move may.
  const line = el('div', {class: 'now', 'aria-hidden': 'true'});
  place.after(line);
  const point = () => {
    const m = s.moment, chart = scene.chart(), x = chart ? chart.convertToPixel({xAxisIndex: 0}, m.event) : -1, inside = chart && m.kind !== 'peak' && m.kind !== 'oom' && chart.containPixel('grid', [x, 60]);
    line.hidden = !inside;
    if (inside) line.style.left = place.offsetLeft + x + 'px';
  };
  scenes.push({place, build: point, resize: point});
  s.listeners.push(what => {
    if (what === 'moment' || what === 'view') point();
    if (what === 'groups' && s.mode === 'category' && s.classified) {
      s.groups.forEach((g, i) => scene.chart()?.dispatchAction({type: s.shown[i] ? 'legendSelect' : 'legendUnSelect', name: g.name}));
    }
  });
  d.zoomed = (a, b) => scene.chart()?.dispatchAction({type: 'dataZoom', startValue: a, endValue: b - 1});
  s.listeners.push(what => { if (what === 'view' && d.area && !zooming && place.clientWidth) d.zoomed(s.range.v0, s.range.v1); });
  d.area = scene;
}

// see shows the sums by category or every allocation: one picture at a time.
function see(d, which) {
  all('[data-view]', d.part).forEach(p => { p.hidden = p.dataset.view !== which; });
  all('[data-see]', d.part).forEach(b => b.setAttribute('aria-pressed', String(b.dataset.see === which)));
  redraw('resize');
  if (d.zoomed && which === 'category') d.zoomed(d.state.range.v0, d.state.range.v1);
}

function chips(d) {
  const s = d.state, place = d.part.querySelector('[data-role=chips]');
  if (!place) return;
  keepFocus(place, ...s.groups.map((g, i) => s.used[i] ? el('button', {type: 'button', 'data-group': String(i), 'aria-pressed': String(s.shown[i]), title: g.name, onclick: () => s.toggle(i)},
    el('span', {class: 'dot', style: {background: css(g.color)}}), g.name) : ''));
}

function controls(d) {
  const s = d.state, part = d.part, t = d.timeline, h = s.h, pin = part.querySelector('[data-role=pin]');
  const press = (selector, on) => all(selector, part).forEach(b => b.setAttribute('aria-pressed', on(b)));
  const paint = () => { chips(d); press('[data-color]', b => b.dataset.color === s.mode); };
  paint();
  scenes.push({place: part, build: () => chips(d), resize: () => {}});
  s.listeners.push(what => { if (what === 'groups') paint(); if (what === 'pin' && pin) showPin(s, pin); });
  all('[data-color]', part).forEach(b => { b.hidden = b.dataset.color === 'category' && !s.classified; b.addEventListener('click', () => s.colorBy(b.dataset.color)); });
  all('[data-drag]', part).forEach(b => b.addEventListener('click', () => { t.drag = b.dataset.drag; press('[data-drag]', x => x === b); }));
  all('[data-role=reset]', part).forEach(b => b.addEventListener('click', () => { t.view(0, h.events); s.first(true); }));
  all('[data-see]', part).forEach(b => b.addEventListener('click', () => d.see(b.dataset.see)));
  const note = part.querySelector('[data-role=timeline-note]');
  if (note && h.rest) note.textContent += ' The ' + count(h.length) + ' allocations with most bytes × lifetime are drawn one by one, the ' + count(h.header.rest) + ' others as one band' + (s.classified ? ' per category' : '') + '.';
}

// ---- device, links, theme, printing
let current = 0;
function showDevice(index) {
  current = index;
  all('.device').forEach(p => { p.hidden = +p.dataset.index !== index; });
  all('button[data-device]').forEach(b => b.setAttribute('aria-pressed', +b.dataset.device === index));
  if (devices[index]) redraw('resize');
  return startDevice(index);
}

const SECTIONS = ['proof', 'changes', 'findings', 'memory', 'timeline', 'events', 'peak', 'budget', 'settings', 'segments', 'growth', 'stacks'];
function followLink() {
  const hash = location.hash.slice(1);
  if (!hash.includes('=')) {
    const m = /^(.*)-d(\d+)$/.exec(hash), place = byId(hash);
    const own = current && SECTIONS.includes(hash) ? byId(hash + '-d' + current) : null;
    if (own || place) unfoldTo(own || place);
    if (m && place && SECTIONS.includes(m[1])) return showDevice(+m[2]).then(() => place.scrollIntoView());
    if (own) own.scrollIntoView();
    return Promise.resolve();
  }
  const q = new URLSearchParams(hash), index = +(q.get('device') || 0);
  if (!document.querySelector('.device[data-index="' + index + '"]')) return Promise.resolve();
  return showDevice(index).then(() => {
    const s = devices[index].state;
    if (!s || !s.h.events) return;
    let pinned = q.has('allocation') ? s.h.find(+q.get('allocation')) : -1;
    s.cursor.follow(q);
    if (q.get('find') && s.findText) s.findText(q.get('find'));
    if (s.moment.kind === 'event') {
      const e = s.moment.event;
      if (pinned < 0) pinned = s.h.begins[e] >= 0 ? s.h.begins[e] : s.h.ends[e];
    }
    s.cursor.pin(pinned);
    if (pinned >= 0) devices[index].see('each');
    const part = devices[index].part.querySelector(pinned >= 0 ? '[id^=memory]' : '[id^=peak]');
    if (part) part.scrollIntoView();
  });
}

function main() {
  page();
  all('button[data-device]').forEach(b => b.addEventListener('click', () => { showDevice(+b.dataset.device); history.replaceState(null, '', '#device=' + b.dataset.device); }));
  window.addEventListener('hashchange', followLink);
  showDevice(+document.querySelector('main').dataset.main).then(followLink).catch(e => console.error(e)).then(ready);
}
