package html_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/testing/thorough"
	"github.com/vramscope/vramscope/report/html"
)

// TestShared opens a page that takes its script from the folder above: as it should
// be, without that file, and with a name that would run if the policy let it.
func TestShared(t *testing.T) {
	thorough.Only(t)
	var page bytes.Buffer
	shares, err := html.Beside(&page, sample(), "..")
	if err != nil || !shares {
		t.Fatal(shares, err)
	}
	if n := page.Len(); n > 100_000 {
		t.Errorf("the page has %d bytes", n)
	}
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return "file://" + name
	}
	b := newTab(t, 1440, 900)
	whole := write("run/report.html", page.String())
	write(html.ScriptName(), html.Script())
	b.open(whole)
	b.charts(5)
	if eval[bool](b, `document.querySelector('.lost').offsetHeight > 0`) {
		t.Error("the page says that its script is missing")
	}
	b.clean()

	evil := strings.Replace(page.String(), "<main", "<script>window.ran = 1</script><img src=x onerror=window.ran=2><main", 1)
	b.open(write("run/evil.html", evil))
	if n := b.ran(); n > 0 {
		t.Errorf("script %d of a name ran", n)
	}

	b.do(chromedp.Navigate(write("elsewhere/far/report.html", page.String())))
	b.until(`getComputedStyle(document.querySelector('.lost')).visibility === 'visible'`)
	if text := b.text("main"); !strings.Contains(text, html.ScriptName()) || !strings.Contains(text, "Allocated at the peak") {
		t.Error("without its script the page doesn't name it, or has lost its tables")
	}
	if n := eval[int](b, `document.querySelectorAll('table.sites tbody tr').length`); n != 2 {
		t.Errorf("without its script the page has %d rows instead of 2", n)
	}
}

// TestSharedOfALog: a page that draws nothing needs no file.
func TestSharedOfALog(t *testing.T) {
	var page bytes.Buffer
	if shares, err := html.Beside(&page, logAlone(), ".."); err != nil || shares || strings.Contains(page.String(), "<script src") {
		t.Error("a log's page takes a script from a file", err)
	}
}
