package replay

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/corpus"
)

// Why a request failed, and which line's blocks keep whole segments.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		run      string
		missing  bool
		says     string
		toCome   bool
		category string // of the blocks whose absence frees most
		frees    int64  // at least
	}{
		{"frag_oom__pairwise_docs/snapshot_all", false, "25.12 GiB were there, but the largest free piece was 1.81 GiB", false, "temporary", 70 << 30},
		{"qwen_vocab_oom__05b/snapshot_all", true, "22.10 GiB more than the 78.59 GiB that PyTorch could have", false, "", 0},
		{"llama8b_full_oom__fp32_autocast/snapshot_none", false, "has yet to make about 44.76 GiB of state", true, "gradients", 5 << 30},
	} {
		t.Run(c.run, func(t *testing.T) {
			doc := tried(t, c.run, Options{Confs: []string{"expandable_segments:True"}})
			if len(doc.Failures) != 1 {
				t.Fatalf("%d failures", len(doc.Failures))
			}
			f := doc.Failures[0]
			if (f.MissingBytes > 0) != c.missing || (f.StillToComeBytes > f.RequestedBytes) != c.toCome || !strings.Contains(f.Text, c.says) {
				t.Errorf("%+v doesn't say %q", f, c.says)
			}
			if f.LiveBytes+f.FreeBytes != f.ReservedBytes {
				t.Errorf("%d in use and %d free of %d", f.LiveBytes, f.FreeBytes, f.ReservedBytes)
			}
			var all int64
			for i, p := range f.Pins {
				all += p.Frees
				if p.Frees < p.Bytes/int64(p.Blocks) || p.Segments == 0 || i > 0 && p.Frees > f.Pins[i-1].Frees {
					t.Errorf("%+v", p)
				}
			}
			if all > f.ReservedBytes {
				t.Errorf("pins keep %d bytes of %d reserved", all, f.ReservedBytes)
			}
			if c.category == "" {
				if len(f.Pins) > 0 {
					t.Errorf("memory was missing, yet %+v", f.Pins)
				}
			} else if len(f.Pins) == 0 || f.Pins[0].Category != c.category || f.Pins[0].Frees < c.frees {
				t.Errorf("pins: %+v", f.Pins)
			}
		})
	}
}

// A forward pass of a larger batch fails half way: what the step before needed
// from there on, in proportion, tells that no setting would have saved it. The
// same program under expandable segments failed 35 allocations later.
func TestRestOfPass(t *testing.T) {
	p := load(t, corpus.Path(t, "labelled/fraction_oom__gpt2_large/snapshot_named.pickle.gz"))
	doc, err := p.WhatIf(classify.New(p.Timeline, classify.Options{}), Options{Confs: []string{"expandable_segments:True"}})
	if err != nil {
		t.Fatal(err)
	}
	if o := doc.Scenarios[1]; !o.Survived || !strings.Contains(doc.Verdict, "it would have failed later") {
		t.Errorf("%+v: %s", o, doc.Verdict)
	}
}
