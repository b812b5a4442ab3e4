package main

import (
	"compress/gzip"
	"encoding/hex"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"vramscope": main})
}

// TestScripts runs the command line as its users do. RECORDINGS is the folder of
// the shipped recordings.
func TestScripts(t *testing.T) {
	recordings, err := filepath.Abs("../../testdata/recordings")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("RECORDINGS", recordings)
			env.Setenv("RUN", filepath.Join(recordings, "../runs/kept_losses"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cut":    cut,
			"bytes":  writeBytes,
			"gunzip": gunzip,
			"bomb":   bomb,
			"same":   sameFolders,
			"atmost": atMost,
		},
	})
}

// cut FILE N keeps the first N bytes of a file.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// bytes FILE HEX… writes a file.
func writeBytes(ts *testscript.TestScript, _ bool, args []string) {
	b, err := hex.DecodeString(strings.Join(args[1:], ""))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// atmost N compares the size of what was printed last with a number of bytes.
func atMost(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	if have := len(ts.ReadFile("stdout")); have > n {
		ts.Fatalf("%d bytes, more than %d", have, n)
	}
}

// gunzip FROM TO takes the compression off.
func gunzip(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ts.Check(err)
	b, err := io.ReadAll(z)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o644))
}

// bomb FILE MIB writes a gzip of a pickle that goes on with that many MiB of
// one-byte integers.
func bomb(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	z := gzip.NewWriter(f)
	_, err = z.Write([]byte("\x80\x04]\x94("))
	ts.Check(err)
	block := []byte(strings.Repeat("K\x01", 1<<19))
	for range n {
		_, err = z.Write(block)
		ts.Check(err)
	}
	ts.Check(z.Close())
}
