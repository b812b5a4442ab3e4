package html_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/testing/thorough"
)

// TestEveryPageFits looks at each kind of page from a phone's width to a desk's: nothing is wider than the window, nothing stands
// outside its table's place, and no button of the head is covered.
func TestEveryPageFits(t *testing.T) {
	thorough.Only(t)
	pages := everyPage(t)
	pages["log"] = written(t, recording(t, "qwen_vocab_oom__05b/log.txt"))
	pages["devices"] = written(t, recording(t, "device_map__two_gpus/snapshot_named.pickle.gz"))
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, 1440, 900)
			b.open(saved(t, page))
			for _, width := range []int64{400, 700, 768, 1000, 1200, 1280, 1440} {
				b.do(chromedp.EmulateViewport(width, 900))
				b.until(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`)
				b.until(`Array.from(document.querySelectorAll('.scroll')).every(e => e.scrollWidth <= e.clientWidth + 1)`)
				if covered := eval[bool](b, `Array.from(document.querySelectorAll('.tools button')).some(x => { `+
					`const r = x.getBoundingClientRect(); return document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2) !== x; })`); covered {
					t.Errorf("at %d pixels, something covers a button of the head", width)
				}
				if cut := eval[[]string](b, `Array.from(document.querySelectorAll('.scroll td, .scroll th')).filter(c => c.offsetParent && `+
					`c.scrollHeight > c.clientHeight + 2).map(c => c.textContent)`); len(cut) > 0 {
					t.Errorf("at %d pixels, cells are too low for their text: %q", width, cut)
				}
			}
			b.clean()
		})
	}
}
