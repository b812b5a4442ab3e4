package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/record"
	"github.com/vramscope/vramscope/report"
)

// findings are the things worth knowing about a device, worst first.
func (e *examination) findings(dev *report.Device) []report.Finding {
	out := []report.Finding{}
	for _, rule := range []func(*report.Device) []report.Finding{e.oomFindings, e.leakFindings, e.recordingFindings, e.damageFindings, e.poolFindings} {
		out = append(out, rule(dev)...)
	}
	rank := map[report.Severity]int{report.Critical: 0, report.Warning: 1, report.Info: 2}
	slices.SortStableFunc(out, func(a, b report.Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return out
}

// how is the code of a recipe.
func how(name string) string {
	r, _ := record.Find(name)
	return r.Code
}

// recordingFindings say what the recording can't answer, and how to record so
// that it can.
func (e *examination) recordingFindings(dev *report.Device) []report.Finding {
	var out []report.Finding
	add := func(id string, severity report.Severity, title, fix, recipe string, evidence ...string) {
		out = append(out, report.Finding{ID: id, Severity: severity, Title: title, Evidence: evidence, Fix: &fix, Confidence: 1, Code: how(recipe)})
	}
	switch dev.History {
	case "none":
		id := "recording_empty"
		if dev.Stacks != "none" || dev.Events > 0 {
			id = "recording_stopped"
		}
		add(id, report.Warning, "The recording holds no history: only what was there at the dump can be said",
			"Switch recording on before the model is built, and dump before it is switched off", "loop", dev.HistoryReason)
	case "late":
		if e.t.Snapshot.Cut < 0 {
			add("recording_late", report.Info, fmt.Sprintf("Recording began late: %s (%s) are older than it", report.Plural(dev.Older, "block"), report.Bytes(e.t.Start.Allocated)),
				"Switch recording on before the model is built", "loop", dev.HistoryReason)
		}
	case "overflowed":
		add("recording_overflowed", report.Warning, "The recorder's ring buffer was too small: the oldest events are lost",
			"Raise max_entries, or record fewer steps", "loop", dev.HistoryReason, fmt.Sprintf("%s are left", report.Plural(dev.Events, "event")))
	}
	if dev.Stacks == "none" && dev.Allocations > 0 {
		add("recording_without_stacks", report.Info, "No stacks were recorded: no line of code can be named",
			"Record with context=\"all\" and stacks=\"all\", which are the defaults", "loop", fmt.Sprintf("%s without a stack", report.Plural(dev.Allocations, "allocation")))
	} else if dev.Stacks == "python" && dev.History != "none" {
		add("recording_without_stacks", report.Info, "Only Python stacks were recorded: allocations of the backward pass have none",
			"Record with stacks=\"all\", which is the default", "loop")
	}
	return out
}

// maxDamage is how many contradictions a finding lists.
const maxDamage = 10

func (e *examination) damageFindings(dev *report.Device) []report.Finding {
	var all []string
	if cut := e.t.Snapshot.Cut; cut >= 0 {
		all = append(all, fmt.Sprintf("the file ends at offset %d: only events before that are shown, on top of an unknown beginning, so levels are lower bounds", cut))
	}
	all = append(append(all, e.t.Snapshot.Damage...), dev.Damage...)
	if len(all) == 0 {
		return nil
	}
	title := "The file contradicts itself: " + all[0]
	if len(all) > maxDamage {
		all = append(all[:maxDamage:maxDamage], fmt.Sprintf("and %d more", len(all)-maxDamage))
	}
	return []report.Finding{{ID: "damage", Severity: report.Warning, Title: title, Evidence: all, Confidence: 1,
		Fix: ptr("Dump again if you can; take figures that touch the damaged parts with care")}}
}

func (e *examination) poolFindings(dev *report.Device) []report.Finding {
	if len(dev.Pools) == 0 {
		return nil
	}
	f := report.Finding{ID: "private_pools", Severity: report.Info, Confidence: 1}
	var bytes, used int64
	for _, p := range dev.Pools {
		bytes, used = bytes+p.Bytes, used+p.Used
		f.Evidence = append(f.Evidence, fmt.Sprintf("pool %s: %s in %s, %s in use", p.Pool, report.Bytes(p.Bytes), report.Plural(p.Segments, "segment"), report.Bytes(p.Used)))
	}
	f.Title = fmt.Sprintf("%s lie in private pools (CUDA graphs, MemPools), %s of it free for nobody else", report.Bytes(bytes), report.Bytes(bytes-used))
	return []report.Finding{f}
}

// firstChange is what usually costs least against each kind of memory.
var firstChange = map[string]string{
	"weights":         "Load the weights in 16 bits, or shard them over GPUs (FSDP, ZeRO-3), or train adapters (LoRA) on quantised ones",
	"gradients":       "Shard the gradients (FSDP, ZeRO-2), or step the optimizer inside the backward pass so that they never live all at once",
	"optimizer_state": "An optimizer with less state (8-bit AdamW, Adafactor, Lion), or shard it (FSDP, ZeRO-1), or offload it",
	"activations":     "Activation checkpointing, or a smaller batch with gradient accumulation: activations grow with the tokens of a batch",
	"logits":          "Chunked or fused cross-entropy, so that the logits of all tokens never exist at once; or a smaller batch",
	"kv_cache":        "A shorter context or fewer sequences at once, a quantised cache, or use_cache=False in training",
	"inputs":          "Keep the data set on the host and move one batch at a time",
	"autocast_copies": "Hold the weights in bf16 from the start: autocast keeps a second copy of each in 16 bits",
	"communication":   "Smaller buckets (bucket_cap_mb), or gradient_as_bucket_view=True",
	"workspace":       "CUBLAS_WORKSPACE_CONFIG bounds cuBLAS's workspaces",
	"temporary":       "Process in smaller pieces: what fills the GPU lives only within single operations or between them",
	"unknown":         "Hold less at the peak: the table of call sites says where it goes",
}

// oomFindings explain each kind of failed request once.
func (e *examination) oomFindings(dev *report.Device) []report.Finding {
	var out []report.Finding
	seen := map[string]bool{}
	for _, o := range dev.OOMs {
		if seen[o.Verdict] {
			continue
		}
		seen[o.Verdict] = true
		out = append(out, oomFinding(&o, dev))
	}
	return out
}

func oomFinding(o *report.OOM, dev *report.Device) report.Finding {
	free := o.ReservedBytes - o.AllocatedBytes
	f := report.Finding{ID: "oom_" + o.Verdict, Severity: report.Critical, Confidence: 0.9, Evidence: []string{
		fmt.Sprintf("event %s: %s asked for, %s allocated, %s reserved", report.Count(o.Event), report.Bytes(o.RequestedBytes), report.Bytes(o.AllocatedBytes), report.Bytes(o.ReservedBytes))}}
	block := "an unknown size"
	if o.LargestFreeBlock != nil {
		block = report.Bytes(*o.LargestFreeBlock)
	}
	if o.DeviceFreeBytes != nil {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s left on the device; %s free in PyTorch's cache, its largest block %s", report.Bytes(*o.DeviceFreeBytes), report.Bytes(free), block))
	}
	switch o.Verdict {
	case "true_shortage":
		f.Title = fmt.Sprintf("A request of %s found no room, and all free memory together would not have been enough", report.Bytes(o.RequestedBytes))
		name, bytes := largest(dev.AtPeak.Categories)
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s is the largest part of what was held: %s", strings.ReplaceAll(name, "_", " "), report.Bytes(bytes)))
		f.Fix = ptr(firstChange[name])
	case "fragmentation":
		f.Title = fmt.Sprintf("A request of %s failed although enough memory was free, in pieces that are too small", report.Bytes(o.RequestedBytes))
		f.Fix = ptr("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate the largest tensors first")
	case "memory_fraction":
		f.Title = fmt.Sprintf("A request of %s was refused by a limit below the device's size", report.Bytes(o.RequestedBytes))
		f.Fix = ptr("Raise torch.cuda.set_per_process_memory_fraction, or hold less")
	case "other_process":
		f.Title = fmt.Sprintf("A request of %s failed because others hold memory on the same GPU", report.Bytes(o.RequestedBytes))
		f.Fix = ptr("Find them with nvidia-smi and stop them, or move to a free GPU")
	default:
		f.ID = "oom_true_shortage"
		f.Confidence = 0.3
		f.Title = fmt.Sprintf("A request of %s failed; what was left on the device was not recorded", report.Bytes(o.RequestedBytes))
		f.Fix = ptr("Give the GPU's size with --gpu, or the log with the error message")
	}
	return f
}
