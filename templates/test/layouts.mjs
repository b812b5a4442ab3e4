// layouts FILE EVENT... prints the blocks right after each event, one a line, of
// the columns in a file.
import {readFileSync} from 'node:fs';
import core from './load.mjs';

const [file, ...events] = process.argv.slice(2), h = new core.History(await core.inflate(readFileSync(file, 'utf8'))), memory = new core.Memory(h), out = [];
for (const event of events.map(Number)) {
  out.push('event ' + event);
  memory.at(event).segments.forEach((s, k) => s.blocks.forEach(b => {
    const used = b.state > 0;
    out.push([k, b.at, b.bytes, used ? h.requested[b.i] : '', ['inactive', 'active_allocated', 'active_pending_free'][b.state], used ? h.idOf(b.i) : '', used ? h.header.categories[h.category[h.kind[b.i]]] : ''].join(' '));
  }));
}
console.log(out.join('\n'));
