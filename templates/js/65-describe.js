// ---- what is said of one allocation
const SIGNALS = {label: 'a label of yours', native_stack: 'the C++ lines of its stack', free_stack: 'the stack of its free', python_stack: 'the Python lines of its stack',
  site: 'what else its call site makes', life: 'when it was made and freed', size: 'its size', order: 'its place in the sequence'};

function moment(h, event) {
  const t = h.time(event);
  return 'event ' + count(event) + (t === null ? '' : ' (' + duration(t) + ')');
}
const life = (h, i) => (h.born[i] < 0 ? 'made before the recording' : 'made at ' + moment(h, h.born[i])) + ', ' + (h.died[i] >= h.events ? 'never freed' : 'freed at ' + moment(h, h.died[i]));
const why = k => k.signal && k.signal !== 'none' ? 'by ' + (SIGNALS[k.signal] || words(k.signal)) + ', ' + k.confidence + ' % sure' : '';

// describe is the text beside the pointer.
function describe(state, i, event) {
  const h = state.h;
  if (i < -1) {
    const g = state.groups[-2 - i];
    return box(pair(g.name, '', css(g.color)), el('span', {class: 'muted'}, 'many allocations, too small to draw one by one'));
  }
  const k = h.header.kinds[h.kind[i]], s = h.site(h.siteOf(i));
  return box(pair(state.classified ? h.header.titles[k.category] + (k.detail ? ', ' + words(k.detail) : '') : 'Allocation', size(h.bytes[i]), css(state.groups[state.of[i]].color)),
    el('code', null, siteName(s)), s.op ? el('div', {class: 'muted'}, s.op) : '',
    h.nameOf(i) ? el('div', null, h.nameOf(i)) : '',
    state.classified && h.header.rules?.[k.rule] ? el('div', {class: 'muted'}, h.header.rules[k.rule]) : '',
    el('div', {class: 'muted'}, 'allocation ' + h.idOf(i) + ', ' + life(h, i)));
}

const MACHINERY_LINES = 8;
const frameLine = f => el('li', null, el('code', null, f.function), ' ', el('span', {class: 'muted'}, f.file + (f.line ? ':' + f.line : '')), f.fx ? el('div', {class: 'muted'}, 'node ' + f.fx) : '', f.code ? el('pre', {class: 'model'}, f.code) : '');
const frameList = frames => el('ol', {class: 'lines'}, frames.map(frameLine));

// folded is a stack with its uninteresting lines put away.
function folded(h, stack) {
  const frames = h.frames(stack), out = el('div', {class: 'frames'});
  if (!frames.length) return el('p', {class: 'muted'}, h.nodeOfStack[stack] < 0 ? 'This stack was left out to keep the page small.' : 'No stack was recorded.');
  let lines = frames.filter(f => !f.fold);
  if (!lines.length) lines = frames.slice(Math.max(0, frames.findIndex(f => !f.silent))).slice(0, MACHINERY_LINES); // not what took down the stack
  out.append(frameList(lines));
  if (lines.length < frames.length) out.append(unfold(el('details', {class: 'fold', 'data-stack': String(stack)}, el('summary', null, 'all ' + plural(frames.length, 'line') + ', with those of torch and C++')), h));
  return out;
}

// unfold lets the whole of a stack be opened.
function unfold(details, h) {
  details.addEventListener('toggle', () => { if (details.open && details.childElementCount === 1) details.append(frameList(h.frames(+details.dataset.stack))); });
  return details;
}

// forwardOf is where the forward operation ran that a backward allocation belongs to.
const forwardOf = (h, i) => h.forward && h.forward[i] ? el('div', null, el('h4', null, 'Stack of the forward operation'), folded(h, h.forward[i])) : '';

// showPin fills the panel below the timeline.
function showPin(state, panel) {
  const h = state.h, i = state.pinned;
  if (i < 0) { keepFocus(panel, el('span', {class: 'muted'}, 'No allocation pinned.')); return; }
  const k = h.header.kinds[h.kind[i]], s = h.site(h.siteOf(i)), rows = [];
  const row = (name, value) => { if (value) rows.push(el('dt', null, name), el('dd', null, value)); };
  row('Size', size(h.bytes[i]) + ' (' + count(h.bytes[i]) + ' bytes)');
  if (state.classified) row('Category', h.header.titles[k.category] + (k.detail ? ', ' + words(k.detail) : '') + (why(k) ? ' (' + why(k) + ')' : ''));
  if (state.classified && k.rule) row('Rule', k.rule + ': ' + (h.header.rules?.[k.rule] || ''));
  if (state.classified) row('Phase', words(k.phase || ''));
  row('Name', h.nameOf(i));
  row('Life', life(h, i));
  row('Made by', siteName(s));
  row('Called from', s.called_from ? s.called_from.function + ' ' + placeOf(s.called_from.file, s.called_from.line) : '');
  row('Operation', s.op);
  keepFocus(panel, el('b', null, 'Allocation ' + h.idOf(i)), ' ', el('button', {type: 'button', onclick: () => state.cursor.pin(-1, true)}, 'Unpin'), el('dl', null, rows), folded(h, h.stack[i]), forwardOf(h, i));
  say('Pinned allocation ' + h.idOf(i) + ', ' + size(h.bytes[i]) + ', ' + siteName(s));
}
