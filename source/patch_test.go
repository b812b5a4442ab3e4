package source_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/source"
)

// fixes are programs whose line marked "stored" is changed to a text, or stays for a reason.
var fixes = []struct {
	name, text, becomes, why string
	kept                     source.Kept
}{
	{"a loss", "def main():\n    kept = []\n    for x in d:\n        loss = net(x)  # made main\n        kept.append(loss)  # stored\n",
		"        kept.append(loss.item())  # stored\n", "", source.Kept{Graph: true, Scalar: true}},
	{"a state", "class A:\n\tdef forward(self, x):\n\t\th = f(x)  # made forward\n\t\tself.h = h  # stored\n\t\treturn h\n",
		"\t\tself.h = h.detach()  # stored\n", "", source.Kept{Graph: true}},
	{"a sum, ends of Windows", "def main():\r\n    total = 0\r\n    for x in d:\r\n        loss = net(x)  # made main\r\n        total = total + 2 * loss  # stored\r\n",
		"        total = total + (2 * loss).item()  # stored\r\n", "", source.Kept{Graph: true, Scalar: true}},
	{"a sum in place, no end", "def main():\n    total = 0\n    for x in d:\n        loss = net(x)  # made main\n        total += a + loss  # stored",
		"        total += (a + loss).item()  # stored", "", source.Kept{Graph: true, Scalar: true}},
	{"a state of an inference", "import torch\ndef main():\n    s = None\n    for x in d:\n        y, s = net(x, s)  # made main stored\n",
		"        with torch.no_grad():\n            y, s = net(x, s)  # made main stored\n", "", source.Kept{Graph: true, Forward: true}},
	{"a tensor", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        kept.append(y)  # stored\n",
		"        kept.append(y.detach().cpu())  # stored\n", "", source.Kept{One: true}},
	{"a part of one", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        kept.append(y[:, -1])  # stored\n",
		"        kept.append(y[:, -1].clone())  # stored\n", "", source.Kept{One: true}},
	{"a cache", "@lru_cache(maxsize=None)  # stored\ndef f(x):\n    return net(x)  # made f\n", "@lru_cache(maxsize=16)  # stored\n", "", source.Kept{}},
	{"a part, with its graph", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        kept.append(y[:, -1])  # stored\n",
		"        kept.append(y[:, -1].detach().clone())  # stored\n", "", source.Kept{Graph: true}},
	{"a part by another name", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        h = y[:, -1]\n        kept.append(h)  # stored\n",
		"        kept.append(h.clone())  # stored\n", "", source.Kept{Part: true}},
	{"two of them", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        kept.append((x, y))  # stored\n",
		"", "what is stored isn't one tensor", source.Kept{One: true}},
	{"one of two", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        kept.append(y if y else x)  # stored\n",
		"", "what is stored isn't one tensor", source.Kept{One: true}},
	{"an object", "def main():\n    kept = []\n    for x in d:\n        y = net(x)  # made main\n        kept.append(Result(y))  # stored\n",
		"", "what is stored is an object that holds the tensor", source.Kept{One: true}},
}

// fixOf is the change of a program's statement.
func fixOf(t *testing.T, name, text string, kept source.Kept) (source.Edit, string) {
	t.Helper()
	made, function := lineWith(text, "# made ")
	function, _, _ = strings.Cut(function, " ")
	file := source.Parse(name, text)
	s := source.Search{Open: func(string) *source.File { return file }, Graph: kept.Graph, Path: []source.Call{{File: name, Function: function, Line: made}}}
	p, ok := s.Find()
	if want, _ := lineWith(text, "stored"); !ok || p.Line != want {
		t.Fatalf("line %d, %v, want %d", p.Line, ok, want)
	}
	return p.Fix(kept)
}

// TestPatch applies each change with the tools that people use, and finds the rest of the file as it was.
func TestPatch(t *testing.T) {
	for _, x := range fixes {
		t.Run(x.name, func(t *testing.T) {
			edit, why := fixOf(t, "sub/a.py", x.text, x.kept)
			if why != x.why {
				t.Fatalf("%q, want %q", why, x.why)
			}
			if why != "" {
				return
			}
			line, _ := lineWith(x.text, "stored")
			lines := strings.SplitAfter(x.text, "\n")
			lines[line-1] = x.becomes
			apply(t, []source.Edit{edit, edit}, x.text, strings.Join(lines, ""))
		})
	}
}

// apply makes changes to a file with the tools that people use.
func apply(t *testing.T, edits []source.Edit, text, want string) {
	t.Helper()
	var p source.Patch
	for _, e := range edits {
		p.Add(e)
	}
	diff := p.Diff(func(file string) (string, bool) { return file, true })
	for tool, args := range map[string][]string{"patch": {"-p0", "--binary", "-i", "../x.diff"}, "git": {"apply", "-p0", "../x.diff"}} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Log(err)
			continue
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "w", "sub", "a.py")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x.diff"), []byte(diff), 0o644); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(tool, args...)
		c.Dir = filepath.Join(dir, "w")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s\n%s", tool, err, out, diff)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
}

// known are programs of which all is given, with what becomes of them, else why nothing does.
var known = []struct {
	name, text, becomes, why string
	change                   func(f *source.File, s *source.Search) ([]source.Edit, string)
}{
	{"zeroed in place", "for x in d:\n    net(x).backward()\n    opt.step()\n    opt.zero_grad(\n        set_to_none=False)\n",
		"for x in d:\n    net(x).backward()\n    opt.step()\n    opt.zero_grad(\n        set_to_none=True)\n", "", freed},
	{"each gradient", "for p in ps:\n    if p.grad is not None: p.grad.zero_()\n    q.w.grad.data.zero_()  # too\n",
		"for p in ps:\n    if p.grad is not None: p.grad = None\n    q.w.grad = None  # too\n", "", freed},
	{"freed already", "opt.zero_grad(set_to_none=True)\nx = f(set_to_none=False)\nx.grad.zero_().add_(1)\n", "", "no statement there zeroes gradients in place", freed},
	{"outputs", "def main():\n    for x in d:\n        out = net(x)  # made main\n        loss = out.logits.mean()\n        loss.backward()\n        if x:\n            print(loss.item())\n        # end\n\n    done()\n",
		"def main():\n    for x in d:\n        out = net(x)  # made main\n        loss = out.logits.mean()\n        loss.backward()\n        if x:\n            print(loss.item())\n        del loss, out\n        # end\n\n    done()\n", "", drop},
	{"outputs under autocast, ends of Windows", "for x in d:\r\n\twith autocast():\r\n\t\tout = net(x)  # made <module>\r\n\tstep()\r\n",
		"for x in d:\r\n\twith autocast():\r\n\t\tout = net(x)  # made <module>\r\n\tstep()\r\n\tdel out\r\n", "", drop},
	{"no end", "for x in d:\n    out = net(x)  # made <module>\n    step()", "for x in d:\n    out = net(x)  # made <module>\n    step()\n    del out", "", drop},
	{"used after the loop", "def main():\n    for x in d:\n        out = net(x)  # made main\n    return out\n", "", "out may be used after the pass, or isn't set in each", drop},
	{"printed after the loop", "def main():\n    for x in d:\n        out = net(x)  # made main\n    print(out)\n", "", "out may be used after the pass, or isn't set in each", drop},
	{"used by the next pass", "def main():\n    for x in d:\n        print(out)\n        out = net(x)  # made main\n", "", "out may be used after the pass, or isn't set in each", drop},
	{"carried", "def main():\n    out = 0\n    for x in d:\n        out = net(x, out)  # made main\n", "", "which variables hold it isn't sure", drop},
	{"in some passes", "def main():\n    for x in d:\n        if x:\n            out = net(x)  # made main\n", "", "out may be used after the pass, or isn't set in each", drop},
	{"seen by another function", "def show():\n    print(out)\nfor x in d:\n    out = net(x)  # made <module>\n", "", "out may be used after the pass, or isn't set in each", drop},
	{"kept elsewhere", "def main():\n    for x in d:\n        out = net(x)  # made main\n        self.out = out\n", "", "which variables hold it isn't sure", drop},
	{"one line", "for x in d: out = net(x)  # made <module>\n", "", "the loop stands in one line", drop},
	{"a deque", "from collections import deque\nclass A:\n    def __init__(self):\n        self.seen = deque()\n    def forward(self, x):\n        self.seen.append((x, f(x)))  # made forward\n",
		"from collections import deque\nclass A:\n    def __init__(self):\n        self.seen = deque(maxlen=16)\n    def forward(self, x):\n        self.seen.append((x, f(x)))  # made forward\n", "", fixed},
	{"a deque that somebody empties", "def main():\n    seen = deque([])\n    for x in d:\n        seen.append((x, f(x)))  # made main\n    seen.popleft()\n", "",
		"what is stored isn't one tensor", fixed},
}

func freed(f *source.File, _ *source.Search) ([]source.Edit, string) { return source.Freed(f) }

func drop(_ *source.File, s *source.Search) ([]source.Edit, string) {
	e, why := s.Drop()
	return []source.Edit{e}, why
}

func fixed(_ *source.File, s *source.Search) ([]source.Edit, string) {
	p, ok := s.Find()
	if !ok {
		return nil, "nothing found"
	}
	e, why := p.Fix(source.Kept{One: true})
	return []source.Edit{e}, why
}

// TestKnownForms changes statements that aren't the one that stores.
func TestKnownForms(t *testing.T) {
	for _, x := range known {
		t.Run(x.name, func(t *testing.T) {
			file := source.Parse("sub/a.py", x.text)
			made, function := lineWith(x.text, "# made ")
			function, _, _ = strings.Cut(function, "\n")
			edits, why := x.change(file, &source.Search{Open: func(string) *source.File { return file },
				Path: []source.Call{{File: "sub/a.py", Function: function, Line: made}}})
			if why != x.why {
				t.Fatalf("%q, want %q", why, x.why)
			}
			if why == "" {
				apply(t, edits, x.text, x.becomes)
			}
		})
	}
}

// TestPatchOutside names no file that doesn't lie in the folder.
func TestPatchOutside(t *testing.T) {
	edit, _ := fixOf(t, "a.py", fixes[0].text, fixes[0].kept)
	for _, name := range []string{"/etc/a.py", "../a.py", "x/../../a.py", "a\n+++ b.py", "", ".."} {
		var p source.Patch
		p.Add(edit)
		if diff := p.Diff(func(string) (string, bool) { return name, true }); diff != "" || len(p.Untold) != 1 {
			t.Errorf("%q: %s", name, diff)
		}
	}
}

// TestPatchOfMany has near changes in one hunk, and counts lines that are added.
func TestPatchOfMany(t *testing.T) {
	text := "import torch\ndef main():\n    s = None\n    kept = []\n    for x in d:\n        y, s = net(x, s)  # one\n        kept.append(y)  # two\n" +
		strings.Repeat("        pass\n", 20) + "        other.append(y)  # three\n"
	file := source.Parse("a.py", text)
	var p source.Patch
	for _, kept := range []source.Kept{{Graph: true, Forward: true}, {One: true}} {
		made, _ := lineWith(text, "# one")
		s := source.Search{Open: func(string) *source.File { return file }, Graph: kept.Graph, Path: []source.Call{{File: "a.py", Function: "main", Line: made}}}
		at, ok := s.Find()
		edit, why := at.Fix(kept)
		if !ok || why != "" {
			t.Fatal(ok, why)
		}
		p.Add(edit)
	}
	diff := p.Diff(func(file string) (string, bool) { return file, true })
	if strings.Count(diff, "@@ -3,8 +3,9 @@") != 1 || strings.Count(diff, "\n+") != 4 {
		t.Error(diff)
	}
}
