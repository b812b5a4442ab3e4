// ---- ECharts
// The options come as JSON. Only these keys may hold a word for a function or a
// colour, only these words are known, and data is never looked at.
const POOLS = 'Private pools, reserved';
const FUNCTION_KEYS = {formatter: 1, valueFormatter: 1, labelFormatter: 1};
function functionsFor(option) {
  const unit = option.unit || {Name: 'GiB', Bytes: 1073741824};
  const bytes = v => size(Math.round(v * unit.Bytes));
  const history = () => option.history;
  return {
    axis: v => +v.toFixed(3) + ' ' + unit.Name,
    event: v => count(Math.round(v)),
    area: points => {
      if (!points.length) return '';
      const event = Math.round(points[0].value[0]), h = history(), t = h && h.time(event);
      const parts = points.filter(p => p.seriesName !== 'Reserved' && p.seriesName !== POOLS), pools = points.find(p => p.seriesName === POOLS), reserved = points.find(p => p.seriesName === 'Reserved');
      const sum = parts.reduce((s, p) => s + p.value[1], 0), lines = parts.filter(p => p.value[1] > 0).reverse().map(p => pair(p.seriesName, bytes(p.value[1]), p.color));
      return box(el('b', null, 'event ' + count(event)), t === null || t === undefined ? '' : ' at ' + duration(t),
        parts.length > 1 ? pair('Allocated', bytes(sum)) : '', ...lines, reserved ? pair('Reserved', bytes(reserved.value[1])) : '', pools && pools.value[1] > 0 ? pair(POOLS, bytes(pools.value[1])) : '');
    },
    bars: points => points.length ? box(el('b', null, 'after step ' + points[0].name), ...points.filter(p => p.value > 0).map(p => pair(p.seriesName, bytes(p.value), p.color))) : '',
    compared: points => points.length ? box(el('b', null, points[0].name), ...points.map(p => pair(p.seriesName, p.value === null || p.value === undefined ? 'not in the recording' : bytes(p.value), p.color))) : '',
    tree: p => box(...(p.treePathInfo || []).slice(1).map(x => el('div', null, x.name)), el('b', null, size(p.value)))
  };
}

function revive(o, functions, inData) {
  if (Array.isArray(o)) { o.forEach(x => revive(x, functions, inData)); return; }
  if (!o || typeof o !== 'object') return;
  for (const k of Object.keys(o)) {
    const v = o[k];
    if (typeof v === 'string') {
      if (!inData && FUNCTION_KEYS[k] && v.slice(0, 3) === 'fn:' && Object.prototype.hasOwnProperty.call(functions, v.slice(3))) o[k] = functions[v.slice(3)];
      else if (k === 'color' && /^css:--[a-z0-9_-]+$/.test(v)) o[k] = css(v.slice(4)) || css('--mut');
    } else if (k === 'data') {
      if (inData === 'marks') revive(v, functions, 'marks');
    } else revive(v, functions, k === 'markLine' || k === 'markArea' ? 'marks' : inData);
  }
}

function skinAxis(a, horizontal) {
  a.axisLine = {lineStyle: {color: css('--line')}};
  a.axisTick = {show: false};
  a.axisLabel = Object.assign(a.axisLabel || {}, {color: css('--mut'), fontSize: 11.5});
  a.nameTextStyle = {color: css('--mut')};
  a.splitLine = {show: a.type === 'value' ? !horizontal || a.bars : false, lineStyle: {color: css('--grid')}};
}

// skin gives an option the colours of the page.
function skin(o) {
  revive(o, functionsFor(o), '');
  const ink = css('--ink'), mut = css('--mut'), line = css('--line');
  o.backgroundColor = 'transparent';
  o.textStyle = {fontFamily: getComputedStyle(document.body).fontFamily};
  delete o.title;
  delete o.toolbox;
  if (o.legend) Object.assign(o.legend, {textStyle: {color: ink, fontSize: 12, lineHeight: 18}, inactiveColor: line, pageTextStyle: {color: mut}, pageIconColor: mut});
  o.tooltip = Object.assign(o.tooltip || {}, {backgroundColor: css('--tip'), borderColor: line, textStyle: {color: ink, fontSize: 12.5}, confine: true, transitionDuration: 0, extraCssText: 'max-width:460px;white-space:normal'});
  const lying = (o.yAxis || []).some(a => a.type === 'category');
  (o.xAxis || []).forEach(a => { a.bars = lying; skinAxis(a, true); });
  (o.yAxis || []).forEach((a, i) => { skinAxis(a, false); if (i) a.splitLine.show = false; });
  if (o.ticks) Object.assign(o.yAxis[0], o.ticks);
  (o.dataZoom || []).forEach(z => {
    if (z.type === 'slider') Object.assign(z, {height: 18, bottom: 12, showDataShadow: false, brushSelect: false, borderColor: line, fillerColor: css('--shade'), handleStyle: {color: css('--card'), borderColor: mut}, moveHandleSize: 4, textStyle: {color: mut}, labelFormatter: v => count(Math.round(v))});
    else Object.assign(z, {zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false});
  });
  for (const s of o.series || []) {
    if (s.markArea) Object.assign(s.markArea, {silent: true, label: {color: mut, fontSize: 11, position: 'insideTop'}, emphasis: {disabled: true}});
    if (s.markLine) skinMarks(s.markLine, ink, mut);
    s.emphasis = {disabled: true};
  }
  return o;
}

function skinMarks(marks, ink, mut) {
  marks.silent = true;
  marks.symbol = ['none', 'none'];
  for (const mark of marks.data) {
    const d = Array.isArray(mark) ? mark[0] : mark; // a line between two places
    const color = d.name === 'capacity' || d.name === 'oom' || d.name === 'request' ? css('--fail') : d.name === 'moment' ? css('--acc') : ink;
    d.lineStyle = {color: d.name === 'request' ? color + '73' : color, width: d.name === 'request' ? 7 : d.name === 'moment' ? 1.5 : 1.2, type: d.name === 'capacity' || d.name === 'request' ? 'solid' : 'dashed'};
    d.label = Object.assign(d.label || {}, {color, fontSize: 11.5});
  }
}

// mountChart draws an option and keeps it in the page's colours and size.
// prepare may change the option before each drawing.
function mountChart(place, option, prepare) {
  let chart = null;
  function build() {
    if (chart) chart.dispose();
    chart = null;
    if (unseen(place)) return;
    chart = echarts.init(place, null, {renderer: 'canvas'});
    const o = JSON.parse(JSON.stringify(option));
    if (prepare) prepare(o, chart);
    chart.setOption(skin(o));
    place.setAttribute('data-drawn', '1');
  }
  build();
  const scene = {place, build, resize: () => { if (unseen(place)) return; if (chart) chart.resize(); else build(); }, chart: () => chart};
  scenes.push(scene);
  return scene;
}
