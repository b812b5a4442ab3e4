package replay

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

func tried(t *testing.T, run string, o Options) *Document {
	t.Helper()
	p := load(t, filepath.Join(shipped, run+".pickle.gz"))
	doc, err := WhatIf(p.Timeline, classify.New(p.Timeline, classify.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestScenariosAreAllPairs(t *testing.T) {
	doc := tried(t, "frag_oom__pairwise_docs/snapshot_all", Options{
		Confs: []string{"expandable_segments:True", "max_split_size_mb:128"}, Capacities: []int64{40 << 30, 24 << 30}})
	seen := map[string]int{}
	for _, o := range doc.Scenarios {
		key := o.Settings
		if o.Name != "recorded" && *o.CapacityBytes != *doc.Scenarios[0].CapacityBytes {
			key += "@" + o.Name[strings.LastIndex(o.Name, " on ")+4:]
		}
		seen[key]++
	}
	if len(seen) != 9 || len(doc.Scenarios) != 9 {
		t.Errorf("%d scenarios: %v", len(doc.Scenarios), seen)
	}
	first := doc.Scenarios[0]
	if first.Name != "recorded" || first.Settings != "" || !first.OOM || *first.OOMEvent != 790 || first.Retries != 2 || first.Segments != 31 {
		t.Errorf("recorded: %+v", first)
	}
	if *doc.MatchRate != 1 || *doc.SegmentCallRate != 1 || doc.Refused != nil {
		t.Errorf("match rate %g, of calls %g, refused %v", *doc.MatchRate, *doc.SegmentCallRate, doc.Refused)
	}
}

// Expandable segments are counted as the recording lists them, not left out.
func TestExpandableSegmentsCount(t *testing.T) {
	doc := tried(t, "frag_oom__pairwise_docs/snapshot_expandable", Options{})
	for _, o := range doc.Scenarios {
		if o.FinalReservedBytes > 0 && o.Segments == 0 {
			t.Errorf("%s: %d bytes in no segment", o.Name, o.FinalReservedBytes)
		}
	}
	if got := doc.Scenarios[0].Segments; got != 19 {
		t.Errorf("%d segments as recorded, the snapshot has 19", got)
	}
}

// The field names are a contract.
func TestDocumentSchema(t *testing.T) {
	raw, err := json.Marshal(tried(t, "qwen_vocab_oom__05b/snapshot_python", Options{}))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schema", "device", "match_rate", "refused", "scenarios"} {
		if _, ok := doc[key]; !ok {
			t.Errorf("no %q", key)
		}
	}
	scenario := doc["scenarios"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "settings", "capacity_bytes", "changes", "peak_allocated_bytes", "peak_reserved_bytes",
		"final_reserved_bytes", "segments", "oom", "oom_event", "retries", "device_calls"} {
		if _, ok := scenario[key]; !ok {
			t.Errorf("no %q in a scenario", key)
		}
	}
	if scenario["name"] != "recorded" {
		t.Errorf("the first scenario is %v", scenario["name"])
	}
}

// Advice can hurt: where no setting is better the verdict says so.
func TestVerdicts(t *testing.T) {
	for run, want := range map[string]string{
		"growing_list__step_cache/snapshot_all": "Of the recorded part only: No setting that was replayed lowers the peak",
		"frag_oom__pairwise_docs/snapshot_all": "With expandable_segments:True the request that failed would have " +
			"been met",
		"qwen_vocab_oom__05b/snapshot_all":              "No setting that was tried meets the request",
		"llama8b_full_oom__fp32_autocast/snapshot_none": "it would have failed later",
		"../scenarios/eval_oom__python":                 "What the rest of the step needs with logits=chunked isn't known.",
	} {
		if doc := tried(t, run, Options{}); !strings.Contains(doc.Verdict, want) {
			t.Errorf("%s: %q, want %q", run, doc.Verdict, want)
		}
	}
}

// Who asks for changes alone is told what they do.
func TestVerdictOnChanges(t *testing.T) {
	for change, want := range map[string]string{
		"checkpointing=full": "checkpointing=full lowers peak reserved memory from 10.21 GiB to 6.28 GiB",
		"batch=x2":           "No change that was tried lowers the peak: 10.21 GiB reserved.",
	} {
		if doc := tried(t, "gpt2_fp32_adamw__hf_loop/snapshot_roundup4", Options{Changes: []string{change}}); !strings.Contains(doc.Verdict, want) {
			t.Errorf("%s: %q, want %q", change, doc.Verdict, want)
		}
	}
}

// Who asks for changes to a program that failed is told of those, and not of settings.
func TestVerdictOnChangesToFailed(t *testing.T) {
	for _, c := range []struct {
		changes []string
		want    string
	}{
		{[]string{"checkpointing=full", "optimizer=8bit"}, "No change could be replayed: checkpointing=full: no repeated layers were " +
			"found in the forward pass: it may use checkpointing already; optimizer=8bit: no optimizer state was found in the recording."},
		{[]string{"batch=x0.9"}, "No change that was tried meets the request that failed."},
		{[]string{"logits=chunked"}, "Changes to the program that meet the request: logits=chunked (73.82 GiB left then)."},
	} {
		doc := tried(t, "qwen_vocab_oom__05b/snapshot_all", Options{Changes: c.changes})
		if !strings.HasPrefix(doc.Verdict, c.want) {
			t.Errorf("%q: %q, want %q", c.changes, doc.Verdict, c.want)
		}
	}
}

func TestRecordingsThatCantBeReplayed(t *testing.T) {
	s := open(t, filepath.Join(shipped, "mlp_regression__script/snapshot_stopped.pickle.gz"))
	doc, err := WhatIf(timeline.New(s, &s.Devices[0]), nil, Options{})
	if err != nil || doc.Refused == nil || len(doc.Scenarios) != 0 {
		t.Errorf("%+v, %v", doc, err)
	}
}

// A part of a GPU whose size nobody knows is no limit, and that is said.
func TestFractionOfUnknownGPU(t *testing.T) {
	s := open(t, filepath.Join(shipped, "mlp_regression__script/snapshot_all.pickle.gz"))
	for _, c := range []struct {
		gpu   int64
		noted bool
	}{{0, true}, {24 << 30, false}} {
		doc, err := WhatIf(timeline.New(s, &s.Devices[0]), nil, Options{Confs: []string{"per_process_memory_fraction:0.5"}, GPU: c.gpu})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(doc.Notes, "\n"), "size isn't known"); got != c.noted {
			t.Errorf("GPU of %d bytes: noted %v, %q", c.gpu, got, doc.Notes)
		}
	}
}

// A recording under one setting that claims another doesn't come out as
// recorded, and nothing is told about others.
func TestWrongSettingsAreNoticed(t *testing.T) {
	s := open(t, filepath.Join(shipped, "gpt2_fp32_adamw__hf_loop/snapshot_roundup4.pickle.gz"))
	for i := range s.Settings {
		if strings.HasPrefix(s.Settings[i].Key, "roundup_power2_divisions") {
			s.Settings[i].Value = "0"
		}
		if s.Settings[i].Key == "PYTORCH_CUDA_ALLOC_CONF" {
			s.Settings[i].Value = ""
		}
	}
	doc, err := WhatIf(timeline.New(s, &s.Devices[0]), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Refused == nil || doc.FirstMismatch == nil || len(doc.Scenarios) != 1 {
		t.Errorf("match rate %g with the wrong settings, refused: %v, %d scenarios", *doc.MatchRate, doc.Refused, len(doc.Scenarios))
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		run      string
		shortage bool // more in use and asked for than there is
		survives bool // some setting meets the request
		enough   bool // and the rest of the step
		says     string
	}{
		{"frag_oom__pairwise_docs/snapshot_all", false, true, true,
			"With expandable_segments:True the request that failed would have been met"},
		{"qwen_vocab_oom__05b/snapshot_all", true, false, false, "No setting can help"},
		{"llama8b_full_oom__fp32_autocast/snapshot_none", false, true, false, "it would have failed later"},
	} {
		t.Run(c.run, func(t *testing.T) {
			p := load(t, filepath.Join(shipped, c.run+".pickle.gz"))
			doc, err := p.WhatIf(classify.New(p.Timeline, classify.Options{}), Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := doc.Failures[0]
			if (f.MissingBytes > 0) != c.shortage {
				t.Errorf("%d bytes missing", f.MissingBytes)
			}
			survives, enough := false, false
			for _, o := range doc.Scenarios {
				if len(o.Changes) == 0 && o.Survived && o.LastEvent == f.Event {
					survives = true
					enough = enough || *o.leftThen >= f.StillToComeBytes-f.RequestedBytes
				}
			}
			if survives != c.survives || enough != c.enough {
				t.Errorf("some setting meets the request: %v, and the rest of the step fits: %v", survives, enough)
			}
			if text := f.Text + " " + doc.Verdict; !strings.Contains(text, c.says) {
				t.Errorf("%q doesn't say %q", text, c.says)
			}
			var free int64
			layout := p.Timeline.LayoutAt(f.Event)
			for _, s := range pinnedSegments(&layout) {
				var live int64
				for _, b := range s.pins {
					live += b.Bytes
				}
				if live+s.free != s.bytes || len(s.pins) == 0 {
					t.Errorf("%d in use and %d free of %d", live, s.free, s.bytes)
				}
				free += s.free
			}
			if free > f.FreeBytes || f.LiveBytes+f.FreeBytes != f.ReservedBytes {
				t.Errorf("%d free in pinned segments, %d in all, %d in use of %d", free, f.FreeBytes, f.LiveBytes,
					f.ReservedBytes)
			}
		})
	}
}

// A GPU that is smaller than what was reserved on it isn't the recorded one.
func TestDisprovedGPU(t *testing.T) {
	const run = "qwen_vocab_oom__05b/snapshot_all"
	want, got := tried(t, run, Options{}), tried(t, run, Options{GPU: 24 << 30})
	if !reflect.DeepEqual(got.Scenarios, want.Scenarios) {
		t.Errorf("%+v, without the GPU %+v", got.Scenarios, want.Scenarios)
	}
	if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, "isn't of 24.00 GiB as given") }) {
		t.Errorf("no word of it: %q", got.Notes)
	}
	for _, o := range append(got.Scenarios, tried(t, run, Options{Capacities: []int64{8 << 30, 24 << 30}, Confs: []string{"expandable_segments:True"}}).Scenarios...) {
		if o.OOM && o.ShortBytes == 0 {
			t.Errorf("%s is out of memory and lacks nothing", o.Name)
		}
	}
	if kept := tried(t, run, Options{GPU: 80 << 30}); *kept.Scenarios[0].CapacityBytes != 80<<30 {
		t.Errorf("80 GiB are taken for %d", *kept.Scenarios[0].CapacityBytes)
	}
}
