package source_test

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/source"
)

// programs keep what the line marked "made" makes by the line marked "stored"; one without such a line isn't sure.
var programs = []struct {
	name, text string
	search     source.Search
}{
	{"a list of the loop's function", `
def main():
    kept = []
    for x in data():
        y = model(x)  # made main
        kept.append(y)  # stored
`, source.Search{Loop: 0}},
	{"a list made in each step", `
def main():
    for x in data():
        kept = []
        y = model(x)  # made main
        kept.append(y)
`, source.Search{Loop: 0}},
	{"a number of it", `
def main():
    kept = []
    for x in data():
        loss = model(x)  # made main
        kept.append(loss.item())
        print("loss", loss)
        shapes.append((loss.shape, float(loss)))
`, source.Search{Loop: 0, Graph: true}},
	{"on the host, with its graph", `
def main():
    kept = []
    for x in data():
        loss = model(x)  # made main
        kept.append(loss.cpu())  # stored
`, source.Search{Loop: 0, Graph: true}},
	{"on the host", `
def main():
    kept = []
    for x in data():
        y = model(x)  # made main
        kept.append(y.cpu())
`, source.Search{Loop: 0}},
	{"another tensor made of it", `
def main():
    kept = []
    for x in data():
        y = model(x)  # made main
        kept.append(y.sum())
`, source.Search{Loop: 0}},
	{"a running sum", `
def main():
    total = 0
    for x in data():
        loss = model(x)  # made main
        loss.backward(retain_graph=True)
        total = total + loss  # stored
`, source.Search{Loop: 0, Graph: true}},
	{"a sum of one step's parts", `
def step(x):
    total = 0
    for part in x:
        total = total + model(part)  # made step
    total.backward()
`, source.Search{Loop: -1, Graph: true, Path: []source.Call{{}, {File: "b.py", Function: "main", Line: 3}}}},
	{"an attribute's sum", `
class Meter:
    def update(self, loss):
        self.sum += loss.mean()  # made update stored
`, source.Search{Loop: -1, Graph: true}},
	{"a tuple in a dictionary", `
cache = {}
def lookup(key, x):
    y = model(x)  # made lookup
    cache[key] = (x, y)  # stored
    return y
`, source.Search{Loop: -1}},
	{"a statement over lines", `
def main():
    kept = []
    for x in data():
        y = model(
            x)  # made main
        kept.append(
            {"y": y})  # later
`, source.Search{Loop: 0}},
	{"a cache of results", `
@functools.lru_cache(
    maxsize=None)
def encode(x):
    return model(x)  # made encode
`, source.Search{Loop: -1}},
	{"text that isn't what ran", `
def other():
    kept = []
    kept.append(model(x))  # made main
`, source.Search{Loop: 0}},
	{"a variable of another name", `
def main():
    kept = []
    for x in data():
        kept.append(model(x))  # made main
`, source.Search{Loop: 0, Container: "preds"}},
	{"a queue, which holds it in a part of its own", `
def main():
    for x in data():
        y = model(x)  # made main
        results.put((x, y))  # stored
`, source.Search{Loop: 0, Container: "queue", Within: []string{"main", "results"}}},
	{"a generator, which keeps what it is sent", `
def main():
    stream = running()
    for x in data():
        stream.send(model(x))  # made main stored
`, source.Search{Loop: 0, Container: "kept", Within: []string{"main", "stream"}}},
	{"a context's attribute", `
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2  # made forward
        ctx.y = y  # stored
        return y
`, source.Search{Loop: -1}},
	{"without a graph", `
def main():
    kept = []
    for x in data():
        y = model(x)  # made main
        with torch.no_grad():
            z = y + 1
        kept.append(z)
`, source.Search{Loop: 0, Graph: true}},
}

// lineWith is the line that holds a text, from 1; 0 without one.
func lineWith(text, mark string) (line int, rest string) {
	for i, l := range strings.Split(text, "\n") {
		if _, after, ok := strings.Cut(l, mark); ok {
			return i + 1, strings.TrimSpace(after)
		}
	}
	return 0, ""
}

func TestStoring(t *testing.T) {
	for _, x := range programs {
		t.Run(x.name, func(t *testing.T) {
			s := x.search
			made, function := lineWith(x.text, "# made")
			function, _, _ = strings.Cut(function, " ")
			s.Path = append([]source.Call{{File: "a.py", Function: function, Line: made}}, s.Path[min(1, len(s.Path)):]...)
			s.Open = func(name string) *source.File {
				if name != "a.py" {
					return nil
				}
				return source.Parse(name, x.text)
			}
			want, _ := lineWith(x.text, "stored")
			if later, _ := lineWith(x.text, "# later"); later > 0 {
				want = later - 1
			}
			if strings.Contains(x.text, "lru_cache") {
				want = 2
			}
			p, ok := s.Find()
			if ok != (want > 0) || ok && p.Line != want {
				t.Errorf("%v, line %d: %s; want %d", ok, p.Line, p.Code, want)
			}
		})
	}
}

// FuzzFind reads any text as a program, and any line as the one that makes something.
func FuzzFind(f *testing.F) {
	for _, x := range programs {
		made, _ := lineWith(x.text, "# made")
		f.Add(x.text, made, x.search.Graph)
	}
	f.Add("def f(:\n\t\"\"\"a\n)))[x;y]\\\n= x.append(\nreturn", 3, true)
	f.Fuzz(func(t *testing.T, text string, line int, graph bool) {
		file := source.Parse("a.py", text)
		s := source.Search{Open: func(string) *source.File { return file }, Graph: graph, OfGrads: graph, OfObject: !graph,
			Path: []source.Call{{File: "a.py", Function: "<listcomp>", Line: line}, {File: "a.py", Function: "<lambda>", Line: line / 2}}}
		var patch source.Patch
		if p, ok := s.Find(); ok && (p.Line < 1 || p.Line > len(file.Lines)) {
			t.Errorf("line %d of %d", p.Line, len(file.Lines))
		} else if ok {
			if e, why := p.Fix(source.Kept{Graph: graph, One: true}); why == "" {
				patch.Add(e)
			}
		}
		edits, _ := source.Freed(file)
		s.Path = s.Path[:1]
		s.Path[0].Function = "<module>"
		if e, why := s.Drop(); why == "" {
			edits = append(edits, e)
		}
		for _, e := range edits {
			patch.Add(e)
		}
		patch.Diff(func(file string) (string, bool) { return file, true })
	})
}
