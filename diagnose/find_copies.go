package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// autocastCopies finds autocast's 16-bit copies of weights at the peak.
func (e *examination) autocastCopies(dev *report.Device, f *facts) []draft {
	bytes := f.held(classify.AutocastCopies)
	if share(bytes, dev.AtPeak.AllocatedBytes) < 5 || bytes < 32<<20 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "autocast_copies", Severity: report.Info, Confidence: 0.9},
		without: "without the copies,", worth: 1}
	d.Title = fmt.Sprintf("Autocast keeps a 16-bit copy of the weights beside them: %s, %s of the peak", units.Bytes(bytes),
		units.Percent(bytes, dev.AtPeak.AllocatedBytes))
	d.Evidence = append(siteLines(dev.Sites, classify.AutocastCopies, 1), fmt.Sprintf("the weights themselves take %s",
		units.Bytes(f.held(classify.Weights))))
	d.Fix = ptr("Hold the weights in bf16 and drop autocast: no copies, and weights and gradients take half; keep an fp32 " +
		"master copy in the optimizer if the training needs it")
	d.Code = "model = model.to(torch.bfloat16)      # and no torch.autocast around the forward pass"
	copied := map[int64]bool{} // sizes of weights that have a copy
	for i, c := range e.classes.Category {
		if id := timeline.AllocationID(i); c == classify.AutocastCopies {
			d.spells = append(d.spells, e.lifeOf(id))
			copied[2*e.t.Requested(id)] = true
		}
	}
	if f.trains {
		return []draft{d}
	}
	d.without = "without the copies and with half of what they are made of,"
	d.Fix = ptr("Hold the weights in bf16 and drop autocast: no copies, and the weights take half")
	d.Evidence = append(d.Evidence, "torch.autocast(\"cuda\", cache_enabled=False) keeps no copies, either: it casts in every "+
		"layer anew")
	for i, c := range e.classes.Category {
		if id := timeline.AllocationID(i); c == classify.Weights && copied[e.t.Requested(id)] {
			s := e.lifeOf(id)
			s.bytes /= 2
			d.spells = append(d.spells, s)
		}
	}
	return []draft{d}
}

// cacheInTraining finds keys and values that passes which are trained on cache,
// as if something were generated.
func (e *examination) cacheInTraining(dev *report.Device, f *facts) []draft {
	bytes := f.held(classify.KVCache)
	if !f.trains || bytes < 16<<20 || share(bytes, dev.AtPeak.AllocatedBytes) < 1 {
		return nil
	}
	d := draft{Finding: report.Finding{ID: "kv_cache_in_training", Severity: report.Info, Confidence: 0.9,
		Code: "out = model(**batch, use_cache=False)      # or model.config.use_cache = False, which is for evaluations, too"},
		change: "use_cache=off", most: bytes}
	d.Title = fmt.Sprintf("Keys and values are cached in passes that are trained on, which generate nothing: %s at the peak",
		units.Bytes(bytes))
	d.Evidence = siteLines(dev.Sites, classify.KVCache, 2)
	if dev.Stacks == "none" {
		d.Confidence = 0.7
	}
	d.Fix = ptr("use_cache=False when the model is called for training")
	return []draft{d}
}

// inputsKept finds batches of other steps, or a whole data set, on the GPU.
func (e *examination) inputsKept(dev *report.Device, f *facts) []draft {
	const likely = 80 // percent
	bytes := f.held(classify.Inputs)
	if share(bytes, dev.AtPeak.AllocatedBytes) < 5 || bytes < 64<<20 {
		return nil
	}
	event := e.t.Peaks.Allocated.Event
	now := e.stepAt(event)
	d := draft{Finding: report.Finding{ID: "inputs_kept", Severity: f.severity(), Confidence: 0.8, Evidence: []string{}},
		without: "with one batch at a time,", worth: 1}
	var kept []timeline.AllocationID
	var others, guessed int64
	blocks, before := 0, 0
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if c != classify.Inputs || !e.t.AliveAt(id, event) || e.classes.Step[i] == now {
			continue
		}
		others += e.t.Allocated[i]
		if e.classes.Confidence[i] < likely {
			guessed += e.t.Allocated[i]
		}
		blocks++
		if e.classes.Step[i] < 0 {
			before++
		}
		kept = append(kept, id)
		d.spells = append(d.spells, e.lifeOf(id))
	}
	if share(others, dev.AtPeak.AllocatedBytes) < 5 || others < 64<<20 || e.mostly(kept, e.leaked()) {
		return nil
	}
	what, fix := "Inputs that the step doesn't use stay on the GPU", "Keep the data on the host and move one batch at a time"
	if guessed*2 > others {
		what, fix = "What may be inputs of other steps stays on the GPU",
			"If it is data: keep it on the host and move one batch at a time"
		d.Evidence = append(d.Evidence, "nothing but when it was made tells so: a table or a buffer that every step uses "+
			"would look the same")
		d.Confidence = 0.5
	}
	d.Title = fmt.Sprintf("%s: %s, %s of the peak", what, units.Bytes(others), units.Percent(others, dev.AtPeak.AllocatedBytes))
	d.Evidence = append(d.Evidence, siteLines(dev.Sites, classify.Inputs, 2)...)
	if before == blocks {
		d.Evidence = append(d.Evidence, units.Plural(blocks, "block")+
			" loaded before the first step: a data set, or all of its batches")
	} else {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s, %d of them from steps before", units.Plural(blocks, "block"),
			blocks-before))
	}
	d.Fix = ptr(fix)
	d.Code = "loader = DataLoader(dataset, batch_size=n, pin_memory=True)\nfor x, y in loader:\n    x, y = x.to(\"cuda\", " +
		"non_blocking=True), y.to(\"cuda\", non_blocking=True)"
	return []draft{d}
}

// stepAt is the number of the step of an event, -1 outside of all.
func (e *examination) stepAt(event int) int32 {
	for i := range e.classes.Steps {
		if s := &e.classes.Steps[i]; s.FirstEvent <= event && event <= s.LastEvent {
			return int32(s.Number)
		}
	}
	return -1
}
