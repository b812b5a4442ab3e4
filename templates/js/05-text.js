// ---- numbers and names in words
const clamp = (x, a, b) => Math.max(a, Math.min(b, x));

const UNITS = [[1073741824, 'GiB'], [1048576, 'MiB'], [1024, 'KiB']];
function size(n) {
  for (const [b, name] of UNITS) if (Math.abs(n) >= b) return (n / b).toFixed(2) + ' ' + name;
  return n + ' B';
}
// short is a size with three significant digits, as units.Size writes it.
function short(n) {
  let value = Math.abs(n), unit = 'B';
  for (const next of ['KiB', 'MiB', 'GiB', 'TiB']) { if (value < 999.5) break; value /= 1024; unit = next; }
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return (n < 0 ? '-' : '') + +value.toFixed(digits) + ' ' + unit;
}
const count = n => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
const plural = (n, noun) => count(n) + ' ' + noun + (n === 1 ? '' : 's');
const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + ' %' : '';
const words = s => s.replace(/_/g, ' ');
function duration(us) {
  const a = Math.abs(us);
  return a >= 1e6 ? (us / 1e6).toFixed(a >= 1e7 ? 2 : 3) + ' s' : a >= 1e3 ? (us / 1e3).toFixed(2) + ' ms' : Math.round(us) + ' µs';
}
// niceStep is a distance of ticks, in bytes, for about so many of them.
function niceStep(most, ticks) {
  const unit = (UNITS.find(u => most >= u[0]) || [1])[0], raw = most / unit / ticks, base = Math.pow(10, Math.floor(Math.log10(raw)));
  return unit * base * [1, 2, 2.5, 5, 10].find(m => m * base >= raw * 0.999);
}
// niceCount is a round number not below another.
function niceCount(raw) {
  const base = Math.pow(10, Math.floor(Math.log10(raw)));
  return base * [1, 2, 5, 10].find(m => m * base >= raw * 0.999);
}
function shortFile(file) {
  const parts = file.replace(/\\/g, '/').split('/');
  return parts.slice(-2).join('/');
}
const placeOf = (file, line) => !file || file === '??' ? '' : shortFile(file) + (line ? ':' + line : '');

const hex = address => '0x' + BigInt(address).toString(16);
