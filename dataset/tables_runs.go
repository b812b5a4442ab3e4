package dataset

import "github.com/apache/arrow/go/v15/arrow"

// RunTables are the tables about whole runs, made from their reports: what a
// batch writes, each as Name + ".parquet".
func RunTables() []*Table {
	return []*Table{Runs, Devices, Findings, RunCategories, OOMs, Leaks, Sites, Settings}
}

// The columns with which the tables about runs begin.
var (
	runColumn    = wordColumn("run", "name of the run: its path within the batch, or the input as given")
	deviceColumn = Column{Name: "device", Type: int32s, Doc: "ordinal of the GPU within its recording"}
	rankColumn   = Column{Name: "rank", Type: int32s, Null: true, Doc: "rank of the process within its job; null: not told"}
)

// Runs is one row for each run.
var Runs = &Table{"runs", "vramscope.runs/1", "one row for each run; what has one value per GPU is that of the GPU with the " +
	"largest allocated peak, and null without a recording", []Column{
	runColumn,
	wordOrNull("experiment", "what runs of one kind have in common: the path without numbers and dates; null: not of a batch"),
	wordOrNull("report", "folder of the run's report below runs/; null: not of a batch"),
	wordOrNull("title", "title that was given to the report"),
	wordOrNull("error", "why the run couldn't be analysed; all that follows is null or 0 then"),
	countColumn("inputs", "files that were read"),
	bytesColumn("input_bytes", "size of these files, as they are; a stream exported by itself counts 0"),
	countColumn("devices", "GPUs with a recording, over all ranks"),
	wordOrNull("recorded_by", "which PyTorch wrote the first recording, as far as its fields tell"),
	wordOrNull("severity", "of the verdict: info, warning or critical"),
	wordOrNull("verdict", "the report in one sentence"),
	wordOrNull("fix", "what to change first"),
	bytesOrNull("saves_bytes", "what that change saves; null: unknown"),
	{Name: "peak_device", Type: int32s, Null: true, Doc: "ordinal of the GPU with the largest allocated peak"},
	{Name: "peak_rank", Type: int32s, Null: true, Doc: "its rank; null: not told"},
	bytesOrNull("peak_requested_bytes", "largest sum of what the program asked for"),
	bytesOrNull("peak_allocated_bytes", "largest sum of blocks given out, rounding and unsplit tails included"),
	bytesOrNull("peak_active_bytes", "the same with blocks whose free is pending"),
	bytesOrNull("peak_reserved_bytes", "largest amount held from the driver"),
	bytesOrNull("cache_bytes", "reserved less allocated at the allocated peak"),
	bytesOrNull("end_allocated_bytes", "allocated after the last event"),
	bytesOrNull("end_reserved_bytes", "reserved after the last event"),
	bytesOrNull("capacity_bytes", "memory of the GPU; null: unknown"),
	bytesOrNull("unknown_bytes", "allocated at the allocated peak without a known category"),
	wordOrNull("history", "complete, overflowed, late or none"),
	countColumn("events", "trace entries of all GPUs"),
	countColumn("allocations", "allocations of all GPUs"),
	countColumn("steps", "largest number of steps of a GPU"),
	countColumn("ooms", "requests that failed, on all GPUs: rows of the table ooms"),
	countColumn("defects", "leaks that are defects of the program, on all GPUs"),
	bytesOrNull("leak_bytes_per_step", "growth per step by these, of the GPU that grows most; null: none or unknown"),
	timeOrNull("first_time_us", "time of the first event of all GPUs since the Unix epoch"),
	timeOrNull("last_time_us", "time of the last event of all GPUs since the Unix epoch"),
	countColumn("damage", "remarks on what can't be right in files and traces"),
	wordOrNull("model", "type of the model that the budget is of; null: no budget"),
	countOrNull("parameters", "of that model"),
	wordOrNull("setting", "of the budget: batch x sequence, precision, then optimizer and checkpointing, or inference"),
	bytesOrNull("budget_bytes", "requested memory that the run should have needed"),
	bytesOrNull("measured_bytes", "requested memory that it needed, to compare with the budget"),
	wordOrNull("best_setting", "allocator setting that saves most of reserved memory; null: not tried, or none does"),
	bytesOrNull("best_setting_saves_bytes", "what it saves"),
	{Name: "notes", Type: listOf(arrow.StructOf(required("key", text), required("value", text))),
		Doc: "notes that were given to the report"},
}}

// Devices is one row for each GPU of each run.
var Devices = &Table{"devices", "vramscope.devices/1",
	"one row for each GPU of each run: in a job of many ranks, one for each rank", []Column{
		runColumn, deviceColumn, rankColumn,
		wordOrNull("input", "file with the recording"),
		wordColumn("history", "complete, overflowed, late or none"),
		wordColumn("stacks", "languages of the recorded stacks: all, python or none"),
		countColumn("events", "trace entries"),
		countColumn("allocations", "allocations, those older than the trace included"),
		countColumn("steps", "steps"),
		bytesColumn("peak_requested_bytes", "largest sum of what the program asked for"),
		bytesColumn("peak_allocated_bytes", "largest sum of blocks given out, rounding and unsplit tails included"),
		bytesColumn("peak_active_bytes", "the same with blocks whose free is pending"),
		bytesColumn("peak_reserved_bytes", "largest amount held from the driver"),
		bytesColumn("cache_bytes", "reserved less allocated at the allocated peak"),
		bytesColumn("end_allocated_bytes", "allocated after the last event"),
		bytesColumn("end_reserved_bytes", "reserved after the last event"),
		bytesOrNull("capacity_bytes", "memory of the GPU; null: unknown"),
		countColumn("ooms", "requests that failed"),
		countColumn("defects", "leaks that are defects of the program"),
		timeOrNull("first_time_us", "time of the first event since the Unix epoch"),
		timeOrNull("last_time_us", "time of the last event since the Unix epoch"),
	}}

// Findings is one row for each finding.
var Findings = &Table{"findings", "vramscope.findings/1", "one row for each finding, in the order of the report", []Column{
	runColumn,
	{Name: "device", Type: int32s, Null: true, Doc: "ordinal of the GPU within its recording; null: of the whole run"},
	rankColumn,
	wordColumn("id", "which finding: a word that never changes its meaning"),
	wordColumn("severity", "info, warning or critical"),
	wordColumn("title", "the finding in one sentence"),
	{Name: "evidence", Type: listOf(text), Doc: "what it was told from, in numbers"},
	wordOrNull("fix", "what to change; null: nothing"),
	wordOrNull("code", "what to paste; null: nothing"),
	bytesOrNull("saves_bytes", "what the change saves; null: unknown"),
	{Name: "confidence", Type: float, Doc: "how sure it is, 0 to 1"},
}}

// RunCategories is one row for each category at two moments of each GPU.
var RunCategories = &Table{"categories", "vramscope.run_categories/1",
	"one row for each category at the allocated peak and at the end of each GPU; the rows of a moment sum to what is " +
		"allocated then", []Column{
		runColumn, deviceColumn, rankColumn,
		wordColumn("moment", "peak: right after the event of the allocated peak; end: after the last event"),
		{Name: "event", Type: int64s, Null: true,
			Doc: "index of the moment's event in the trace of the device; null: before the first event"},
		wordColumn("category", "what memory is for"),
		bytesColumn("bytes", "allocated for it"),
	}}

// OOMs is one row for each request that failed.
var OOMs = &Table{"ooms", "vramscope.ooms/2", "one row for each request that failed; where no recording of a run has one, for " +
	"each of PyTorch's messages about one in its logs", []Column{
	runColumn,
	{Name: "device", Type: int32s, Null: true, Doc: deviceColumn.Doc + ", or as the message says; null: it doesn't"},
	rankColumn,
	wordColumn("told_by", "recording or log"),
	{Name: "event", Type: int64s, Null: true, Doc: "index of the oom entry in the trace of the device; null: told by a log"},
	wordOrNull("fingerprint", "the same for the same failure in another run"),
	wordColumn("verdict", "true_shortage, fragmentation, other_process, memory_fraction or unknown"),
	wordOrNull("phase", "what the program was doing"),
	bytesOrNull("requested_bytes", "what was asked for; null: not told, here and below"),
	bytesOrNull("allocated_bytes", "allocated at that moment"),
	bytesOrNull("reserved_bytes", "reserved at that moment"),
	bytesOrNull("device_free_bytes", "what the driver had left; null: not recorded"),
	bytesOrNull("largest_free_block_bytes", "largest free block in the cache; null: not known"),
	bytesOrNull("capacity_bytes", "memory of the GPU; null: unknown"),
	wordOrNull("category", "what the request was for; null: not known"),
	wordOrNull("function", "where it was made; null: no stack, or told by a log"),
	wordOrNull("file", "of that function"),
	countOrNull("line", "in that file"),
	wordOrNull("from_function", "the user's function that led there, when function is a library's"),
	wordOrNull("from_file", "of that function"),
	countOrNull("from_line", "in that file"),
	wordOrNull("op", "operator or autograd node that asked, or torch.compile"),
	wordOrNull("fix", "what to change first"),
	timeOrNull("first_time_us", "time of the first event of the device since the Unix epoch"),
	timeOrNull("last_time_us", "time of the last event of the device since the Unix epoch"),
	{Name: "pinned_by", Type: listOf(arrow.StructOf(required("address", uint64s), required("bytes", int64s),
		optional("category", text),
		optional("function", text), optional("file", text), optional("line", int64s))),
		Doc: "blocks that keep free memory from being given back, with their size in bytes"},
}}

// Leaks is one row for each thing that grows from step to step.
var Leaks = &Table{"leaks", "vramscope.leaks/1", "one row for each thing that grows from step to step, or looks as if it did",
	[]Column{
		runColumn, deviceColumn, rankColumn,
		{Name: "leak", Type: int32s, Doc: "index within the device, as in the table allocations"},
		wordColumn("kind", "growing_list, retained_graph, gradients_kept, stale_outputs, fragmentation_creep, varying_shapes "+
			"or first_step_state"),
		{Name: "defect", Type: boolean, Doc: "a defect of the program, not only a cost"},
		{Name: "suspected", Type: boolean, Doc: "too few steps speak for it to be sure"},
		wordOrNull("category", "what the memory is for"),
		wordOrNull("function", "where it is probably kept; null: no stack shows it"),
		wordOrNull("file", "of that function"),
		countOrNull("line", "in that file"),
		bytesOrNull("bytes_per_step", "growth; null: no growth per step"),
		countColumn("steps", "steps that it was seen in"),
		bytesColumn("total_bytes", "all of it at the end"),
		{Name: "confidence", Type: float, Doc: "how sure it is, 0 to 1"},
		wordColumn("fix", "what to change"),
		countOrNull("full_at_step", "the step in which it will hit the capacity; null: unknown"),
		{Name: "sites", Type: listOf(arrow.StructOf(required("function", text), required("file", text), optional("line", int64s),
			required("bytes", int64s))),
			Doc: "the user's lines on the stacks of what survives, most bytes first, with their bytes"},
	}}
