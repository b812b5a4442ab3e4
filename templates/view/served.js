// ---- a page of a server: its columns, and the other files
// No page that stands alone has this part, so none can ask for anything.
const RANGE = 4 << 20;

// download asks for columns in ranges, and says how far it is.
async function download({source, bytes}) {
  const out = new Uint8Array(bytes), parts = Math.ceil(bytes / RANGE);
  for (let i = 0; i < parts; i++) {
    const from = i * RANGE, to = Math.min(bytes, from + RANGE) - 1;
    const answer = await fetch(source, {headers: {Range: 'bytes=' + from + '-' + to}});
    if (answer.status !== 206) throw new Error(source + ': ' + answer.status);
    out.set(new Uint8Array(await answer.arrayBuffer()), from);
    if (parts > 1) tellFiles('Reading ' + short(to + 1) + ' of ' + short(bytes));
  }
  if (parts > 1) tellFiles('');
  return new Response(new Blob([out]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer().then(b => new Uint8Array(b));
}

let filesNote = null;
function tellFiles(text) {
  if (filesNote) filesNote.textContent = text;
}

// upload hands a file over to the server, and goes to the page that it makes of it.
async function upload(file) {
  tellFiles('Reading ' + file.name + ' (' + short(file.size) + ')…');
  try {
    const answer = await fetch('../upload?name=' + encodeURIComponent(file.name), {method: 'POST', body: file});
    const said = await answer.json();
    if (said.page) location.href = '../' + said.page;
    else tellFiles(file.name + ': ' + said.error);
  } catch (e) { tellFiles(file.name + ': the server is gone, or the file is too large'); }
}

async function files() {
  const {pages, most} = await (await fetch('../files')).json(), here = location.pathname.split('/').slice(-2)[0];
  const choose = el('input', {type: 'file', hidden: '', onchange: e => { if (e.target.files[0]) upload(e.target.files[0]); }});
  filesNote = el('span', {class: 'muted', role: 'status'});
  document.querySelector('header.top').after(el('nav', {class: 'files', 'aria-label': 'Files'},
    pages.map(p => el('a', {href: '../' + p.page, title: p.name, 'aria-current': p.page === here + '/' ? 'page' : null}, p.name)),
    choose, el('button', {type: 'button', onclick: () => choose.click(), title: 'Up to ' + short(most) + '; or drop a file anywhere on this page'}, 'Open a file…'), filesNote));
  const over = on => root.classList.toggle('dropping', on);
  const carries = e => e.dataTransfer && Array.from(e.dataTransfer.types).includes('Files');
  window.addEventListener('dragover', e => { if (carries(e)) { e.preventDefault(); over(true); } });
  window.addEventListener('dragleave', e => { if (!e.relatedTarget) over(false); });
  window.addEventListener('drop', e => { if (carries(e)) { e.preventDefault(); over(false); if (e.dataTransfer.files[0]) upload(e.dataTransfer.files[0]); } });
}
files().catch(e => console.error(e));
