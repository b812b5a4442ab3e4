// ---- the table and the map of a moment
const MOST_ROWS = 200, TREE_LIMIT = 24;

class Table {
  constructor(state, part) {
    this.s = state;
    this.part = part;
    this.table = part.querySelector('table.sites');
    this.by = 'bytes';
    this.down = true;
    this.everything = false;
    if (!this.table) return;
    this.head();
    state.listeners.push(what => { if (what !== 'pin' && what !== 'view') this.update(); });
    this.ask = view(this.table, () => this.fill());
    this.update();
    this.fill();
  }

  head() {
    const row = this.table.tHead.rows[0];
    this.growth = el('th', {'data-sort': 'growth', hidden: ''}, 'Growth in the range');
    row.insertBefore(this.growth, row.lastElementChild);
    for (const th of row.cells) {
      const b = el('button', {type: 'button'}, th.textContent);
      th.replaceChildren(b);
      th.addEventListener('click', () => {
        const by = th.dataset.sort;
        this.down = by === this.by ? !this.down : ['blocks', 'bytes', 'share', 'growth'].includes(by);
        this.by = by;
        this.fill();
      });
    }
  }

  update() {
    this.rows = this.s.rows();
    this.sum = this.rows.reduce((n, r) => n + r.bytes, 0);
    const more = this.part.querySelector('.more');
    if (more) more.remove();
    this.title();
    this.ask();
    if (this.askTree) this.askTree();
  }

  title() {
    const s = this.s, m = s.moment, h = s.h, blocks = this.rows.reduce((n, r) => n + (r.blocks || 0), 0), rest = this.rows.reduce((n, r) => n + (r.blocks === null ? r.bytes : 0), 0), t = h.time(m.event);
    const where = m.event < 0 ? 'before the first event' : 'at event ' + count(m.event) + (t === null ? '' : ' (' + duration(t) + ')');
    const title = {peak: h.events ? 'Allocated at the peak' : 'Allocated when the snapshot was taken', end: 'Allocated at the end', oom: 'Allocated when the request failed', event: 'Allocated ' + where,
      range: 'Allocated between events ' + count(m.from || 0) + ' and ' + count(m.to || 0)}[m.kind];
    this.part.querySelector('[data-role=table-title]').textContent = title;
    const hidden = (s.shown.every((x, i) => x || !s.used[i]) ? '' : ' Filtered by the choice above the timeline.') + (s.found && s.found.mask ? ' Only what the search finds.' : '');
    this.part.querySelector('[data-role=table-note]').textContent = size(this.sum) + (rest ? ': ' : ' in ') + plural(blocks, 'block') + (rest ? ' and ' + size(rest) + ' in smaller ones' : '') + (h.events ? ', ' + where : '') + (m.kind === 'range' ? ', the fullest of the range' : '') + '.' + hidden;
    say(title + ': ' + size(this.sum));
  }

  sorted() {
    const key = this.by === 'share' ? 'bytes' : this.by, sign = this.down ? -1 : 1;
    const field = key === 'category' ? 'title' : key;
    return this.rows
      .filter(r => r.bytes !== 0 || r.growth !== 0)
      .sort((a, b) => { const x = a[field], y = b[field]; return sign * (typeof x === 'string' ? (x < y ? -1 : x > y ? 1 : 0) : (x || 0) - (y || 0)) || b.bytes - a.bytes; });
  }

  fill() {
    const rows = this.sorted(), body = this.table.tBodies[0], ranged = this.s.moment.kind === 'range';
    this.growth.hidden = !ranged;
    for (const th of this.table.tHead.rows[0].cells) {
      if (th.dataset.sort === this.by) th.setAttribute('aria-sort', this.down ? 'descending' : 'ascending'); else th.removeAttribute('aria-sort');
    }
    const shown = this.everything ? rows : rows.slice(0, MOST_ROWS);
    body.replaceChildren(...shown.map(r => this.row(r, ranged)));
    const found = this.part.querySelector('[data-role=rows]');
    if (found) {
      const bytes = rows.reduce((n, r) => n + r.bytes, 0);
      keepFocus(found, plural(rows.length, 'row') + ', ' + size(bytes) + ' ', rows.length > shown.length ? el('button', {type: 'button', onclick: () => { this.everything = true; this.fill(); }}, 'Show all') : '');
    }
  }

  row(r, ranged) {
    const code = (text, title) => el('code', title ? {title} : null, breakable(text));
    const tr = el('tr', null,
      el('td', {class: 'left'}, r.stacks.size ? el('button', {type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-label': 'Stacks of ' + r.name, onclick: e => this.open(tr, r, e.currentTarget)}, '+') : '', ' ', code(r.function, r.function)),
      el('td', {class: 'left place'}, code(r.place, r.file)), el('td', {class: 'left', 'data-sort': 'from'}, code(r.from, r.fromFile)), el('td', {class: 'left', 'data-sort': 'op'}, code(r.op, r.op)),
      this.table.tHead.querySelector('[data-sort=category]') ? el('td', {class: 'left kind', title: r.title}, el('span', {class: 'dot', style: {background: css(r.color)}}), r.title) : '',
      el('td', {'data-sort': 'blocks'}, r.blocks === null ? '' : count(r.blocks)), el('td', {class: 'bytes'}, size(r.bytes)),
      ranged ? el('td', {class: 'growth'}, (r.growth > 0 ? '+' : '') + size(r.growth)) : '',
      el('td', {class: 'left share'}, el('span', {class: 'bar', style: {width: (this.sum > 0 ? 100 * r.bytes / this.sum : 0).toFixed(1) + 'px', background: css(r.color)}}), percent(r.bytes, this.sum)));
    return tr;
  }

  // open shows the stacks of a row, the largest first.
  open(tr, r, button) {
    const next = tr.nextElementSibling, was = button.getAttribute('aria-expanded') === 'true';
    button.setAttribute('aria-expanded', String(!was));
    button.textContent = was ? '+' : '−';
    if (was) { if (next && next.dataset.role === 'stacks') next.remove(); return; }
    const stacks = Array.from(r.stacks).sort((a, b) => b[1] - a[1] || a[0] - b[0]), cell = el('td', {class: 'left', colspan: String(tr.cells.length)});
    stacks.slice(0, 5).forEach(([stack, bytes]) => cell.append(el('b', null, size(bytes)), folded(this.s.h, stack)));
    if (stacks.length > 5) cell.append(el('p', {class: 'muted'}, 'and ' + plural(stacks.length - 5, 'more stack')));
    tr.after(el('tr', {'data-role': 'stacks'}, cell));
  }

  treeData() {
    const groups = new Map(), others = css('--s8');
    for (const r of this.rows.filter(r => r.bytes > 0).sort((a, b) => b.bytes - a.bytes)) {
      let g = groups.get(r.category);
      const color = css(r.color), label = {color: onColor(color)};
      if (!g) groups.set(r.category, g = {name: r.title, value: 0, color, label, children: [], rest: 0});
      g.value += r.bytes;
      if (g.children.length < TREE_LIMIT) g.children.push({name: r.name, value: r.bytes, label, itemStyle: {color}}); else g.rest += r.bytes;
    }
    return Array.from(groups.values(), g => {
      if (g.rest) g.children.push({name: 'others', value: g.rest, label: {color: onColor(others)}, itemStyle: {color: others}});
      return {name: g.name, value: g.value, upperLabel: g.label, itemStyle: this.s.classified ? {color: g.color, borderColor: g.color} : {color: css('--c-all')}, children: g.children};
    });
  }
  prepareTree(o) {
    const s = o.series[0], card = css('--card'), classified = this.s.classified;
    const data = this.treeData();
    Object.assign(s, {data: classified ? data : data.flatMap(g => g.children), breadcrumb: {show: false}, roam: false, nodeClick: false, left: 0, right: 0, top: 0, bottom: 0, visibleMin: 40,
      label: {show: true, formatter: p => p.name + '\n' + size(p.value), fontSize: 11.5, lineHeight: 15, overflow: 'truncate'},
      upperLabel: {show: classified, height: 22, fontWeight: 600, formatter: p => p.name + '   ' + size(p.value)},
      itemStyle: {borderColor: card, borderWidth: 1, gapWidth: 1},
      levels: classified ? [{itemStyle: {borderWidth: 0, gapWidth: 4}, upperLabel: {show: false}}, {itemStyle: {borderWidth: 3, gapWidth: 2}}, {itemStyle: {gapWidth: 1}}] : [{itemStyle: {borderWidth: 0, gapWidth: 2}}]});
  }
  drawTree() { const o = {series: [{}]}; this.prepareTree(o); this.tree.chart()?.setOption({animation: false, series: [{data: o.series[0].data}]}); }
}
