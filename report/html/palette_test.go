package html_test

import (
	"fmt"
	"math"
	"regexp"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/templates"
)

// rgb is a colour in linear light.
type rgb [3]float64

// Vision as full deficiency changes it (Machado, Oliveira, Fernandes 2009).
var visions = map[string][3]rgb{
	"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
}

func parseColor(t *testing.T, hex string) rgb {
	t.Helper()
	var c [3]int
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("%q: %v", hex, err)
	}
	var out rgb
	for i, v := range c {
		x := float64(v) / 255
		if out[i] = x / 12.92; x > 0.04045 {
			out[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	return out
}

func (c rgb) seen(m [3]rgb) rgb {
	var out rgb
	for i, row := range m {
		out[i] = max(0, row[0]*c[0]+row[1]*c[1]+row[2]*c[2])
	}
	return out
}

// oklab is a colour where distances are as large as they look.
func (c rgb) oklab() rgb {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return rgb{0.2104542553*l + 0.7936177850*m - 0.0040720468*s, 1.9779984951*l - 2.4285922050*m + 0.4505937099*s, 0.0259040371*l + 0.7827717662*m - 0.8086757660*s}
}

func distance(a, b rgb) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}

// contrast is WCAG's.
func contrast(a, b rgb) float64 {
	light := func(c rgb) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	x, y := light(a), light(b)
	return max(x, y) / min(x, y)
}

// themes are the variables of the style sheet by theme.
func themes() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, block := range regexp.MustCompile(`(?s):root(\[data-theme=dark\])?\{(.*?)\}`).FindAllStringSubmatch(templates.Style(), 2) {
		name := "light"
		if block[1] != "" {
			name = "dark"
		}
		out[name] = map[string]string{}
		for _, v := range regexp.MustCompile(`(--[a-z0-9_-]+):(#[0-9a-f]+)`).FindAllStringSubmatch(block[2], -1) {
			out[name][v[1]] = v[2]
		}
	}
	return out
}

// TestPalette counts whether categories can be told apart, with and without
// colour blindness, have the same hue in both themes and are seen on the page; and
// whether texts can be read.
func TestPalette(t *testing.T) {
	all := themes()
	if len(all) != 2 {
		t.Fatalf("%d themes instead of 2", len(all))
	}
	// hue is in degrees; greys have none.
	hue := func(color string) (degrees float64, grey bool) {
		lab := parseColor(t, color).oklab()
		return math.Atan2(lab[2], lab[1]) * 180 / math.Pi, math.Hypot(lab[1], lab[2]) < 0.025
	}
	for _, c := range report.Categories {
		a, grey := hue(all["light"]["--c-"+c])
		b, grey2 := hue(all["dark"]["--c-"+c])
		if apart := math.Abs(math.Remainder(a-b, 360)); grey != grey2 || !grey && apart > 10 {
			t.Errorf("%s has hues %.0f and %.0f in the two themes", c, a, b)
		}
	}
	for theme, vars := range all {
		card := parseColor(t, vars["--card"])
		for i, a := range report.Categories {
			c := parseColor(t, vars["--c-"+a])
			if k := contrast(c, card); k < 3 {
				t.Errorf("%s: %s has a contrast of %.2f to the page, less than 3", theme, a, k)
			}
			for _, b := range report.Categories[:i] {
				least := 0.1
				if a == "unknown" || b == "unknown" {
					least = 0.05 // grey among colours
				}
				for vision, m := range visions {
					if d := distance(c.seen(m).oklab(), parseColor(t, vars["--c-"+b]).seen(m).oklab()); d < least {
						t.Errorf("%s, %s: %s and %s are %.3f apart, less than %.2f", theme, vision, a, b, d, least)
					}
				}
			}
		}
		states := []string{"--used", "--pinned", "--empty", "--pending"}
		for i, a := range states {
			for _, b := range states[:i] {
				for vision, m := range visions {
					if d := distance(parseColor(t, vars[a]).seen(m).oklab(), parseColor(t, vars[b]).seen(m).oklab()); d < 0.08 {
						t.Errorf("%s, %s: %s and %s are %.3f apart", theme, vision, a, b, d)
					}
				}
			}
		}
		for _, pair := range [][2]string{{"--ink", "--card"}, {"--ink", "--bg"}, {"--mut", "--card"}, {"--mut", "--bg"}, {"--mut", "--code"}, {"--fail", "--failbg"},
			{"--warn", "--warnbg"}, {"--ok", "--okbg"}, {"--ok", "--card"}, {"--fail", "--card"}} {
			if k := contrast(parseColor(t, vars[pair[0]]), parseColor(t, vars[pair[1]])); k < 4.5 {
				t.Errorf("%s: text in %s on %s has a contrast of %.2f, less than 4.5", theme, pair[0], pair[1], k)
			}
		}
	}
}
