package store_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/store"
)

// FuzzNames looks for names that show a URL's parameters or user, or that come
// apart and together again as others. Nothing is connected to.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"runs/a.pickle", "s3://b/x/a.gz?region=r", "s3://me:w/o@b/x", "file:///x", "gs://b", "://", "s3://?", "s3://b/a?b?c", "C:\\runs"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		shown := store.Show(name)
		if store.Show(shown) != shown && !strings.HasPrefix(name, "file://") {
			t.Errorf("%q is shown as %q and then as %q", name, shown, store.Show(shown))
		}
		path, local := store.Path(name)
		if scheme, rest, _ := strings.Cut(name, "://"); !local && scheme != "file" {
			if _, query, given := strings.Cut(rest, "?"); given && len(query) > 3 && strings.HasSuffix(strings.TrimPrefix(shown, scheme+"://"), query) && !strings.HasSuffix(strings.SplitN(rest, "?", 2)[0], query) {
				t.Errorf("%q shows its parameters: %q", name, shown)
			}
		} else if local && !store.IsURL(name) && path != name {
			t.Errorf("the path %q became %q", name, path)
		}
		if above, file := store.Split(name); local && store.Join(above, file) == "" {
			t.Errorf("%q came apart as %q and %q", name, above, file)
		}
		if store.IsURL(name) && !strings.HasPrefix(name, "s3://") && !strings.HasPrefix(name, "gs://") {
			if p, err := store.Open(context.Background(), name); err == nil {
				p.Close()
			}
		}
	})
}
