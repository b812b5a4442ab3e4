// One engine and a file system of what was dropped, for Go's package os. wasm_exec.js and digestCode stand in front of it.
'use strict';
const files = new Map(); // path -> File
const opened = new Map(); // descriptor -> {path, file, at}
let next = 100, read = 0, total = 1, told = 0, silent = false;

// What a browser hands over costs milliseconds each time, however little: blocks are read ahead, and the last few kept.
const size = 8 << 20, kept = 6, ahead = 2;
let blocks = new Map(), reached = new Map();
function block(file, i) {
  let of = blocks.get(file);
  if (!of) blocks.set(file, of = new Map());
  const b = of.get(i) || {};
  b.promise ||= file.slice(i * size, Math.min(file.size, (i + 1) * size)).arrayBuffer().then(x => { b.bytes = new Uint8Array(x); return b.bytes; });
  b.promise.catch(() => {}); // who waits for it hears of it
  of.delete(i);
  of.set(i, b); // the last used is last
  for (const old of of.keys()) { if (of.size <= kept) break; of.delete(old); }
  return b;
}

const failure = code => Object.assign(new Error(code), {code});
const clean = p => p.replace(/^(\.\/+)+/, '').replace(/^\/+/, '').replace(/\/+$/, '').replace(/^\.$/, '');
const folders = new Set();
function place(path, file) {
  files.set(path, file);
  for (let i = path.indexOf('/'); i >= 0; i = path.indexOf('/', i + 1)) folders.add(path.slice(0, i));
}
function stat(path) {
  const p = clean(path), f = files.get(p), dir = !f && (p === '' || folders.has(p));
  if (!f && !dir) return null;
  return {dev: 1, ino: 1, mode: dir ? 0o40755 : 0o100644, nlink: 1, uid: 0, gid: 0, rdev: 0, size: f ? f.size : 0, blksize: 4096, blocks: 0,
    atimeMs: 0, mtimeMs: f ? f.lastModified : 0, ctimeMs: 0, isDirectory: () => dir};
}
const printed = [], decoder = new TextDecoder();
globalThis.fs = {
  constants: {O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_TRUNC: 512, O_APPEND: 1024, O_EXCL: 128, O_DIRECTORY: 65536},
  writeSync(fd, bytes) { printed.push(decoder.decode(bytes)); return bytes.length; },
  write(fd, bytes, offset, length, position, done) { done(null, this.writeSync(fd, bytes)); },
  open(path, flags, mode, done) {
    if (flags & 3) return done(failure('EROFS'));
    if (!stat(path)) return done(failure('ENOENT'));
    opened.set(next, {path, file: files.get(clean(path)), at: 0});
    done(null, next++);
  },
  close(fd, done) { opened.delete(fd); done(null); },
  fstat(fd, done) { const o = opened.get(fd); o ? done(null, stat(o.path)) : done(failure('EBADF')); },
  stat(path, done) { const s = stat(path); s ? done(null, s) : done(failure('ENOENT')); },
  lstat(path, done) { this.stat(path, done); },
  readdir(path, done) {
    if (!stat(path)?.isDirectory()) return done(failure('ENOENT'));
    const below = clean(path) && clean(path) + '/';
    done(null, [...new Set([...files.keys()].filter(f => f.startsWith(below)).map(f => f.slice(below.length).split('/')[0]))].sort());
  },
  read(fd, buffer, offset, length, position, done) {
    const o = opened.get(fd);
    if (!o?.file) return done(failure(o ? 'EISDIR' : 'EBADF'));
    const at = position === null ? o.at : Number(position);
    if (at >= o.file.size) return done(null, 0);
    const give = bytes => {
      const from = at % size, n = Math.min(length, bytes.length - from); // short reads are allowed
      if (n <= 0) return done(null, 0);
      buffer.set(bytes.subarray(from, from + n), offset);
      if (position === null) o.at = at + n;
      moved(o.file, at + n);
      done(null, n);
    };
    const i = Math.floor(at / size), now = block(o.file, i);
    for (let k = 1; k <= ahead && (i + k) * size < o.file.size; k++) block(o.file, i + k); // while the engine works
    now.bytes ? give(now.bytes) : now.promise.then(give, () => done(failure('EIO'))); // it was changed or removed since
  },
};
for (const name of ['chmod', 'chown', 'fchmod', 'fchown', 'fsync', 'ftruncate', 'lchown', 'link', 'mkdir', 'readlink', 'rename', 'rmdir', 'symlink',
  'truncate', 'unlink', 'utimes']) {
  fs[name] = (...args) => args.at(-1)(failure('ENOSYS'));
}
globalThis.process.cwd = () => '/';

// How far files have been reached is what counts: Go reads by position, and some parts twice.
function moved(file, to) {
  const before = reached.get(file) || 0;
  if (to <= before) return;
  read += to - before;
  reached.set(file, to);
  const now = performance.now();
  if (!silent && (now - told > 50 || read >= total)) { told = now; postMessage({progress: Math.min(1, read / total)}); }
}

// Digests are worked out by the browser on another core. What is larger would be held in memory whole.
const largest = 256 << 20, wanted = new Map();
let digester;
globalThis.vramscopeDigest = (path, bytes, done) => {
  const file = files.get(clean(path));
  if (!file || file.size > largest || !globalThis.crypto?.subtle) return done('');
  if (!digester) {
    digester = new Worker(URL.createObjectURL(new Blob([digestCode], {type: 'text/javascript'})));
    digester.onmessage = ({data: {id, sum}}) => {
      wanted.get(id)(sum);
      wanted.delete(id);
      if (!wanted.size) { digester.terminate(); digester = null; } // it holds the file
    };
    digester.onerror = () => { for (const f of wanted.values()) f(''); wanted.clear(); digester = null; };
  }
  const id = next++;
  wanted.set(id, done);
  digester.postMessage({id, file});
};

let begun;
const engine = new Promise(done => { globalThis.vramscopeReady = done; });
async function load(module) {
  const go = new Go(), instance = await WebAssembly.instantiate(module, go.importObject);
  begun = instance.exports.mem;
  go.run(instance).then(() => postMessage({failed: printed.join('').split('\n')[0].slice(0, 300) || 'it stopped'}),
    e => postMessage({failed: String(e)}));
  await engine;
  postMessage({ready: true});
}

let turn = Promise.resolve();
onmessage = ({data}) => {
  if (data.load) { load(data.load).catch(e => postMessage({failed: String(e)})); return; }
  turn = turn.then(() => engine).then(() => new Promise(done => {
    files.clear(); folders.clear(); blocks = new Map(); reached = new Map(); printed.length = 0;
    total = read = 0;
    silent = !!data.silent;
    for (const {path, file} of data.files) { place(clean(path), file); total += file.size; }
    const parts = {};
    globalThis.vramscopeRun(JSON.stringify(data.request), (format, bytes) => { parts[format] = new Blob([bytes]); }, out => {
      blocks = new Map();
      if (!silent) postMessage({answer: JSON.parse(out), parts, memory: begun.buffer.byteLength});
      done();
    });
  }));
};
