// Each word counts where it stands: most in a heading, less in its document's title, least in the beginning of the text. What
// has all words comes before what has some.
const field = document.getElementById('find'), list = document.getElementById('found');
field.addEventListener('input', () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const score = e => {
    let sum = 0, all = true;
    for (const w of words) {
      const one = (e.t.toLowerCase().includes(w) ? 4 : 0) + (e.d.toLowerCase().includes(w) ? 2 : 0) + (e.w.toLowerCase().includes(w) ? 1 : 0);
      sum += one;
      all &&= one > 0;
    }
    return all ? sum + 100 : sum;
  };
  const found = words.length ? entries.map(e => [score(e), e]).filter(([s]) => s).sort((a, b) => b[0] - a[0]).slice(0, 12) : [];
  list.replaceChildren(...found.map(([, e]) => {
    const item = document.createElement('li'), link = document.createElement('a'), where = document.createElement('span');
    link.href = e.u;
    link.textContent = e.t;
    where.className = 'quiet';
    where.textContent = e.t === e.d ? '' : ' ' + e.d;
    item.append(link, where);
    return item;
  }));
  if (words.length && !found.length) list.append(Object.assign(document.createElement('li'), {textContent: 'Nothing found.'}));
});
document.documentElement.dataset.ready = '1';
