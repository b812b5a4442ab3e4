package budget

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

type measuredRow struct {
	ID      string         `json:"id"`
	Setting map[string]any `json:"setting"`
	Config  map[string]any `json:"config"`
	Class   string         `json:"model_class"`
	Params  struct {
		Total, Trainable, Bytes, Buffer_bytes, Largest int64
	} `json:"params"`
	Load  []int64                      `json:"load"`
	Steps []map[string]json.RawMessage `json:"steps"`
	State struct{ Bytes int64 }        `json:"optimizer_state"`
}

func readRows(t testing.TB, path string) []measuredRow {
	f, err := os.Open(path)
	if err != nil {
		t.Skip("no measured rows here")
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	var rows []measuredRow
	for sc.Scan() {
		var r measuredRow
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

func rowSetting(r measuredRow) Setting {
	g := func(k string) string { s, _ := r.Setting[k].(string); return s }
	n := func(k string) int64 { f, _ := r.Setting[k].(float64); return int64(f) }
	s := Setting{Batch: n("batch"), Sequence: n("seq"), DecoderSeq: n("dec_seq"), Precision: g("precision"), Attention: g("attn"), Optimizer: g("optimizer")}
	s.Padding = g("mask") == "padded"
	if g("ckpt") != "none" {
		s.Checkpointing = "full"
	}
	return s
}

func TestPeek(t *testing.T) {
	only := os.Getenv("ROWS")
	if only == "" {
		t.Skip()
	}
	path := os.Getenv("ROWFILE")
	if path == "" {
		path = "../../shared/budget/measured.jsonl"
	}
	for _, r := range readRows(t, path) {
		if !strings.Contains(r.ID, only) {
			continue
		}
		func() {
			defer func() {
				if e := recover(); e != nil {
					fmt.Println(r.ID, "PANIC", e)
				}
			}()
			peek(t, r)
		}()
	}
}

func peek(t *testing.T, r measuredRow) {
	{
		r.Config["architectures"] = []any{r.Class}
		c, err := NewConfig(r.Config)
		if err != nil {
			fmt.Println(r.ID, err)
			return
		}
		mod, err := newModel(c)
		if err != nil {
			fmt.Println(r.ID, err)
			return
		}
		s := rowSetting(r).Defaults()
		p := &plan{Setting: s, model: mod, width: 2, wide: 2}
		switch s.Precision {
		case "fp32":
			p.width, p.wide = 4, 4
		case "bf16-mixed", "fp16-mixed":
			p.mixed, p.wide = true, 4
		}
		ru := newRun(p)
		ru.trainStep()
		raw := r.Steps[1]
		st := map[string][]int64{}
		for k, v := range raw {
			var l []int64
			if json.Unmarshal(v, &l) == nil {
				st[k] = l
			}
		}
		if len(st["start"]) < 2 || len(st["backward_peak"]) < 2 {
			return
		}
		base := st["start"][1]
		w := ru.ends[Load].bytes
		_ = w
		load := r.Load[1]
		off := base - load - 16*s.Batch*s.Sequence // optimizer state
		got := func(k string, i int) int64 { return st[k][1] }
		pr := func(name string, mine, theirs int64) {
			fmt.Printf("  %s %d %d %+.3f%%", name, mine, theirs, 100*(float64(mine)/float64(theirs)-1))
		}
		fmt.Printf("%s\n", r.ID)
		var wsum int64
		for _, q := range mod.params {
			wsum += q.val.bytes()
		}
		bufs := load - wsum
		pr("load", wsum, r.Params.Bytes)
		pr("fwd", ru.ends[Forward].bytes+off+bufs, got("forward", 1))
		pr("fwdpeak", max(ru.m.peaks[Forward].bytes, ru.m.peaks[Loss].bytes)+off+bufs, max(got("forward_peak", 1), got("loss_peak", 1)))
		pr("bwdpeak", ru.m.peaks[Backward].bytes+off+bufs, got("backward_peak", 1))
		pr("end", ru.ends[Backward].bytes+off+bufs, got("backward_held", 1))
		fmt.Println()
	}
}
