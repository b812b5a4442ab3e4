package sniff

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"
)

// TestDescribe names what is no evidence, and nothing that only looks like it.
func TestDescribe(t *testing.T) {
	for _, x := range []struct{ name, head, what, instead string }{
		{"PNG", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a picture", "the text itself"},
		{"JPEG", "\xff\xd8\xff\xe0\x00\x10JFIF\x00", "a picture", "the text itself"},
		{"tar", tarOf("run/train.log", "run/\x1b.csv", "c", "d"), `a tar archive ("run/train.log", "run/\x1b.csv", "c", …)`, "Unpack it"},
		{"7z", "7z\xbc\xaf'\x1c\x00\x04", "an archive", "Unpack it"},
		{"xz", "\xfd7zXZ\x00\x00\x04", "an archive", "Unpack it"},
		{"bzip2", "BZh91AY&SY\x00\x01", "an archive", "Unpack it"},
		{"PDF", "%PDF-1.7\n", "a PDF", "the text itself"},
		{"nvidia-smi -L", "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0a1b2c3d)\n", "nvidia-smi -L's list", "--query-gpu"},
		{"nvidia-smi topo", "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X \tNV12\n", "nvidia-smi topo's table", "--query-gpu"},
		{"no driver", "Failed to initialize NVML: Driver/library version mismatch\n", "an error of nvidia-smi", "--query-gpu"},
		{"gpustat", "node03   Wed Mar 12 16:02:11 2025  550.54\n[0] NVIDIA A100 | 42°C,  98 % | 79012 / 81920 MB | lena(60014M)\n", "gpustat's output", "--query-gpu"},
		{"a Trainer's state", "{\n  \"best_metric\": null,\n  \"log_history\": []}", "a Trainer's state", "logs with steps"},
		{"JSON", `{"a": 1}`, "JSON of no known kind", "logs with steps"},
		{"lines of JSON", "{\"a\": 1, \"b\": 2}\n{\"a\": 1, \"b\": 2}\n", "JSON of no known kind", "logs with steps"},
		{"a traceback", "hello\nTraceback (most recent call last):\n", "text with a traceback", "logs with steps"},
		{"CSV", "Wall time,Step,Value\n1,2,3\n", "a table", "logs with steps"},
		{"prose", "It was dark, and stormy.\nThe rain fell.\n", "text without a line", "logs with steps"},
		{"UTF-16", "\xff\xfeh\x00i\x00", "text without a line", "logs with steps"},
		{"data", "\x00\x01\x02\x03", "data", "logs with steps"},
		{"a pickle", "\x80\x04]\x94(K\x01K\x02e.", "a pickle of something else", "logs with steps"},
		{"nothing", "", "text without a line", "logs with steps"},
	} {
		if what, instead := Describe([]byte(x.head)); !strings.HasPrefix(what, x.what) || !strings.Contains(instead, x.instead) {
			t.Errorf("%s: %q, %q", x.name, what, instead)
		}
	}
}

// tarOf is a tar archive of texts with such names.
func tarOf(names ...string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 7})
		w.Write([]byte("step 1\n"))
	}
	w.Close()
	return b.String()
}

// FuzzDescribe names whatever a file begins with.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte(tarOf("run/train.log", "b")))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if what, _ := Describe(head); what == "" || len(what) > 1000 {
			t.Errorf("%q", what)
		}
	})
}
