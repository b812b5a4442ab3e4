package open_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/testing/fakes3"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

const recordings = "../../testdata/recordings"

// judged is the report of what was named.
func judged(t *testing.T, names ...string) (*report.Document, error) {
	t.Helper()
	run, err := open.Files(names, open.Options{})
	if err != nil {
		return nil, err
	}
	defer run.Close()
	return diagnose.Run(run.Sources, run.Evidence, diagnose.Options{Tool: "test"})
}

// TestStoresAreReadAsFolders compares the report of a run in a bucket with that
// of the same run in a folder.
func TestStoresAreReadAsFolders(t *testing.T) {
	s := fakes3.Start(t)
	folder := filepath.Join(recordings, "qwen_vocab_oom__05b")
	s.PutFolder(t, "runs/qwen", folder)
	for _, c := range []struct{ name, there, here string }{
		{"prefix", "s3://team/runs/qwen", folder},
		{"prefix with a slash", "s3://team/runs/qwen/", folder},
		{"object", "s3://team/runs/qwen/snapshot_all.pickle.gz?region=eu-west-1", filepath.Join(folder, "snapshot_all.pickle.gz")},
		{"file URL", "file://" + absolute(t, folder), absolute(t, folder)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := judged(t, c.there)
			if err != nil {
				t.Fatal(err)
			}
			want, err := judged(t, c.here)
			if err != nil {
				t.Fatal(err)
			}
			var text [2]strings.Builder
			if err := errors.Join(report.JSON(&text[0], got), report.JSON(&text[1], want)); err != nil {
				t.Fatal(err)
			}
			there := strings.ReplaceAll(text[0].String(), strings.TrimSuffix(store.Show(c.there), "/"), c.here)
			if there != text[1].String() {
				t.Error("the report of what lies in the store is not the folder's")
			}
			if strings.Contains(text[0].String(), "region=") {
				t.Error("the report shows a URL's parameters")
			}
		})
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	full, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

// TestCheckpointsStayWhereTheyAre reads a run beside gigabytes, which here are
// megabytes, without their transfer.
func TestCheckpointsStayWhereTheyAre(t *testing.T) {
	s := fakes3.Start(t)
	s.PutFolder(t, "run", filepath.Join(recordings, "mlp_regression__script"))
	header := `{"w":{"dtype":"F32","shape":[2097152],"data_offsets":[0,8388608]}}`
	tensors := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	s.Put(t, "run/model.safetensors", append(tensors, make([]byte, 8<<20)...))
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	for name, size := range map[string]int{"model/data.pkl": 100, "model/data/0": 8 << 20} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	s.Put(t, "run/model.pt", zipped.Bytes())
	var asked atomic.Int64
	s.Before = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/model.") {
			w = &fakes3.Meter{ResponseWriter: w, N: &asked}
		}
		next.ServeHTTP(w, r)
	}
	doc, err := judged(t, "s3://team/run")
	if err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n > 2<<20 {
		t.Errorf("%d bytes of the checkpoints were transferred", n)
	}
	for _, in := range doc.Inputs {
		if in.Kind == open.KindCheckpoint && in.Bytes < 8<<20 {
			t.Errorf("%s of %d bytes", in.Path, in.Bytes)
		}
	}
}

// TestStoresThatFail say which object and why.
func TestStoresThatFail(t *testing.T) {
	s := fakes3.Start(t)
	whole, err := os.ReadFile(filepath.Join(recordings, "qwen_vocab_oom__05b/snapshot_all.pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	s.Put(t, "cut.pickle.gz", whole[:len(whole)/2])
	s.Put(t, "other.bin", []byte{0, 1, 2})
	s.Put(t, "run/snapshot_rank0.pickle.gz", whole)
	s.Put(t, "run/snapshot_rank1.pickle.gz", whole[:len(whole)/2])
	for _, c := range []struct {
		name, url, want string
		before          func(http.ResponseWriter, *http.Request, http.Handler)
	}{
		{"corrupt", "s3://team/cut.pickle.gz", "s3://team/cut.pickle.gz: ", nil},
		{"unknown", "s3://team/other.bin", "s3://team/other.bin: ", nil},
		{"missing", "s3://team/none.pickle", "s3://team/none.pickle: no such object", nil},
		{"no bucket", "s3://nobody/a.pickle", "s3://nobody/a.pickle: no such bucket", nil},
		{"refused", "s3://team/cut.pickle.gz", "access denied", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Before = c.before
			_, err := judged(t, c.url)
			var e *snapshot.Error
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &e) {
				t.Errorf("error is %v\nwant %s", err, c.want)
			}
		})
	}
	s.Before = nil
	doc, err := judged(t, "s3://team/run")
	if err != nil {
		t.Fatal(err)
	}
	damage := ""
	for _, in := range doc.Inputs {
		damage += strings.Join(in.Damage, " ")
	}
	if len(doc.Devices) == 0 || !strings.Contains(damage, "s3://team/run/snapshot_rank1.pickle.gz: ") {
		t.Errorf("a broken object among others: %d devices, damage %q", len(doc.Devices), damage)
	}
}
