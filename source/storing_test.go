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
	{"a comprehension over a generator", `
def predict(model):
    for x in data():
        yield model(x)  # made predict
def main():
    kept = [y for y in predict(model)]  # stored
`, source.Search{Loop: 0, Path: []source.Call{{}, {File: "a.py", Function: "main", Line: 6}}}},
	{"a list of a generator", `
def predict(model):
    for x in data():
        yield model(x)  # made predict
def main():
    kept = list(predict(model))  # stored
`, source.Search{Loop: 0, Path: []source.Call{{}, {File: "a.py", Function: "main", Line: 6}}}},
	{"a comprehension of what is on the host", `
def predict(model):
    for x in data():
        yield model(x)  # made predict
def main():
    kept = [y.cpu() for y in predict(model)]
`, source.Search{Loop: 0, Path: []source.Call{{}, {File: "a.py", Function: "main", Line: 6}}}},
	{"the last one of a generator", `
def predict(model):
    for x in data():
        yield model(x)  # made predict
def main():
    best = max(predict(model), key=score)
`, source.Search{Loop: 0, Path: []source.Call{{}, {File: "a.py", Function: "main", Line: 6}}}},
	{"a tensor of another width", `
def main():
    kept = []
    for x in data():
        kept.append(model(x).float())  # made main stored
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
`, source.Search{Loop: 0, Containers: []string{"preds"}}},
	{"a queue, which holds it in a part of its own", `
def main():
    for x in data():
        y = model(x)  # made main
        results.put((x, y))  # stored
`, source.Search{Loop: 0, Containers: []string{"queue", "results"}}},
	{"a context's attribute", `
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2  # made forward
        ctx.y = y  # stored
        return y
`, source.Search{Loop: -1}},
	{"a tracker's method", `
class Tracker:
    def __init__(self):
        self.history, self.newest = [], None
    def log(self, value):
        self.newest = value
        self.history.append(value)  # stored
def main():
    tracker = Tracker()
    for x in data():
        loss = model(x)  # made main
        tracker.log(loss)
`, source.Search{Loop: 0, Graph: true}},
	{"a tracker of each step", `
class Tracker:
    def log(self, value):
        self.history.append(value)
def main():
    for x in data():
        tracker = Tracker()
        loss = model(x)  # made main
        tracker.log(loss)
`, source.Search{Loop: 0, Graph: true}},
	{"a tracker's numbers", `
class Tracker:
    def log(self, value):
        self.history.append(value.item())
def main():
    tracker = Tracker()
    for x in data():
        loss = model(x)  # made main
        tracker.log(loss)
`, source.Search{Loop: 0, Graph: true}},
	{"a tracker of a class that others change", `
class Metric:
    def __call__(self, *args):
        return self.update(*args)
class Curve(Metric):
    def update(self, preds, target):
        self.target.append(target)
        self.preds.append(preds)  # stored
class Mean(Metric):
    def update(self, preds, target):
        self.preds.append(preds)
def main():
    curve = Curve()
    for x, target in data():
        y = model(x)  # made main
        curve(y.detach(), target)
`, source.Search{Loop: 0}},
	{"a function's list of its caller", `
def keep(into, value):
    into.append(value)
def main():
    for x in data():
        y = model(x)  # made main
        keep([], y)
`, source.Search{Loop: 0}},
	{"a module's list, by a function's keyword", `
kept = []
def keep(*, value, name="y"):
    kept.append((name, value))  # stored
def main():
    for x in data():
        y = model(x)  # made main
        keep(name="x", value=y)
`, source.Search{Loop: 0}},
	{"two methods of a name, and a variable of neither", `
class A:
    def log(self, x):
        self.kept.append(x)
class B:
    def log(self, x):
        self.kept.append(x.item())
def main(tracker):
    for x in data():
        loss = model(x)  # made main
        tracker.log(loss)
`, source.Search{Loop: 0, Graph: true}},
	{"a hook's closure", `
def main():
    for x in data():
        reference = model(x)  # made main
        def hook(module, args, out):
            return out + reference.mean()
        handles.append(net.register_forward_hook(hook))  # stored
`, source.Search{Loop: 0, Containers: []string{"_forward_hooks"}}},
	{"a function without a name", `
def main():
    later = []
    for x in data():
        y = model(x)  # made main
        later.append(lambda scale: y.sum() * scale)  # stored
        later.append(lambda y: y.sum())
`, source.Search{Loop: 0}},
	{"a record's extra", `
def main():
    for x in data():
        y = model(x)  # made main
        log.info("step", extra={"target": x})
        log.info("step", extra={"pred": y})  # stored
`, source.Search{Loop: 0, Containers: []string{"buffer"}, Element: "pred"}},
	{"a context's variable", `
def main():
    for x in data():
        y = model(x)  # made main
        history.set(history.get(()) + (y,))  # stored
`, source.Search{Loop: 0, Containers: []string{"history"}}},
	{"a loop over its parts", `
def main():
    ema = {}
    for x in data():
        losses = {"mse": model(x)}  # made main
        for name, value in losses.items():
            ema[name] = ema.get(name, 0.0) + 0.1 * value  # stored
`, source.Search{Loop: 0, Graph: true}},
	{"the only statement that adds to what holds it", `
class Server:
    async def handle(self, x):
        y = self.model(x)  # made handle
        return y
    async def submit(self, x):
        task = asyncio.create_task(self.handle(x))
        self.tasks.append(task)  # stored
        self.sizes.append(x.shape)
`, source.Search{Loop: -1, Containers: []string{"tasks"}}},
	{"one of two statements that add to what holds it", `
class Server:
    async def handle(self, x):
        return self.model(x)  # made handle
    async def submit(self, x):
        self.tasks.append(asyncio.create_task(self.handle(x)))
    async def again(self, x):
        self.tasks.append(asyncio.create_task(self.other(x)))
`, source.Search{Loop: -1, Containers: []string{"tasks"}}},
	{"exceptions that are linked", `
def main():
    last = None
    for x in data():
        try:
            model(x)  # made main
        except ValueError as e:
            e.__cause__ = last
            last = e  # stored
`, source.Search{Loop: 0}},
	{"an exception of the last step", `
def main():
    last = None
    for x in data():
        try:
            model(x)  # made main
        except ValueError as e:
            last = e
`, source.Search{Loop: 0}},
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

// TestHeld reads what a holder's path says of the container.
func TestHeld(t *testing.T) {
	for _, x := range []struct{ path, containers, element string }{
		{"main().kept", "kept", ""},
		{"main.State.history[3]", "history", ""},
		{"main().ema['mse']", "ema", ""},
		{"main.CACHE.data[*][*].x", "data CACHE", "x"},
		{"main.results.queue", "queue results", ""},
		{"Log.one.log.handlers[*].buffer[*].pred", "buffer", "pred"},
		{"main().model.0._forward_hooks[*].reference", "_forward_hooks", "reference"},
		{"Failed.__traceback__ of attempt().y", "", ""},
		{"main().errors[4].__traceback__ of attempt().y", "errors", ""},
		{"]]][[[*].", "", ""},
		{"", "", ""},
	} {
		var s source.Search
		s.Held(x.path)
		if got := strings.Join(s.Containers, " "); got != x.containers || s.Element != x.element {
			t.Errorf("%s: %s, %s", x.path, got, s.Element)
		}
	}
}

// TestImported follows a call into a file that the program imports.
func TestImported(t *testing.T) {
	files := map[string]string{
		"src/train.py": "from .meters import Meter as M, Meter\nimport keep as k\n\ndef main():\n    meter = Meter()\n" +
			"    for x in data():\n        loss = model(x)\n        meter.add_loss(loss)\n",
		"src/meters.py": "class Base:\n    def add_loss(self, loss):\n        self.all.append(loss)\n\nclass Meter(Base):\n    pass\n",
	}
	s := source.Search{Graph: true, Path: []source.Call{{File: "src/train.py", Function: "main", Line: 7}}}
	s.Open = func(name string) *source.File {
		if text, ok := files[name]; ok {
			return source.Parse(name, text)
		}
		return nil
	}
	if p, ok := s.Find(); !ok || p.File.Name != "src/meters.py" || p.Line != 3 {
		t.Errorf("%v %+v", ok, p)
	}
}
