package dataset

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/vramscope/vramscope/classify"
)

// RecordingTables are the tables of one recording's facts, the longest first.
func RecordingTables() []*Table {
	return []*Table{Events, Allocations, Categories, Stacks, Segments, Blocks, Holders, Host}
}

var (
	addressColumn = Column{Name: "address", Type: uint64s, Doc: "where it begins in the GPU's address space"}
	streamColumn  = Column{Name: "stream", Type: uint64s, Doc: "CUDA stream handle as recorded; 0: the default stream"}
	stackColumn   = Column{Name: "stack", Type: uint32s, Null: true, Doc: "row of the table stacks; null: not recorded"}
)

var (
	metadataColumn = Column{Name: "user_metadata", Type: numbers, Null: true,
		Doc: "what the program said of it by torch.cuda.memory._set_memory_metadata; null: nothing"}
	forwardColumn = Column{Name: "forward_stack", Type: uint32s, Null: true,
		Doc: "row of the table stacks: where the forward operation of a backward allocation ran; null: not recorded"}
)

const poolDoc = "private memory pool as torch prints its id; (0, 0): the default pool"

// eventColumn is a moment of a device's trace.
func eventColumn(name, doc string) Column {
	return Column{Name: name, Type: uint32s, Null: true, Doc: doc}
}

// Events is one row for each trace entry.
var Events = &Table{"events", "vramscope.events/1", "one row for each trace entry of each GPU, oldest first", []Column{
	deviceColumn,
	{Name: "event", Type: uint32s, Doc: "index of the entry in the trace of its device"},
	{Name: "action", Type: codes, Doc: "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, " +
		"segment_unmap, oom, snapshot or annotate"},
	addressColumn,
	bytesColumn("bytes", "size as recorded: asked for by the program in allocations and frees, whole for segments"),
	streamColumn,
	timeOrNull("time_us", "since the Unix epoch; not unique; null: not recorded"),
	stackColumn,
	{Name: "pool", Type: numbers, Doc: poolDoc},
	{Name: "allocation", Type: uint32s, Null: true, Doc: "row of the table allocations; null: concerns none"},
	metadataColumn,
	{Name: "internal_metadata", Type: numbers, Null: true, Doc: "what PyTorch said of it; null: nothing"},
	{Name: "compile_context", Type: numbers, Null: true, Doc: "the compiled region it happened in; null: none"},
	forwardColumn,
}, nil}

// Allocations is one row for each allocation.
var Allocations = &Table{"allocations", "vramscope.allocations/1",
	"one row for each allocation of each GPU: blocks older than the trace first, by address, then in the order of the trace",
	[]Column{
		deviceColumn,
		{Name: "allocation", Type: uint32s, Doc: "index within its device"},
		eventColumn("alloc_event", "index of its alloc event; null: older than the trace"),
		eventColumn("free_event", "index of its free_requested event, of its free_completed where the trace has no requests; "+
			"null: never, or free_before_trace"),
		eventColumn("free_completed_event", "index of its free_completed event, from which on the block is free; null: never"),
		addressColumn,
		bytesColumn("requested_bytes", "what the program asked for"),
		bytesColumn("allocated_bytes", "the block given out for it, rounding and unsplit tail included"),
		streamColumn,
		stackColumn,
		{Name: "category", Type: codes, Doc: "what the memory is for; unknown is one of the answers"},
		{Name: "detail", Type: codes, Null: true,
			Doc: "the kind of thing within the category; null: one kind only, or not known"},
		{Name: "name", Type: numbers, Null: true, Doc: "of the tensor, from labels or the model's configuration; null: unnamed"},
		{Name: "confidence", Type: float, Doc: "how sure the category is, 0 to 1"},
		{Name: "signal", Type: codes, Doc: "the evidence that decided the category"},
		{Name: "phase", Type: codes, Doc: "what the program was doing when it was made"},
		{Name: "step", Type: int32s, Doc: "in which it was made; -1: before the first"},
		{Name: "leak", Type: int32s, Null: true, Doc: "row of the table leaks, within its device; null: part of none"},
		{Name: "free_before_trace", Type: boolean,
			Doc: "its free was requested before the trace: active until it is completed, but allocated no more"},
		{Name: "rule", Type: codes, Null: true, Doc: "of doc/classification.md, that decided the category; null: none spoke"},
		{Name: "holder", Type: numbers, Null: true, Doc: "path of the variable that holds it, itself or by the autograd graph " +
			"behind a tensor, when variables were looked for; null: none was found"},
		metadataColumn, forwardColumn,
	}, nil}

// Stacks is one row for each distinct stack, the same for all devices.
var Stacks = &Table{"stacks", "vramscope.stacks/1", "one row for each distinct stack", []Column{
	of(Column{Name: "stack", Type: uint32s, Doc: "number that the other tables refer to, from 1"},
		func(s *stackRow) any { return s.id }),
	of(Column{Name: "frames", Type: listOf(arrow.StructOf(required("function", words), required("file", words),
		required("line", int32s), required("language", words), optional("fx_op", words), optional("fx_name", words),
		optional("fx_target", words), optional("fx_info", words), optional("fx_original_trace", words))),
		Doc: "innermost first; language is python, cpp or other; fx_ says which node of a torch.fx graph a generated line " +
			"runs, and which code of the model that was"},
		func(s *stackRow) any { return list{len(s.frames), s.line} }),
}, nil}

// Segments is one row for each segment at some moment.
var Segments = &Table{"segments", "vramscope.segments/1",
	"one row for each segment at one moment, the end unless another was asked for", []Column{
		deviceColumn,
		of(Column{Name: "segment", Type: uint32s, Doc: "index by address at that moment"},
			func(s *segmentRow) any { return s.index }),
		of(addressColumn, func(s *segmentRow) any { return s.Address }),
		of(bytesColumn("bytes", "held from the driver"), func(s *segmentRow) any { return s.Bytes }),
		of(bytesColumn("used_bytes", "in blocks that are in use"), func(s *segmentRow) any { return s.used }),
		of(bytesColumn("free_bytes", "in free blocks"), func(s *segmentRow) any { return s.Bytes - s.used }),
		of(streamColumn, func(s *segmentRow) any { return s.stream }),
		of(wordColumn("pool", poolDoc), func(s *segmentRow) any { return s.pool }),
		of(wordColumn("type", "small: of the pool for requests up to 1 MiB; large"), func(s *segmentRow) any { return s.kind }),
		of(Column{Name: "expandable", Type: boolean, Doc: "mapped piece by piece"},
			func(s *segmentRow) any { return s.Expandable }),
		of(countColumn("blocks", "number of its blocks"), func(s *segmentRow) any { return len(s.Blocks) }),
	}, nil}

// Blocks is one row for each block, in use or free, at some moment.
var Blocks = &Table{"blocks", "vramscope.blocks/1",
	"one row for each block, in use or free, at one moment, the end unless another was asked for; the blocks of a segment " +
		"tile it", []Column{
		deviceColumn,
		of(Column{Name: "segment", Type: uint32s, Doc: "row of the table segments at the same moment"},
			func(b *blockRow) any { return b.segment }),
		of(addressColumn, func(b *blockRow) any { return b.Address }),
		of(bytesColumn("bytes", "size of the block"), func(b *blockRow) any { return b.Bytes }),
		of(bytesOrNull("requested_bytes", "what the program asked for; null: the block is free"),
			func(b *blockRow) any { return b.requested }),
		of(wordColumn("state", "inactive: free; active_allocated: in use; active_pending_free: given back while a stream may "+
			"still use it"), func(b *blockRow) any { return b.state }),
		of(Column{Name: "allocation", Type: uint32s, Null: true, Doc: "row of the table allocations; null: the block is free"},
			func(b *blockRow) any { return b.allocation }),
		of(stackColumn, func(b *blockRow) any { return b.stack }),
		of(wordOrNull("category", "what the memory is for; null: the block is free"),
			func(b *blockRow) any { return b.category }),
	}, nil}

// Holders is one row for each variable that holds memory.
var Holders = &Table{"holders", "vramscope.holders/1", "one row for each variable of the program that was found to hold " +
	"memory, of the recorder's last look at a step and of the dump; an allocation counts for the first one that holds it",
	[]Column{
		deviceColumn,
		of(wordColumn("path", "how the program reaches it: main.trainer.losses"), func(h *holderRow) any { return h.Path }),
		of(countColumn("tensors", "allocations that it holds"), func(h *holderRow) any { return len(h.Tensors) }),
		of(bytesColumn("bytes", "of these"), func(h *holderRow) any { return h.bytes }),
		of(countColumn("graph_tensors", "allocations that only the autograd graphs behind them hold"),
			func(h *holderRow) any { return len(h.Graph) }),
		of(bytesColumn("graph_bytes", "of these"), func(h *holderRow) any { return h.graph }),
		of(bytesColumn("end_bytes", "of both, what is still allocated at the end"), func(h *holderRow) any { return h.end }),
	}, nil}

// Host is one row for each allocation of pinned host memory.
var Host = &Table{"host", "vramscope.host/1", "one row for each allocation of pinned memory of the host, where the " +
	"recording has it: those older than its trace first, by address", []Column{
	of(Column{Name: "allocation", Type: uint32s, Doc: "number within this table"}, func(h *hostRow) any { return h.id }),
	of(eventColumn("alloc_event", "index in the trace of pinned memory; null: older than it"),
		func(h *hostRow) any { return h.born }),
	of(eventColumn("free_event", "likewise, of its free; null: never"), func(h *hostRow) any { return h.freed }),
	of(timeOrNull("time_us", "of its allocation since the Unix epoch; null: not recorded"),
		func(h *hostRow) any { return h.time }),
	of(Column{Name: "address", Type: uint64s, Doc: "where it begins in the host's address space"},
		func(h *hostRow) any { return h.address }),
	of(bytesColumn("requested_bytes", "what the program asked for"), func(h *hostRow) any { return h.requested }),
	of(bytesColumn("allocated_bytes", "the block given out for it"), func(h *hostRow) any { return h.allocated }),
	of(stackColumn, func(h *hostRow) any { return h.stack }),
}, nil}

// Categories is the curve of allocated memory, by category.
var Categories = &Table{"categories", "vramscope.categories/1",
	"one row for each event at which allocated memory changes, with what is allocated right after it in each category; these " +
		"sum to what is allocated", categoryColumns(), nil}

func categoryColumns() []Column {
	c := []Column{deviceColumn, eventColumn("event", "index in the trace of the device; null: before the first event")}
	for k := range classify.NumCategories {
		c = append(c, bytesColumn(classify.Category(k).String(), "allocated in this category"))
	}
	return c
}
