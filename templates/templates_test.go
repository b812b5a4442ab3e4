package templates_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/html"
	"github.com/vramscope/vramscope/templates"
)

// TestScriptsCanStandInAPage looks for what would end a script element early.
func TestScriptsCanStandInAPage(t *testing.T) {
	for i, script := range append(templates.Scripts(), templates.LightScript(), templates.IndexScript()) {
		lower := strings.ToLower(script)
		for _, bad := range []string{"</script", "<!--", "\u2028", "\u2029", "\r"} {
			if strings.Contains(lower, bad) {
				t.Errorf("script %d has %q", i, bad)
			}
		}
		if !strings.Contains(script, "function") {
			t.Errorf("script %d is no script", i)
		}
	}
	if strings.Contains(strings.ToLower(templates.Style()), "</style") {
		t.Error("the style sheet ends its element")
	}
}

// TestOwnScriptsMakeNoMarkup keeps names out of innerHTML and its kin.
func TestOwnScriptsMakeNoMarkup(t *testing.T) {
	own := templates.Scripts()[1] + templates.LightScript() + templates.IndexScript() + templates.CompareScript()
	for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc", "fetch(", "XMLHttpRequest", "import("} {
		if strings.Contains(own, bad) {
			t.Errorf("the page's script uses %s", bad)
		}
	}
}

// TestBundleHasItsLicence checks that the charting library stands in a page with
// what its licence asks for before it, and is the version that is pinned.
func TestBundleHasItsLicence(t *testing.T) {
	var page bytes.Buffer
	drawn := report.Document{Inputs: []report.Input{{Path: "a.pickle"}}, Evidence: evidence.New(), Devices: []report.Device{{Sites: []report.Site{{Bytes: 1}}, Pictures: &report.Pictures{}}}}
	if err := html.Document(&page, &drawn); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(page.String(), "<script>/*\n")
	terms, library, found := strings.Cut(rest, "*/\n")
	if !found || !strings.HasPrefix(library, "var echarts=") {
		t.Fatal("the page doesn't begin its library with a comment")
	}
	for _, want := range []string{"The Apache Software Foundation", "Apache License", "zrender", "tslib"} {
		if !strings.Contains(terms, want) {
			t.Errorf("the comment doesn't mention %s", want)
		}
	}
	text, err := os.ReadFile("echarts/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if v := p.Dependencies["echarts"]; v == "" || !strings.Contains(library, `"`+v+`"`) {
		t.Errorf("the bundle isn't version %q", v)
	}
}
