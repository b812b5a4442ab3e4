package batch

import (
	"archive/zip"
	"bytes"
	"context"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/store"
)

// packings are the containers in which a file may come.
func packings(t *testing.T, plain []byte) map[string][]byte {
	t.Helper()
	var g bytes.Buffer
	w := gzip.NewWriter(&g)
	w.Write(plain)
	w.Close()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zipped := func(folders ...string) []byte {
		var b bytes.Buffer
		a := zip.NewWriter(&b)
		for _, name := range append(folders, strings.Join(folders, "")+"snapshot.pickle") {
			f, err := a.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "/") {
				f.Write(plain)
			}
		}
		a.Close()
		return b.Bytes()
	}
	return map[string][]byte{"plain": plain, "gzip": g.Bytes(), "zstd": e.EncodeAll(plain, nil), "zip": zipped(), "zip of a folder": zipped("dump/"),
		"zstd after a skipped frame": e.EncodeAll(plain, []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"))}
}

func TestSniff(t *testing.T) {
	snapshot := append([]byte("\x80\x04}\x94(\x8c\x08segments\x94]\x94"), bytes.Repeat([]byte("a"), 5000)...)
	for _, c := range []struct {
		name, content string
		want          fileKind
	}{
		{"snapshot.pickle", string(snapshot), kindRecording},
		{"of-any-name", string(snapshot), kindRecording},
		{"data.pickle", "\x80\x04]\x94(K\x01K\x02e.", kindPickle},
		{"cut.pickle", "\x80", kindRecording},
		{"head.pickle", "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x08segm", kindRecording},
		{"head.dat", "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x08segm", kindPickle},
		{"empty.pickle", "", kindRecording},
		{"empty.log", "", kindSilent},
		{"empty.csv", "", kindOther},
		{"crashed.txt", "ModuleNotFoundError: No module named 'torch'", kindSilent},
		{"hello.out", "hello", kindSilent},
		{"text.pickle", "no pickle", kindRecording},
		{"train.log", "step 1 loss 3.2\n", kindText},
		{"slurm-17", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", kindText},
		{"numbers.txt", "0 1.1780 1417953280\n1 1.0480 1493450752\n2 0.9449 1568948224\n3 0.8608 1644445696\n", kindText},
		{"gan.txt", "[0] D 1.478 G 1.323\n[1] D 1.203 G 1.106\n[2] D 1.027 G 1.180\n", kindText},
		{"timeline.json", "[[1, 0, 1000, 0], [2, 1, 500, 0]]", kindText},
		{"words.txt", "nothing of interest", kindOther},
		{"tokenizer.json", `{"words": {"loss": 17, "step": 18, "torch": 19}}`, kindOther},
		{"vocabulary.txt", strings.Repeat("loss\nstep\ntorch\n", 5000), kindText},
		{"train.py", "loss = model(x)  # CUDA out of memory", kindOther},
		{"README", "step by step", kindOther},
		{"config.json", `{"model_type": "gpt2"}`, kindAccessory},
		{"a.labels.json", `{"schema": "vramscope.labels/1"}`, kindAccessory},
		{"trace.json", `{"schemaVersion": 1, "traceEvents": []}`, kindText},
		{"weights.bin", "\x00\x01\x02\x03loss", kindOther},
		{"utf16.csv", "\xff\xfet\x00i\x00m\x00e\x00", kindText},
		{"model.pt", "PK\x03\x04" + strings.Repeat("\x00", 22) + "\x10\x00\x00\x00archive/data.pkl", kindOther},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := kindOf(c.name, []byte(c.content)[:min(len(c.content), sniff.HeadBytes)], nil); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
	for packing, b := range packings(t, snapshot) {
		if got := kindOf("x", b[:min(len(b), sniff.HeadBytes)], nil); got != kindRecording {
			t.Errorf("in %s: %d", packing, got)
		}
	}
	for packing, b := range packings(t, nil) {
		for name, want := range map[string]fileKind{"empty.log": kindSilent, "empty.pickle": kindRecording} {
			if got := kindOf(name, b, nil); got != want {
				t.Errorf("%s of nothing, in %s: %d, want %d", name, packing, got, want)
			}
		}
	}
	for packing, b := range packings(t, bytes.Repeat([]byte("step 1 loss 3.2\n"), 99)) {
		if got := kindOf("cut", b[:len(b)/2], nil); got != kindText {
			t.Errorf("cut in %s: %d", packing, got)
		}
	}
	if got := kindOf("long.out", bytes.Repeat([]byte("words\n"), sniff.HeadBytes/6+1), []byte("torch.OutOfMemoryError: CUDA out of memory")); got != kindText {
		t.Errorf("told by its end: %d", got)
	}
}

// TestCost knows how large a file is unpacked before it is.
func TestCost(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	dir := t.TempDir()
	for packing, b := range packings(t, plain) {
		name := filepath.Join(dir, packing)
		put(t, name, b)
		want := int64(baseCost + perByte*len(plain))
		if got := cost(context.Background(), Run{Files: []string{name}}, &store.Pool{}); got != want {
			t.Errorf("%s: %d bytes, want %d", packing, got, want)
		}
	}
}

// TestWhereItBroke names the line of a panic.
func TestWhereItBroke(t *testing.T) {
	defer func() {
		recover()
		if got := where(debug.Stack()); !strings.HasPrefix(got, "at batch/sniff_test.go:") {
			t.Errorf("%q", got)
		}
	}()
	var none []int
	t.Log(none[len(t.Name())])
}

// TestFindsWhatAnalyzeFinds: a folder of one file is a run, for a batch and by
// itself, or for neither.
func TestFindsWhatAnalyzeFinds(t *testing.T) {
	message := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n"
	tensors := "\x40\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"format\":\"torch step\"},\"wte\":{\"dtype\":\"F32\"}}"
	ctx := context.Background()
	for _, c := range []struct {
		name, content string
		run           bool
	}{
		{"train.log", message, true},
		{"hole.log", "step 1\n" + strings.Repeat("\x00", 64) + message, true},
		{"progress.log", strings.Repeat("\b", 99) + message, true},
		{"objects.jsonl", strings.Repeat("{\"step\": 1, \"loss\": 2.1, \"model\": {\"hidden_size\": 8}}\n{\"step\": 2, \"loss\": 2.0}\n", 3), true},
		{"data.log", strings.Repeat("\x01\x00", 64) + message, false},
		{"job.sbatch", "#!/bin/bash\n# " + message, false},
		{"job.slurm.gz", "# " + message, false},
		{"Fix.java", "// " + message, false},
		{"Dockerfile.gpu", "# " + message, false},
		{"page", "<html>" + message, false},
		{"model.safetensors", tensors, false},
		{".train.log", message, false},
		{"venv/train.log", message, false},
		{"lost+found/train.log", message, false},
		{"config.json", `{"d_model": 8}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			put(t, filepath.Join(root, c.name), []byte(c.content))
			if r, err := open.Files([]string{root}, open.Options{}); (err == nil) != c.run {
				t.Errorf("by itself: %v", err)
			} else if err == nil {
				r.Close()
			}
			found, err := Find(ctx, []string{root}, FindOptions{})
			if err != nil {
				t.Fatal(err)
			}
			analysed := len(found.Runs) == 1
			if analysed {
				r := Analyze(ctx, found.Runs[0], "test", Options{Tool: "test"})
				analysed = r.Err == nil
			}
			if analysed != c.run {
				t.Errorf("in a batch: %t, want %t", analysed, c.run)
			}
		})
	}
}
