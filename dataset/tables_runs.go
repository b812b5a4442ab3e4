package dataset

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/vramscope/vramscope/report"
)

// RunTables are the tables about whole runs, made from their reports: what a
// batch writes, each as Name + ".parquet".
func RunTables() []*Table {
	return []*Table{Runs, Devices, Findings, RunCategories, OOMs, Leaks, Sites, Settings}
}

// The columns with which the tables about runs begin.
var (
	runColumn = ofOwner(wordColumn("run", "name of the run: its path within the batch, or the input as given"),
		func(o *owner) any { return o.run })
	deviceColumn = ofOwner(Column{Name: "device", Type: int32s, Doc: "ordinal of the GPU within its recording"},
		func(o *owner) any { return o.device })
	rankColumn = ofOwner(Column{Name: "rank", Type: int32s, Null: true,
		Doc: "rank of the process within its job; null: not told"}, func(o *owner) any { return o.rank })
)

// Runs is one row for each run.
var Runs = &Table{"runs", "vramscope.runs/1", "one row for each run; what has one value per GPU is that of the GPU with the " +
	"largest allocated peak, and null without a recording", []Column{
	runColumn,
	of(wordOrNull("experiment", "what runs of one kind have in common: the path without numbers and dates; null: not of a batch"),
		func(r *runRow) any { return r.experiment }),
	of(wordOrNull("report", "folder of the run's report below runs/; null: not of a batch"),
		func(r *runRow) any { return r.report }),
	of(wordOrNull("title", "title that was given to the report"), func(r *runRow) any { return r.doc.Title }),
	of(wordOrNull("error", "why the run couldn't be analysed; all that follows is null or 0 then"),
		func(r *runRow) any { return r.failed }),
	of(countColumn("inputs", "files that were read"), func(r *runRow) any { return len(r.doc.Inputs) }),
	of(bytesColumn("input_bytes", "size of these files, as they are; a stream exported by itself counts 0"),
		func(r *runRow) any { return r.inputBytes }),
	of(countColumn("devices", "GPUs with a recording, over all ranks"), func(r *runRow) any { return len(r.doc.Devices) }),
	of(wordOrNull("recorded_by", "which PyTorch wrote the first recording, as far as its fields tell"),
		func(r *runRow) any { return r.era }),
	of(wordOrNull("severity", "of the verdict: info, warning or critical"),
		func(r *runRow) any { return string(r.doc.Verdict.Severity) }),
	of(wordOrNull("verdict", "the report in one sentence"), func(r *runRow) any { return r.doc.Verdict.Text }),
	of(wordOrNull("fix", "what to change first"), func(r *runRow) any { return r.doc.Verdict.Fix }),
	of(bytesOrNull("saves_bytes", "what that change saves; null: unknown"),
		func(r *runRow) any { return r.doc.Verdict.SavesBytes }),
	of(Column{Name: "peak_device", Type: int32s, Null: true, Doc: "ordinal of the GPU with the largest allocated peak"},
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.Device }) }),
	of(Column{Name: "peak_rank", Type: int32s, Null: true, Doc: "its rank; null: not told"},
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.Rank }) }),
	of(bytesOrNull("peak_requested_bytes", "largest sum of what the program asked for"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.Peaks.Requested.Bytes }) }),
	of(bytesOrNull("peak_allocated_bytes", "largest sum of blocks given out, rounding and unsplit tails included"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.Peaks.Allocated.Bytes }) }),
	of(bytesOrNull("peak_active_bytes", "the same with blocks whose free is pending"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.Peaks.Active.Bytes }) }),
	of(bytesOrNull("peak_reserved_bytes", "largest amount held from the driver"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.Peaks.Reserved.Bytes }) }),
	of(bytesOrNull("cache_bytes", "reserved less allocated at the allocated peak"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.AtPeak.CacheBytes }) }),
	of(bytesOrNull("end_allocated_bytes", "allocated after the last event"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.AtEnd.AllocatedBytes }) }),
	of(bytesOrNull("end_reserved_bytes", "reserved after the last event"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.AtEnd.ReservedBytes }) }),
	of(bytesOrNull("capacity_bytes", "memory of the GPU; null: unknown"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return d.CapacityBytes }) }),
	of(bytesOrNull("unknown_bytes", "allocated at the allocated peak without a known category"),
		func(r *runRow) any { return r.ofFullest(unknownBytes) }),
	of(wordOrNull("history", "complete, overflowed, late or none"),
		func(r *runRow) any { return r.ofFullest(func(d *report.Device) any { return &d.History }) }),
	of(countColumn("events", "trace entries of all GPUs"), func(r *runRow) any { return r.events }),
	of(countColumn("allocations", "allocations of all GPUs"), func(r *runRow) any { return r.allocations }),
	of(countColumn("steps", "largest number of steps of a GPU"), func(r *runRow) any { return r.steps }),
	of(countColumn("ooms", "requests that failed, on all GPUs: rows of the table ooms"), func(r *runRow) any { return r.ooms }),
	of(countColumn("defects", "leaks that are defects of the program, on all GPUs"), func(r *runRow) any { return r.defects }),
	of(bytesOrNull("leak_bytes_per_step", "growth per step by these, of the GPU that grows most; null: none or unknown"),
		func(r *runRow) any { return r.growth }),
	of(timeOrNull("first_time_us", "time of the first event of all GPUs since the Unix epoch"),
		func(r *runRow) any { return r.first }),
	of(timeOrNull("last_time_us", "time of the last event of all GPUs since the Unix epoch"),
		func(r *runRow) any { return r.last }),
	of(countColumn("damage", "remarks on what can't be right in files and traces"), func(r *runRow) any { return r.damage }),
	of(wordOrNull("model", "type of the model that the budget is of, or its name as a tracker or a note has it; null: not told"),
		func(r *runRow) any { return r.model() }),
	of(countOrNull("parameters", "of that model"),
		func(r *runRow) any {
			return r.ofBudget(func(b *report.BudgetFigures) any { return b.Model.Parameters })
		}),
	of(wordOrNull("setting", "of the budget: batch x sequence, precision, then optimizer and checkpointing, or inference"),
		func(r *runRow) any { return r.ofBudget(settingText) }),
	of(bytesOrNull("budget_bytes", "requested memory that the run should have needed"),
		func(r *runRow) any {
			return r.ofBudget(func(b *report.BudgetFigures) any { return b.Expected.PeakBytes })
		}),
	of(bytesOrNull("measured_bytes", "requested memory that it needed, to compare with the budget"),
		func(r *runRow) any {
			return r.ofBudget(func(b *report.BudgetFigures) any { return b.Measured.PeakBytes })
		}),
	of(wordOrNull("best_setting", "allocator setting that saves most of reserved memory; null: not tried, or none does"),
		func(r *runRow) any { return r.bestName }),
	of(bytesOrNull("best_setting_saves_bytes", "what it saves"), func(r *runRow) any { return r.bestSaves }),
	of(wordOrNull("tracker", "whose files tell of the run: Trainer, TensorBoard, W&B, MLflow, Lightning, CSV, or log for what "+
		"the program printed; null: none"),
		func(r *runRow) any { return r.set.Tracker }),
	of(countOrNull("batch_size", "samples of one pass on a GPU, as a tracker or a note says"),
		func(r *runRow) any { return r.set.BatchSize }),
	of(countOrNull("sequence_length", "tokens of a sample, likewise"), func(r *runRow) any { return r.set.SequenceLength }),
	of(wordOrNull("precision", "likewise"), func(r *runRow) any { return r.set.Precision }),
	of(wordOrNull("optimizer", "likewise"), func(r *runRow) any { return r.set.Optimizer }),
	of(countOrNull("gpus", "likewise"), func(r *runRow) any { return r.set.GPUs }),
	of(countOrNull("tokens_per_step", "batch x sequence x accumulated passes x GPUs, as far as these are told"),
		func(r *runRow) any { return r.set.TokensPerStep }),
	of(countOrNull("logged_steps", "most steps that a log or tracker tells"), func(r *runRow) any { return r.loggedSteps }),
	of(bytesOrNull("logged_peak_bytes", "largest memory that logs and trackers tell, allocated where they say so"),
		func(r *runRow) any { return r.loggedPeak }),
	of(bytesOrNull("monitored_peak_bytes", "largest memory in use that a monitor saw on a GPU"),
		func(r *runRow) any { return r.monitoredPeak }),
	of(Column{Name: "step_seconds", Type: arrow.PrimitiveTypes.Float64, Null: true, Unit: "s",
		Doc: "median time of a step, by the log with most steps that tells it"},
		func(r *runRow) any { return r.stepSeconds }),
	of(Column{Name: "final_loss", Type: arrow.PrimitiveTypes.Float64, Null: true,
		Doc: "last loss of the training that a tracker has"},
		func(r *runRow) any { return r.set.FinalLoss }),
	of(Column{Name: "notes", Type: listOf(arrow.StructOf(required("key", text), required("value", text))),
		Doc: "notes that were given to the report"},
		func(r *runRow) any {
			return list{len(r.doc.Notes), func(i int) []any { return []any{r.doc.Notes[i].Key, r.doc.Notes[i].Value} }}
		}),
}, runRows}

// Devices is one row for each GPU of each run.
var Devices = &Table{"devices", "vramscope.devices/1",
	"one row for each GPU of each run: in a job of many ranks, one for each rank", []Column{
		runColumn,
		deviceColumn,
		rankColumn,
		of(wordOrNull("input", "file with the recording"), func(g *gpuRow) any { return g.input }),
		of(wordColumn("history", "complete, overflowed, late or none"), func(g *gpuRow) any { return g.History }),
		of(wordColumn("stacks", "languages of the recorded stacks: all, python or none"),
			func(g *gpuRow) any { return g.Stacks }),
		of(countColumn("events", "trace entries"), func(g *gpuRow) any { return g.Events }),
		of(countColumn("allocations", "allocations, those older than the trace included"),
			func(g *gpuRow) any { return g.Allocations }),
		of(countColumn("steps", "steps"), func(g *gpuRow) any { return len(g.Steps) }),
		of(bytesColumn("peak_requested_bytes", "largest sum of what the program asked for"),
			func(g *gpuRow) any { return g.Peaks.Requested.Bytes }),
		of(bytesColumn("peak_allocated_bytes", "largest sum of blocks given out, rounding and unsplit tails included"),
			func(g *gpuRow) any { return g.Peaks.Allocated.Bytes }),
		of(bytesColumn("peak_active_bytes", "the same with blocks whose free is pending"),
			func(g *gpuRow) any { return g.Peaks.Active.Bytes }),
		of(bytesColumn("peak_reserved_bytes", "largest amount held from the driver"),
			func(g *gpuRow) any { return g.Peaks.Reserved.Bytes }),
		of(bytesColumn("cache_bytes", "reserved less allocated at the allocated peak"),
			func(g *gpuRow) any { return g.AtPeak.CacheBytes }),
		of(bytesColumn("end_allocated_bytes", "allocated after the last event"),
			func(g *gpuRow) any { return g.AtEnd.AllocatedBytes }),
		of(bytesColumn("end_reserved_bytes", "reserved after the last event"),
			func(g *gpuRow) any { return g.AtEnd.ReservedBytes }),
		of(bytesOrNull("capacity_bytes", "memory of the GPU; null: unknown"), func(g *gpuRow) any { return g.CapacityBytes }),
		of(countColumn("ooms", "requests that failed"), func(g *gpuRow) any { return g.Failed() }),
		of(countColumn("defects", "leaks that are defects of the program"), func(g *gpuRow) any { return defects(g.Device) }),
		of(timeOrNull("first_time_us", "time of the first event since the Unix epoch"),
			func(g *gpuRow) any { return g.FirstTime }),
		of(timeOrNull("last_time_us", "time of the last event since the Unix epoch"), func(g *gpuRow) any { return g.LastTime }),
	}, deviceRows}

// Findings is one row for each finding.
var Findings = &Table{"findings", "vramscope.findings/1", "one row for each finding, in the order of the report", []Column{
	runColumn,
	of(Column{Name: "device", Type: int32s, Null: true, Doc: "ordinal of the GPU within its recording; null: of the whole run"},
		func(f *findingRow) any { return f.device }),
	rankColumn,
	of(wordColumn("id", "which finding: a word that never changes its meaning"), func(f *findingRow) any { return f.ID }),
	of(wordColumn("severity", "info, warning or critical"), func(f *findingRow) any { return string(f.Severity) }),
	of(wordColumn("title", "the finding in one sentence"), func(f *findingRow) any { return f.Title }),
	of(Column{Name: "evidence", Type: listOf(text), Doc: "what it was told from, in numbers"},
		func(f *findingRow) any { return f.Evidence }),
	of(wordOrNull("fix", "what to change; null: nothing"), func(f *findingRow) any { return f.Fix }),
	of(wordOrNull("fix_id", "a word for that change which is the same in other runs; null: none"),
		func(f *findingRow) any { return f.FixID }),
	of(wordOrNull("code", "what to paste; null: nothing"), func(f *findingRow) any { return f.Code }),
	of(bytesOrNull("saves_bytes", "what the change saves; null: unknown"), func(f *findingRow) any { return f.SavesBytes }),
	of(Column{Name: "confidence", Type: float, Doc: "how sure it is, 0 to 1"}, func(f *findingRow) any { return f.Confidence }),
}, findingRows}

// RunCategories is one row for each category at two moments of each GPU.
var RunCategories = &Table{"categories", "vramscope.run_categories/1",
	"one row for each category at the allocated peak and at the end of each GPU; the rows of a moment sum to what is " +
		"allocated then", []Column{
		runColumn,
		deviceColumn,
		rankColumn,
		of(wordColumn("moment", "peak: right after the event of the allocated peak; end: after the last event"),
			func(m *momentRow) any { return m.moment }),
		of(Column{Name: "event", Type: int64s, Null: true,
			Doc: "index of the moment's event in the trace of the device; null: before the first event"},
			func(m *momentRow) any { return m.event }),
		of(wordColumn("category", "what memory is for"), func(m *momentRow) any { return m.category }),
		of(bytesColumn("bytes", "allocated for it"), func(m *momentRow) any { return m.bytes }),
	}, momentRows}

// OOMs is one row for each request that failed.
var OOMs = &Table{"ooms", "vramscope.ooms/2", "one row for each request that failed; where no recording of a run has one, for " +
	"each of PyTorch's messages about one in its logs", []Column{
	runColumn,
	of(Column{Name: "device", Type: int32s, Null: true, Doc: deviceColumn.Doc + ", or as the message says; null: it doesn't"},
		func(o *oomRow) any { return o.device }),
	rankColumn,
	of(wordColumn("told_by", "recording or log"), func(o *oomRow) any { return o.toldBy }),
	of(Column{Name: "event", Type: int64s, Null: true, Doc: "index of the oom entry in the trace of the device; null: told by " +
		"a log"}, func(o *oomRow) any { return o.event }),
	of(wordOrNull("fingerprint", "the same for the same failure in another run"), func(o *oomRow) any { return o.fingerprint }),
	of(wordColumn("verdict", "true_shortage, fragmentation, other_process, memory_fraction or unknown"),
		func(o *oomRow) any { return o.verdict }),
	of(wordOrNull("phase", "what the program was doing"), func(o *oomRow) any { return o.phase }),
	of(bytesOrNull("requested_bytes", "what was asked for; null: not told, here and below"),
		func(o *oomRow) any { return o.requested }),
	of(bytesOrNull("allocated_bytes", "allocated at that moment"), func(o *oomRow) any { return o.allocated }),
	of(bytesOrNull("reserved_bytes", "reserved at that moment"), func(o *oomRow) any { return o.reserved }),
	of(bytesOrNull("device_free_bytes", "what the driver had left; null: not recorded"),
		func(o *oomRow) any { return o.deviceFree }),
	of(bytesOrNull("largest_free_block_bytes", "largest free block in the cache; null: not known"),
		func(o *oomRow) any { return o.largestFree }),
	of(bytesOrNull("capacity_bytes", "memory of the GPU; null: unknown"), func(o *oomRow) any { return o.capacity }),
	of(wordOrNull("category", "what the request was for; null: not known"), func(o *oomRow) any { return o.site.Category }),
	of(wordOrNull("function", "where it was made; null: no stack, or told by a log"),
		func(o *oomRow) any { return o.site.Function }),
	of(wordOrNull("file", "of that function"), func(o *oomRow) any { return o.site.File }),
	of(countOrNull("line", "in that file"), func(o *oomRow) any { return o.site.Line }),
	of(wordOrNull("from_function", "the user's function that led there, when function is a library's"),
		func(o *oomRow) any { return o.from.Function }),
	of(wordOrNull("from_file", "of that function"), func(o *oomRow) any { return o.from.File }),
	of(countOrNull("from_line", "in that file"), func(o *oomRow) any { return o.from.Line }),
	of(wordOrNull("op", "operator or autograd node that asked, or torch.compile"), func(o *oomRow) any { return o.site.Op }),
	of(wordOrNull("fix", "what to change first"), func(o *oomRow) any { return o.fix }),
	of(wordOrNull("fix_id", "a word for that change which is the same in other runs; null: none, or none is known"),
		func(o *oomRow) any { return o.fixID }),
	of(timeOrNull("first_time_us", "time of the first event of the device since the Unix epoch"),
		func(o *oomRow) any { return o.first }),
	of(timeOrNull("last_time_us", "time of the last event of the device since the Unix epoch"),
		func(o *oomRow) any { return o.last }),
	of(Column{Name: "pinned_by", Type: listOf(arrow.StructOf(required("address", uint64s), required("bytes", int64s),
		optional("category", text), optional("function", text), optional("file", text), optional("line", int64s))),
		Doc: "blocks that keep free memory from being given back, with their size in bytes"},
		func(o *oomRow) any {
			return list{len(o.pinnedBy), func(i int) []any {
				p := &o.pinnedBy[i]
				return []any{p.Address, p.Bytes, p.Category, p.Function, p.File, p.Line}
			}}
		}),
}, oomRows}

// Leaks is one row for each thing that grows from step to step.
var Leaks = &Table{"leaks", "vramscope.leaks/1", "one row for each thing that grows from step to step, or looks as if it did",
	[]Column{
		runColumn,
		deviceColumn,
		rankColumn,
		of(Column{Name: "leak", Type: int32s, Doc: "index within the device, as in the table allocations"},
			func(l *leakRow) any { return l.index }),
		of(wordColumn("kind", "growing_list, retained_graph, gradients_kept, stale_outputs, fragmentation_creep, varying_shapes "+
			"or first_step_state"), func(l *leakRow) any { return l.Kind }),
		of(Column{Name: "defect", Type: boolean, Doc: "a defect of the program, not only a cost"},
			func(l *leakRow) any { return l.Defect }),
		of(Column{Name: "suspected", Type: boolean, Doc: "too few steps speak for it to be sure"},
			func(l *leakRow) any { return l.Suspected }),
		of(wordOrNull("category", "what the memory is for"), func(l *leakRow) any { return l.Category }),
		of(wordOrNull("function", "where it is probably kept; null: no stack shows it"),
			func(l *leakRow) any { return l.Function }),
		of(wordOrNull("file", "of that function"), func(l *leakRow) any { return l.File }),
		of(countOrNull("line", "in that file"), func(l *leakRow) any { return l.Line }),
		of(bytesOrNull("bytes_per_step", "growth; null: no growth per step"), func(l *leakRow) any { return l.BytesPerStep }),
		of(countColumn("steps", "steps that it was seen in"), func(l *leakRow) any { return l.Steps }),
		of(bytesColumn("total_bytes", "all of it at the end"), func(l *leakRow) any { return l.TotalBytes }),
		of(Column{Name: "confidence", Type: float, Doc: "how sure it is, 0 to 1"}, func(l *leakRow) any { return l.Confidence }),
		of(wordColumn("fix", "what to change"), func(l *leakRow) any { return l.Fix }),
		of(countOrNull("full_at_step", "the step in which it will hit the capacity; null: unknown"),
			func(l *leakRow) any { return l.FullAtStep }),
		of(Column{Name: "sites", Type: listOf(arrow.StructOf(required("function", text), required("file", text),
			optional("line", int64s), required("bytes", int64s))),
			Doc: "the user's lines on the stacks of what survives, most bytes first, with their bytes"},
			func(l *leakRow) any {
				return list{len(l.Sites), func(i int) []any {
					s := &l.Sites[i]
					return []any{s.Function, s.File, s.Line, s.Bytes}
				}}
			}),
	}, leakRows}
