//go:build js

// Command web is the engine for a browser's tab, run by a worker: it answers vramscopeRun(request, put, done).
package main

import (
	"encoding/json"
	"syscall/js"

	"github.com/vramscope/vramscope/site/engine"
)

// version is set as in cmd/vramscope.
var version = "devel"

// maxMemory is what reading may take, in bytes: the module can have 4 GiB, and judging takes half as much again.
const maxMemory = 2 << 30

func main() {
	js.Global().Set("vramscopeRun", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, put, done := args[0].String(), args[1], args[2]
		go func() {
			out, _ := json.Marshal(answer(text, put)) // strings alone
			done.Invoke(string(out))
		}()
		return nil
	}))
	js.Global().Call("vramscopeReady")
	select {}
}

func answer(text string, put js.Value) engine.Result {
	var q engine.Request
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return engine.Result{Error: err.Error()}
	}
	return engine.Answer(&q, engine.Options{Version: version, MaxMemory: maxMemory, Sum: sum,
		Put: func(format string, content []byte) error {
			a := js.Global().Get("Uint8Array").New(len(content))
			js.CopyBytesToJS(a, content)
			put.Invoke(format, a)
			return nil
		}})
}

// sum asks the browser for a file's digest, for which it has the processor's own instructions.
func sum(name string, size int64) string {
	found := make(chan string, 1)
	done := js.FuncOf(func(_ js.Value, args []js.Value) any { found <- args[0].String(); return nil })
	defer done.Release()
	js.Global().Call("vramscopeDigest", name, size, done)
	return <-found
}
