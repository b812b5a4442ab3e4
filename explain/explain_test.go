package explain_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// subject is a recording, looked at and judged.
func subject(t testing.TB, path string) explain.Subject {
	t.Helper()
	s, err := snapshot.Open(path, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	history := timeline.New(s, &s.Devices[0])
	classes := classify.New(history, classify.Options{})
	doc, err := diagnose.Run([]diagnose.Source{{Path: filepath.Base(path), Kind: "snapshot", Snapshot: s,
		Made: func(*snapshot.Device) (*timeline.Timeline, *classify.Classification) { return history, classes }}},
		evidence.New(), diagnose.Options{Device: &s.Devices[0].Ordinal})
	if err != nil {
		t.Fatal(err)
	}
	return explain.Subject{Report: doc, Pass: facts.New(history, classes, frames.New(s), nil)}
}

func ask(t testing.TB, s explain.Subject, kind, value string) *explain.Document {
	t.Helper()
	d, err := explain.Ask(s, explain.Question{Kind: kind, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func labelled(name string) string { return filepath.Join("../testdata/recordings", name) }

var qwen = sync.OnceValue(func() string { return labelled("qwen_vocab_oom__05b/snapshot_all.pickle.gz") })

// asked are questions that lead on.
func asked(d *explain.Document) (out []string) {
	for _, n := range d.Next {
		out = append(out, n.Kind+" "+n.Value)
	}
	return out
}

// TestCategoriesAddUp asks all categories: together they are what is allocated at the peak.
func TestCategoriesAddUp(t *testing.T) {
	for _, name := range []string{qwen(), labelled("frag_oom__pairwise_docs/snapshot_all.pickle.gz"),
		"../testdata/scenarios/resumed__none.pickle.gz"} {
		s := subject(t, name)
		dev := &s.Report.Devices[0]
		var bytes int64
		allocations := 0
		for _, c := range report.Categories {
			x := ask(t, s, "category", c).Category
			if x.PeakBytes != dev.AtPeak.Categories[c] {
				t.Errorf("%s: %s %d, the report has %d", name, c, x.PeakBytes, dev.AtPeak.Categories[c])
			}
			var decided int64
			for _, r := range x.Rules {
				decided += r.PeakBytes
			}
			if len(x.Rules) < 8 && decided != x.PeakBytes {
				t.Errorf("%s: rules decided %d of %d bytes of %s", name, decided, x.PeakBytes, c)
			}
			bytes += x.PeakBytes
			allocations += x.Allocations
		}
		if bytes != dev.AtPeak.AllocatedBytes || allocations != dev.Allocations {
			t.Errorf("%s: %d bytes in %d allocations, want %d in %d", name, bytes, allocations, dev.AtPeak.AllocatedBytes,
				dev.Allocations)
		}
		peak := ask(t, s, "event", text(*dev.AtPeak.Event)).Event
		if peak.Allocated != dev.AtPeak.AllocatedBytes || peak.Reserved != dev.AtPeak.ReservedBytes {
			t.Errorf("%s: %d of %d at the peak's event, want %d of %d", name, peak.Allocated, peak.Reserved,
				dev.AtPeak.AllocatedBytes, dev.AtPeak.ReservedBytes)
		}
	}
}

func text(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// TestAsked asks each kind of thing, and follows what an answer names.
func TestAsked(t *testing.T) {
	s := subject(t, qwen())
	leaking := subject(t, labelled("retained_graph__trainer_entropy/snapshot_named.pickle.gz"))
	for _, c := range []struct {
		s           explain.Subject
		kind, value string
		answer      string // part of it
		next        string // one of them
	}{
		{s, "oom", "0", "Request 0 failed at event 4,284: 27.8", "site qwen/qwen_sft.py:27"},
		{s, "site", "qwen_sft.py:27", "qwen/qwen_sft.py:27 (sft_step): 1,332 allocations, 71.9", "category logits"},
		{s, "site", "qwen/qwen_sft.py:27", "(sft_step): 1,332 allocations", "allocation 1619"},
		{s, "allocation", "1619", "Allocation 1,619: 27.8", "rule logits"},
		{s, "category", "logits", "Logits: 4 allocations", "site qwen/qwen_sft.py:27"},
		{s, "rule", "released-by-autograd", "Rule released-by-autograd decided", "category activations"},
		{s, "finding", "logits_dominate", "Logits and their copies take", "site qwen/qwen_sft.py:27"},
		{s, "finding", "growing_list", "The report has no finding growing_list.", "finding oom_true_shortage"},
		{s, "event", "4284", "a request fails (27.8", "oom 0"},
		{s, "step", "0", "Step 0: events", "event 4271"},
		{leaking, "leak", "0", "Leak 0 (retained graph)", "site hf_leak/finetune.py:14"},
		{leaking, "site", "finetune.py:14", "hf_leak/finetune.py:14 (compute_loss)", "leak 0"},
		{leaking, "step", "3", "3 allocations of what it made outlive", "step 4"},
		{leaking, "finding", "retained_graph", "", "leak 0"},
	} {
		d := ask(t, c.s, c.kind, c.value)
		if !strings.Contains(d.Answer, c.answer) {
			t.Errorf("--%s %s: %q lacks %q", c.kind, c.value, d.Answer, c.answer)
		}
		if !strings.Contains(strings.Join(asked(d), "\n")+"\n", c.next+"\n") {
			t.Errorf("--%s %s leads to %q, not to %s", c.kind, c.value, asked(d), c.next)
		}
		for _, n := range d.Next {
			if _, err := explain.Ask(c.s, n.Question); err != nil {
				t.Errorf("--%s %s leads to a question without an answer: %v", c.kind, c.value, err)
			}
		}
	}
	x := ask(t, s, "allocation", "1619").Allocation
	if x.Allocated != 29871833088 || x.Category != "logits" || *x.Rule != "logits" || *x.AllocEvent != 4265 || !x.AtPeak ||
		x.AtEnd || x.Segment == nil || x.Segment.Bytes < x.Allocated || len(x.Stack) == 0 {
		t.Errorf("allocation 1619: %+v", x)
	}
	held := s
	held.Holders = []classify.Holder{{Path: "loss", Graph: []timeline.AllocationID{7, 1619}}, {Path: "x"}}
	if got := ask(t, held, "allocation", "1619").Allocation.Holders; !slices.Equal(got, []string{"loss"}) {
		t.Errorf("allocation 1619 is held by %q", got)
	}
	lies := ask(t, s, "address", "0x"+hex(x.Address+512)).Address
	if !slices.ContainsFunc(lies.Uses, func(b explain.Brief) bool { return b.Allocation == 1619 }) || lies.Segment == nil {
		t.Errorf("its second half KiB was used by %+v", lies.Uses)
	}
}

func hex(n uint64) string {
	const digits = "0123456789abcdef"
	out := ""
	for ; n > 0; n /= 16 {
		out = string(digits[n%16]) + out
	}
	return out
}

// TestRestsOn: a step and an event name the signals that told their phases, or that rules did.
func TestRestsOn(t *testing.T) {
	const beam, bare = "../testdata/scenarios/beam_search__none.pickle.gz", "../testdata/scenarios/resumed__none.pickle.gz"
	for _, c := range []struct{ path, kind, value, want string }{
		{qwen(), "step", "0", "loaded-batches [data], neighbors [other], frames [forward backward]"},
		{qwen(), "event", "4284", "frames [backward]"},
		{qwen(), "event", "3", "frames [setup]"},
		{bare, "step", "1", "rhythm [data forward optimizer], named-ranges [zero_grad], root-gradients [backward]"},
		{beam, "event", "300", "rules [generate]"},
	} {
		d := ask(t, subject(t, c.path), c.kind, c.value)
		var rests []explain.Resting
		if d.Step != nil {
			rests = d.Step.RestsOn
		} else {
			rests = d.Event.RestsOn
		}
		var got []string
		for _, x := range rests {
			name := "rules"
			if x.Signal != nil {
				name = *x.Signal
			}
			if got = append(got, fmt.Sprint(name, " ", x.Phases)); !strings.HasSuffix(x.Reason, ".") {
				t.Errorf("%s: %q", name, x.Reason)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("--%s %s of %s rests on %s", c.kind, c.value, c.path, text)
		}
	}
}

// TestNotThere says of what can't be asked why.
func TestNotThere(t *testing.T) {
	s := subject(t, qwen())
	bare := subject(t, "../testdata/scenarios/resumed__none.pickle.gz")
	for _, c := range []struct {
		s                 explain.Subject
		kind, value, want string
	}{
		{s, "allocation", "1627", "allocations are numbered 0 to 1626"},
		{s, "allocation", "-1", "allocations are numbered"},
		{s, "allocation", "x", "not a number"},
		{s, "event", "99999999999999999999", "not a number"},
		{s, "oom", "1", "failed requests are numbered 0 to 0"},
		{s, "leak", "7", "leak"},
		{s, "category", "logit", "categories are weights, gradients"},
		{s, "rule", "magic", "vramscope help rules"},
		{s, "finding", "magic", "vramscope help findings"},
		{s, "site", "qwen_sft.py", "give FILE:LINE"},
		{s, "site", "nosuch.py:3", "no stack of the recording goes through a file of that name"},
		{s, "site", "qwen_sft.py:26", "no stack goes through that line; through lines of the file near it: 22, 27"},
		{s, "address", "zz", "not a hexadecimal address"},
		{s, "address", "1", "no block and no segment"},
		{s, "step", "1", "steps are numbered 0 to 0"},
		{s, "magic", "1", "nothing is known of the kind"},
		{bare, "site", "a.py:1", "the recording has no stacks"},
		{explain.Subject{Report: s.Report, Device: -1}, "leak", "0", "there is none among the inputs"},
	} {
		d, err := explain.Ask(c.s, explain.Question{Kind: c.kind, Value: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--%s %s: %v, %v; want %s", c.kind, c.value, d, err, c.want)
		}
	}
}

// FuzzAsk asks anything: an answer is bounded, and what isn't there is an error.
func FuzzAsk(f *testing.F) {
	s := subject(f, qwen())
	for _, k := range explain.Kinds {
		for _, v := range []string{"0", "27", "0x7f", "logits", "qwen_sft.py:27", "a\\b:1", ":", "oom_true_shortage"} {
			f.Add(k.Name, v)
		}
	}
	f.Fuzz(func(t *testing.T, kind, value string) {
		d, err := explain.Ask(s, explain.Question{Kind: kind, Value: value})
		if err != nil {
			return
		}
		b, err := json.Marshal(d)
		if err != nil || len(b) > 40_000+8*len(value) {
			t.Errorf("--%s %q: %d bytes, %v", kind, value, len(b), err)
		}
	})
}
