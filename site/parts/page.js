'use strict';
const $ = id => document.getElementById(id);
const element = (name, set, ...inside) => { const e = Object.assign(document.createElement(name), set); e.append(...inside); return e; };
const embedded = id => $('part-' + id)?.textContent;
const mark = name => performance.mark(name);

// The engine is fetched when somebody reaches for a file. Then the page gives up its network for good: a second policy can only
// forbid more. A worker that is made of the page's own text inherits it, one with an address would have a policy of its own.
async function unpack(bytes) { // a server may have taken the compression off
  const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const stream = new Blob([bytes]).stream();
  return new Response(packed ? stream.pipeThrough(new DecompressionStream('gzip')) : stream, {headers: {'Content-Type': 'application/wasm'}});
}
async function fetched(name) {
  const r = await fetch(name).catch(e => { throw new Error(`${name}: ${e.message}`); });
  if (!r.ok) throw new Error(`${name}: ${r.status} ${r.statusText}`);
  return r;
}
const text = async name => embedded(name) ?? (await fetched(name + '.js')).text();
function base128(written) { // a letter is seven bits, but for null, the carriage return and some <; the number of bytes stands in front
  const from = written.indexOf(' ') + 1, out = new Uint8Array(+written.slice(0, from));
  for (let i = from, to = 0, n = 0, bits = 0; i < written.length; i++) {
    const c = written.charCodeAt(i);
    n = n << 7 | (c < 128 ? c : [0, 13, 60][c - 192]);
    if ((bits += 7) >= 8) out[to++] = n >> (bits -= 8);
    n &= (1 << bits) - 1;
  }
  return out;
}
async function packed(name) {
  const written = embedded(name);
  if (written) return base128(written);
  return new Uint8Array(await (await fetched(name)).arrayBuffer());
}
let loading;
function load() {
  loading ||= Promise.all([packed('engine.bin').then(unpack).then(r => WebAssembly.compileStreaming(r)), packed('sample.bin'),
    text('wasm_exec'), text('worker'), text('digest'), askedFile()]).then(([module, sample, exec, worker, digest]) => {
    const policy = document.querySelector('meta[http-equiv=Content-Security-Policy]').content;
    document.head.append(element('meta', {httpEquiv: 'Content-Security-Policy',
      content: policy.replace(/connect-src [^;]*/, "connect-src 'none'").replaceAll("'self'", '')}));
    $('lock').classList.add('on');
    $('lock-text').textContent = 'The page has given up its network: what you open is read in this tab and can\'t leave it.';
    mark('locked');
    return {module, sample, code: [exec, '\nconst digestCode = ', JSON.stringify(digest), ';\n', worker]};
  }).catch(e => { loading = null; fail('The engine could not be loaded: ' + e.message); throw e; });
  return loading;
}

// A worker is one engine. Memory of an engine never shrinks: after a large recording, a failure or a stop there is a new one.
let worker, busy, warm;
async function engine(idle) {
  const {module, sample, code} = await load();
  if (worker) return worker;
  const made = worker = new Worker(URL.createObjectURL(new Blob(code, {type: 'text/javascript'})));
  made.onmessage = ({data}) => {
    if (made !== worker) return;
    if (data.progress !== undefined) progress(data.progress);
    else if (data.failed) over(made, data.failed);
    else if (data.answer && busy) { const done = busy; busy = null; window.engineMemory = data.memory; done(data); }
    else if (data.ready) mark('ready');
  };
  made.onerror = e => { e.preventDefault(); over(made, e.message); };
  made.postMessage({load: module});
  if (idle && !warm) { // what was compiled in haste is compiled well while the visitor looks for a file
    warm = true;
    made.postMessage({files: [{path: 'sample.pickle.gz', file: new File([sample], 'sample.pickle.gz')}], silent: true,
      request: {inputs: ['sample.pickle.gz'], formats: ['html', 'md', 'json']}});
  }
  return made;
}
function over(which, why) {
  if (which !== worker) return;
  end();
  const done = busy;
  busy = null;
  if (done) done({answer: {error: 'The engine ended: ' + why,
    advice: 'A tab has 4 GB at most, and often less. `vramscope analyze` on this machine reads larger recordings.'}, parts: {}});
}
function end() { worker?.terminate(); worker = null; }
const large = 256 << 20;
function ask(files, request) {
  if (busy) { busy = null; end(); } // who asks anew doesn't wait for the last answer
  return engine().then(w => new Promise(done => {
    busy = done;
    w.postMessage({files, request});
  })).then(data => {
    if (files.reduce((n, f) => n + f.file.size, 0) > large) end();
    return data;
  });
}

// State.
let urls = [], run = 0;
function say(words, failed) { $('state').textContent = words; $('state').classList.toggle('failed', !!failed); }
function fail(words, advice) { $('progress').hidden = true; say(advice ? words + '\n' + advice : words, true); }
function progress(share) {
  $('bar').value = share;
  if (share >= 1) $('bar').removeAttribute('value');
}
function begin(words) {
  $('progress').hidden = false; $('bar').value = 0;
  for (const id of ['result', 'table', 'below']) $(id).hidden = true;
  $('offers').replaceChildren();
  say(words);
  return ++run;
}
$('stop').onclick = () => { run++; busy = null; end(); $('progress').hidden = true; say('Stopped.'); $('below').hidden = false; engine().catch(() => {}); };
addEventListener('pagehide', () => urls.forEach(URL.revokeObjectURL));

const button = (words, onclick, set) => element('button', {type: 'button', onclick, textContent: words, ...set});
const types = {html: 'text/html;charset=utf-8', md: 'text/markdown;charset=utf-8', json: 'application/json'};
const called = {html: 'page', md: 'ticket', json: 'JSON'};
function show({answer, parts}, name) {
  $('progress').hidden = true;
  if (answer.error) return fail(answer.error, answer.advice);
  say(answer.verdict);
  $('result').hidden = false;
  $('short').textContent = answer.text;
  const at = {};
  for (const [format, blob] of Object.entries(parts)) urls.push(at[format] = URL.createObjectURL(new Blob([blob], {type: types[format]})));
  const all = answer.all && button('Everything as text', () => {
    const more = $('short').textContent === answer.text;
    $('short').textContent = more ? answer.all : answer.text;
    all.textContent = more ? 'Short answer' : 'Everything as text';
  });
  const copy = button('Copy ticket', async () => {
    try { await navigator.clipboard.writeText(await parts.md.text()); copy.textContent = 'Copied'; } catch { copy.textContent = 'Not allowed here'; }
    setTimeout(() => { copy.textContent = 'Copy ticket'; }, 2000);
  });
  $('get').replaceChildren(element('a', {className: 'button main', href: at.html, target: '_blank', rel: 'noopener', textContent: 'Open the page'}),
    copy, ...Object.entries(at).map(([format, href]) => element('a', {className: 'button', href, download: `${name}.${format}`,
      textContent: 'Download ' + called[format]})), ...all ? [all] : []);
  $('passed').replaceChildren(...(answer.passed_over || []).map(why => element('li', {textContent: why + ': passed over'})));
  $('page').src = at.html;
  mark('shown');
}
const base = path => path.split('/').pop().replace(/(\.pickle|\.pkl)?(\.(gz|zst|zip|txt|log|json))?$/, '') || 'report';

// Reading.
const formats = ['html', 'md', 'json'];
async function single(files, inputs, options = {}) {
  const mine = begin(`Reading ${inputs.slice(0, 3).join(', ')}${inputs.length > 3 ? ` and ${inputs.length - 3} more` : ''} …`);
  const data = await ask(files, {inputs, formats, ...options});
  if (mine !== run) return;
  show(data, base(inputs[0]));
  if (data.answer.offer === 'partial') $('offers').append(button('Read what is there', () => single(files, inputs, {...options, partial: true}), {className: 'main'}));
}
async function several(files, groups) {
  const mine = begin(`Reading ${groups.length} runs …`), body = element('tbody'), count = element('p', {className: 'quiet'});
  $('table').replaceChildren(count, element('div', {className: 'scroll'}, element('table', {},
    element('thead', {}, element('tr', {}, ...['Run', 'What filled the GPU', 'Report'].map(textContent => element('th', {textContent, scope: 'col'})))), body)));
  $('table').hidden = false;
  for (const [i, group] of groups.entries()) {
    say(`Reading ${i + 1} of ${groups.length}: ${group.name} …`);
    const data = await ask(files, {inputs: group.inputs, formats});
    if (mine !== run) return;
    const failed = data.answer.error;
    body.append(element('tr', {}, element('th', {scope: 'row', textContent: group.name}), element('td', {textContent: failed || data.answer.verdict}),
      element('td', {}, ...failed ? ['none'] : [button('Show', () => { show(data, base(group.name)); $('result').scrollIntoView(); })])));
    count.textContent = `${i + 1} of ${groups.length} read`;
  }
  $('progress').hidden = true;
  say(`${groups.length} runs read.`);
  mark('shown');
}
const alone = g => g.inputs.length - (g.beside || []).length === 1 && (g.beside || []).length < 2;
const recording = g => g.inputs.find(p => !(g.beside || []).includes(p));
const most = 10000; // files
async function read(list) {
  if (list.length > most) return fail('More than 10,000 files.', 'Give a folder with fewer, or run `vramscope batch FOLDER` on this machine.');
  const files = named(list);
  if (!files.length) return fail('There is no file in what was dropped.');
  await load();
  const mine = begin('Looking at the names …');
  const {answer} = await ask(files, {plan: files.map(f => f.path), inputs: []});
  if (mine !== run) return;
  const groups = answer.plan, inputs = groups.length === 1 ? groups[0].inputs : files.map(f => f.path);
  const pair = groups.length === 2 && groups.every(alone) && groups.map(recording);
  const ways = {'Compare the two': pair && (() => single(files, pair, {compare: true})),
    'Each on its own': groups.length > 1 && (() => several(files, groups)),
    'All as one run': groups.length > 1 && (() => single(files, inputs))};
  const offered = Object.entries(ways).filter(([, f]) => f);
  const go = async ([chosen, f]) => {
    await f();
    if (offered.length > 1) $('offers').append(...offered.filter(([w]) => w !== chosen).map(way => button(way[0], () => go(way))));
  };
  return offered.length ? go(offered[0]) : single(files, inputs);
}
// Two files of one name come from different folders; "-" is standard input to the engine.
function named(list) {
  const seen = new Set();
  return list.map(({path, file}) => {
    path = (path || file.name).replace(/^\/+/, '').replace(/^-/, './-');
    for (let n = 2, of = path; seen.has(path); n++) path = n + '/' + of;
    seen.add(path);
    return {path, file};
  });
}

// A dropped folder is one entry that must be asked for before anything is waited for.
async function walk(entry, to, deep = 0) {
  if (to.length > most || deep > 20) return;
  if (entry.isFile) {
    to.push({path: entry.fullPath, file: await new Promise((done, no) => entry.file(done, no))});
    return;
  }
  const reader = entry.createReader();
  for (let some; (some = await new Promise((done, no) => reader.readEntries(done, no))).length;) {
    for (const e of some) await walk(e, to, deep + 1);
  }
}
async function dropped(transfer) {
  const entries = [...transfer.items].filter(i => i.kind === 'file').map(i => i.webkitGetAsEntry?.() || i.getAsFile()).filter(Boolean);
  const found = [];
  for (const e of entries) e.isFile === undefined ? found.push({file: e}) : await walk(e, found);
  if (!entries.length && transfer.getData('text/plain')) found.push({file: new File([transfer.getData('text/plain')], 'pasted.log')});
  return found;
}
const guarded = promise => promise.catch(e => fail(e.message));
for (const id of ['files', 'folder']) {
  $(id).onchange = e => {
    const list = [...e.target.files].map(file => ({path: file.webkitRelativePath, file}));
    e.target.value = ''; // so that the same file can be chosen again
    guarded(read(list));
  };
}
$('paste-open').onclick = () => {
  const opened = $('paste-part').hidden;
  $('paste-part').hidden = !opened;
  $('paste-open').ariaExpanded = opened;
  if (opened) $('paste').focus();
};
$('inputs').onsubmit = e => { e.preventDefault(); guarded(read([{file: new File([$('paste').value], 'pasted.log')}])); };
$('sample').onclick = () => guarded(load().then(({sample}) => single([{path: 'sample.pickle.gz', file: new File([sample], 'sample.pickle.gz')}], ['sample.pickle.gz'])));
addEventListener('paste', e => { if (e.clipboardData.files.length) { e.preventDefault(); guarded(read([...e.clipboardData.files].map(file => ({file})))); } });
for (const type of ['dragenter', 'dragover', 'dragleave', 'drop']) {
  addEventListener(type, e => {
    e.preventDefault();
    if (type === 'dragenter') ahead();
    $('zone').classList.toggle('over', type === 'dragenter' || type === 'dragover');
    if (type === 'drop') guarded(dropped(e.dataTransfer).then(read));
  });
}
// Who comes near the zone will bring a file.
const ahead = () => { if (!navigator.connection?.saveData) engine(true).catch(() => {}); };
for (const type of ['pointerenter', 'focusin']) $('zone').addEventListener(type, ahead, {once: true});

// ?open=PATH is a file of this site; of another one only after a click, on a page of its own that may ask it.
let wanted;
async function askedFile() {
  if (!(wanted instanceof URL)) return;
  const url = wanted;
  wanted = null; // once: what isn't there mustn't keep others from being read
  const r = await fetched(url);
  wanted = {file: new File([await r.blob()], decodeURIComponent(url.pathname.split('/').pop()) || 'file')};
}
function asked() {
  const path = new URLSearchParams(location.search).get('open');
  if (!path) return;
  let url;
  try { url = new URL(path, location.href); } catch { return fail(path + ': not an address'); }
  if (!/^https?:$/.test(url.protocol)) return fail(url.href + ': only http and https');
  const get = () => { wanted = url; guarded(load().then(() => read([wanted]))); };
  if (url.origin === location.origin) return get();
  $('asked').hidden = false;
  if (document.documentElement.dataset.remote === undefined) {
    $('asked').append(`The file lies at ${url.host}. `, element('a', {className: 'button', textContent: `Read it from ${url.host}`,
      href: 'remote.html?open=' + encodeURIComponent(url.href)}));
  } else {
    $('asked').append(button(`Fetch ${url.href}`, get, {className: 'main'}), ` ${url.host} sees that you fetch it, and nothing of the answer.`);
  }
}
$('licenses')?.addEventListener('toggle', async e => {
  e.target.querySelector('pre').textContent = await (await unpack(base128(embedded('licenses')))).text();
}, {once: true});
asked();
if ('serviceWorker' in navigator && /^http/.test(location.protocol)) navigator.serviceWorker.register('sw.js').catch(() => {});
document.documentElement.dataset.ready = '1';
