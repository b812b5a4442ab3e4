// ---- flame graphs: what stacks weigh, as a tree of lines
// weigh sums up by stack, what a mask leaves of a moment or of what a range made: its
// bytes, bytes × lifetime (in events), or count.
function weigh(h, moment, mask, measure) {
  const ranged = moment.kind === 'range', out = new Float64Array(h.header.stacks);
  for (let i = 0; i < h.length; i++) {
    if (mask && !mask[i]) continue;
    if (ranged ? h.born[i] < moment.from || h.born[i] > moment.to : !h.alive(i, moment.event)) continue;
    out[h.stack[i]] += measure === 'count' ? 1 : measure === 'life' ? h.bytes[i] * (h.died[i] - h.born[i]) : h.bytes[i];
  }
  return out;
}

// flame is the tree of weighed stacks, outermost line first or, inverted, innermost:
// nodes of {frame, value, children}; frame -1 is the root, -2 a stack without a line.
function flame(h, weights, inverted, all) {
  const root = {frame: -1, value: 0, children: new Map()}, frames = h.header.frames;
  for (let s = 0; s < weights.length; s++) {
    if (!weights[s]) continue;
    const lines = [];
    for (let n = h.nodeOfStack[s]; n > 0; n = h.parentOf[n]) if (all || !frames[h.frameOf[n]].fold) lines.push(h.frameOf[n]);
    if (!lines.length) lines.push(-2);
    if (!inverted) lines.reverse();
    let at = root;
    at.value += weights[s];
    for (const f of lines) {
      let next = at.children.get(f);
      if (!next) at.children.set(f, next = {frame: f, value: 0, children: new Map()});
      next.value += weights[s];
      at = next;
    }
  }
  return root;
}

// bars are a tree's nodes that are wide enough, as {node, depth, x, w, parent} in parts of 1.
function bars(root, least, most) {
  const out = [], walk = (node, depth, x, parent) => {
    const bar = {node, depth, x, w: root.value ? node.value / root.value : 0, parent};
    if (bar.w < least || out.length >= most) return;
    out.push(bar);
    if (depth >= 80) return;
    for (const child of Array.from(node.children.values()).sort((a, b) => b.value - a.value || a.frame - b.frame)) {
      walk(child, depth + 1, x, bar);
      x += child.value / root.value;
    }
  };
  walk(root, 0, 0, null);
  return out;
}
