// Figures of some goes each, in milliseconds up to the frame after: the least, which
// other work on the machine disturbs least, and the median; script is the least
// without drawing.
(async () => {
	const d = vramscope[+document.querySelector('main').dataset.main], s = d.state, h = s.h, t = d.timeline, out = {};
	const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
	const least = list => Math.round(10 * Math.min(...list)) / 10, median = list => Math.round(10 * list.sort((a, b) => a - b)[list.length >> 1]) / 10;
	const time = async (goes, work) => {
		const took = [];
		for (let k = 0; k < goes; k++) { await frame(); const from = performance.now(); work(k); const busy = performance.now() - from; await frame(); took.push([busy, performance.now() - from]); }
		return {least: least(took.map(x => x[1])), median: median(took.map(x => x[1])), script: least(took.map(x => x[0]))};
	};
	const step = Math.max(1, Math.floor(h.events / 23));
	const show = async selector => { document.querySelector(selector).scrollIntoView({block: 'center', behavior: 'instant'}); await frame(); await frame(); };
	out.events = h.events;
	out.allocations = h.length;
	d.see('each');
	await show('canvas.timeline');
	out.cursorAtTimeline = await time(15, k => s.cursor.set((k * 7 + 3) % 23 * step, true));
	out.zoom = await time(9, k => t.zoom(0.3 + k / 20, k % 2 ? 1.6 : 0.5));
	t.view(0, h.events);
	await show('[data-role=events]');
	out.cursorAtEvents = await time(15, k => s.cursor.set((k * 7 + 3) % 23 * step, true));
	await show('table.sites');
	out.cursorAtTable = await time(15, k => s.cursor.set((k * 7 + 3) % 23 * step, true));
	document.querySelectorAll('details').forEach(x => { x.open = true; });
	await show('canvas.map');
	out.cursorAtMap = await time(15, k => s.cursor.set((k * 7 + 3) % 23 * step, true));
	await show('[data-role=events]');
	out.search = await time(9, k => s.search({text: ['forward', 'backward 2', '/(adam|step)/'][k % 3]}, false));
	s.search({});
	d.see('each');
	await show('[data-role=flame]');
	out.cursorAtFlame = await time(15, k => s.cursor.set((k * 7 + 3) % 23 * step, true));
	d.see('segments');
	await show('canvas.reserved');
	out.zoomSegments = await time(9, k => t.zoom(0.3 + k / 20, k % 2 ? 1.6 : 0.5));
	return JSON.stringify(out);
})()
