package html_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diff"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/report/view"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// pale are the texts of a page that are too pale on what lies behind them, at WCAG's level AA.
const pale = `(() => {
	const parse = c => { const v = (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number); return c.startsWith('color(') ? v.map((x, i) => i < 3 ? 255 * x : x) : v; }, linear = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
	const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]) + 0.05, over = (a, b) => { const t = a.length > 3 ? a[3] : 1; return [0, 1, 2].map(i => a[i] * t + b[i] * (1 - t)); };
	const behind = e => { const all = []; for (; e; e = e.parentElement) all.push(parse(getComputedStyle(e).backgroundColor)); return all.reverse().reduce((b, a) => over(a, b), [255, 255, 255]); };
	const out = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement, style = getComputedStyle(e);
		if (!walk.currentNode.textContent.trim() || !e.checkVisibility({visibilityProperty: true}) || ['SCRIPT', 'STYLE', 'OPTION'].includes(e.tagName) || e.closest('.sr, .skip, svg, [aria-hidden=true]') || !e.getClientRects().length) continue;
		const back = behind(e), a = light(over(parse(style.color), back)), b = light(back), ratio = Math.max(a, b) / Math.min(a, b), large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && +style.fontWeight >= 700;
		if (ratio < (large ? 3 : 4.5)) out.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2) + ' ' + style.color + ' on ' + back.map(Math.round) + ' ' + e.textContent.trim().slice(0, 40));
	}
	return [...out];
})()`

// nameless are the controls and pictures of a page that have no name for a screen reader.
const nameless = `Array.from(document.querySelectorAll('button, input, select, a[href], summary, [tabindex="0"], canvas, [role=img], figure.plot')).filter(e => {
	if (!e.checkVisibility()) return false;
	if (e.tagName === 'CANVAS' && e.closest('[role=img]') !== null && !e.hasAttribute('role')) return false; // is the picture's own
	return !(e.getAttribute('aria-label') || e.textContent || e.title || (e.labels && e.labels.length)).toString().trim();
}).map(e => e.outerHTML.slice(0, 120))`

// unfocused are the controls that look the same with the focus as without.
const unfocused = `Array.from(document.querySelectorAll('button, input, select, a[href], summary, [tabindex="0"]')).filter(e => e.checkVisibility() && !e.closest('.flame') && (e.focus({preventScroll: true, focusVisible: true}), document.activeElement === e) && getComputedStyle(e).outlineStyle === 'none').map(e => e.outerHTML.slice(0, 120))`

// answerSheets are a budget that doesn't fit, and what is tried and explained of a recording.
func answerSheets(t *testing.T, name string) map[string]*view.Sheet {
	t.Helper()
	s, err := snapshot.Open(filepath.Join("..", "..", "testdata", "recordings", name), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	history := timeline.New(s, &s.Devices[0])
	classes := classify.New(history, classify.Options{})
	doc := analyzed(t, []diagnose.Source{{Path: "a.pickle", Kind: "snapshot", Snapshot: s}}, evidence.New())
	tried, err := replay.WhatIf(history, classes, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	told, err := explain.Ask(explain.Subject{Report: doc, Pass: facts.New(history, classes, frames.New(s), nil)},
		explain.Question{Kind: "category", Value: "logits"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := budget.FromParams(7e9)
	if err != nil {
		t.Fatal(err)
	}
	var setting budget.Setting
	recipe.SettingFlags(pflag.NewFlagSet("", pflag.ContinueOnError), &setting)
	computed, err := budget.Compute(c, setting)
	if err != nil {
		t.Fatal(err)
	}
	needed := budget.NewDocument(computed)
	needed.AddFits([]budget.Fit{{GPU: gpus.GPU{Name: "24GiB", Capacity: 24 << 30}}}, false)
	sheet := view.Budget(needed, view.Ticket)
	if sheet.Verdict.Severity != report.Critical {
		t.Errorf("a budget that doesn't fit is %q", sheet.Verdict.Severity)
	}
	return map[string]*view.Sheet{"budget": sheet, "what-if": view.WhatIf(tried), "explain": view.Explain(told, view.Ticket)}
}

// everyPage is a page of each kind.
func everyPage(t *testing.T) map[string][]byte {
	t.Helper()
	leak := recording(t, "growing_list__step_cache/snapshot_all.pickle.gz")
	failed := recording(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz")
	pages := map[string][]byte{"report": written(t, failed), "index": indexPage(t, runsIndex(40, plainName))}
	d, err := diff.Compute(leak, failed)
	if err != nil {
		t.Fatal(err)
	}
	x, y := leak.Fullest(), failed.Fullest()
	var b bytes.Buffer
	if err := html.Comparison(&b, view.Diff(d, view.Ticket), &html.Compared{Before: x, After: y, Names: [2]string{"a", "b"}, Steps: d.Steps,
		Sites: diff.Pairs(x.Pictures.Sites, y.Pictures.Sites), Frames: diff.Frames(x.Pictures, y.Pictures)}); err != nil {
		t.Fatal(err)
	}
	pages["diff"] = b.Bytes()
	for name, s := range answerSheets(t, "qwen_vocab_oom__05b/snapshot_all.pickle.gz") {
		var page bytes.Buffer
		if err := html.Sheet(&page, s); err != nil {
			t.Fatal(err)
		}
		pages[name] = page.Bytes()
	}
	return pages
}

// TestAccessible looks at each kind of page in both themes: texts stand out, controls and
// pictures have names, the focus is seen, nothing moves for whoever wants that, and call sites
// are text that a browser finds.
func TestAccessible(t *testing.T) {
	pages := everyPage(t)
	tab := newTab(t, 1440, 900)
	tab.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}}))
	for name, page := range pages {
		tab.open(saved(t, page))
		eval[bool](tab, `(document.querySelectorAll('details').forEach(d => { d.open = true; }), true)`)
		for range 2 {
			theme := eval[string](tab, `document.documentElement.dataset.theme`)
			for what, list := range map[string][]string{"pale text": eval[[]string](tab, "%s", pale), "without a name": eval[[]string](tab, "%s", nameless),
				"without a sign of the focus": eval[[]string](tab, "%s", unfocused)} {
				for _, e := range list[:min(len(list), 6)] {
					t.Errorf("%s, %s: %s: %s", name, theme, what, e)
				}
			}
			eval[bool](tab, `(document.querySelector('#theme').click(), true)`)
		}
		if got := eval[string](tab, `getComputedStyle(document.documentElement).scrollBehavior + Array.from(document.querySelectorAll('*')).filter(e => parseFloat(getComputedStyle(e).transitionDuration) > 0).length`); got != "auto0" {
			t.Errorf("%s moves for somebody who wants it to be still: %s", name, got)
		}
		if site := "modeling_qwen2.py:456"; name != "index" && name != "budget" && name != "what-if" && !eval[bool](tab, `window.find(%s)`, quoted(site)) {
			t.Errorf("%s: the browser doesn't find %s", name, site)
		}
	}
	tab.open(saved(t, pages["report"]))
	tab.press("#copy")
	tab.until(`/^Cop/.test(document.querySelector('#copy').textContent) && !/Markdown/.test(document.querySelector('#copy').textContent)`)
	if said := tab.text("#said"); !strings.HasPrefix(said, "Cop") {
		t.Errorf("the copy is told as %q", said)
	}
	tab.clean()
}
