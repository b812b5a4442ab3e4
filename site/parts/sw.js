// Keeps the start page, the engine and the documents, so that they work without a network.
'use strict';
const name = 'vramscope-{{.Version}}', files = ['./', ...{{.Files}}]; // a visitor asks for the folder, not for index.html
// A page that came by a redirection, as some servers make them of index.html, may not answer a visit.
const plain = r => r.redirected ? r.blob().then(b => new Response(b, {headers: r.headers})) : r;
const kept = async (cache, file) => {
  const r = await fetch(file);
  if (!r.ok) throw new Error(`${file}: ${r.status}`);
  return cache.put(file, await plain(r));
};
self.addEventListener('install', e => e.waitUntil(caches.open(name).then(c => Promise.all(files.map(f => kept(c, f)))).then(() => self.skipWaiting())));
self.addEventListener('activate', e => e.waitUntil(caches.keys().then(names => Promise.all(names.filter(k => k.startsWith('vramscope-') &&
  k !== name).map(k => caches.delete(k)))).then(() => self.clients.claim())));
self.addEventListener('fetch', e => {
  if (e.request.method === 'GET' && new URL(e.request.url).origin === location.origin) {
    e.respondWith(caches.open(name).then(c => c.match(e.request, {ignoreSearch: true})).then(r => r || fetch(e.request)));
  }
});
