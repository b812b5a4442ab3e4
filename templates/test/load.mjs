// The parts of the page's script that know no document: those numbered 05 and 2x.
import {readdirSync, readFileSync} from 'node:fs';

const folder = new URL('../js/', import.meta.url);
const text = readdirSync(folder).filter(n => /^(05|2\d)-/.test(n)).sort().map(n => readFileSync(new URL(n, folder), 'utf8')).join('');
const names = [...text.matchAll(/^(?:class|function|const) (\w+)/gm)].map(m => m[1]);
export default new Function(text + 'return {' + names + '}')();
