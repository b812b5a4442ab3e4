package redact

import (
	"strings"
	"testing"
)

// FuzzNames: no name breaks the redactor, a name's pseudonym is always the
// same, and a private word within a path, a symbol or a message is gone.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"/home/x/train.py", `C:\Users\x\Lib\python\y.py`, "/usr/lib/python3.11/os.py", "a/site-packages/torch/x.py", "-packages/torch/", "/lib/python3", "<frozen x>", "<",
		"/bin/", "torch/nn/", "/torch/", "x.so.1", "/python-3./", "at::native::x<y>(z)", "(anonymous namespace)::f", "Optimizer.step#X.step", "FSDP::x (y)", `say "x"`, "rank_7.pickle", "[clone .part.0]", "\xff/\xfe"} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, name, path string) {
		const private = "zqxjkv"
		r := New("")
		calls := []struct {
			what string
			of   func(string) string
		}{
			{"file", func(s string) string { to, _ := r.file(s); return to }},
			{"native", func(s string) string { a, b := r.native(s, path); return a + b }},
			{"annotation", r.Annotation}, {"metadata", r.Metadata}, {"input", r.Input}, {"process", r.process}, {"gpu", r.gpu}, {"text", r.Text},
			{"note", func(s string) string { k, v := r.Note(s, s); return k + v }},
			{"error", func(s string) string { return r.Error(s+": cut", s) }},
		}
		for _, c := range calls {
			if a, b := c.of(name), c.of(name); a != b {
				t.Errorf("%s %q: %q, then %q", c.what, name, a, b)
			}
		}
		if strings.ContainsAny(name, `/\<`) || strings.Contains(name, "-packages") || len(name) > 1000 {
			return // what stands below a well-known folder is that package's
		}
		for _, c := range calls {
			if got := c.of("/home/" + name + "/" + private + ".py"); strings.Contains(got, private) {
				t.Errorf("%s: %q is still in %q", c.what, private, got)
			}
		}
	})
}
