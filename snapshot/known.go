package snapshot

// The strings that a snapshot's layout is made of are interned first, so that
// their ids are constants and a key is recognised without comparing text.
const (
	sEmpty StringID = iota
	sAction
	sAddr
	sSize
	sStream
	sTimeUS
	sFrames
	sForwardFrames
	sPoolID
	sCompileContext
	sUserMetadata
	sInternalMetadata
	sCategory
	sDeviceFree
	sName
	sFilename
	sLine
	sFXNodeOp
	sFXNodeName
	sFXNodeTarget
	sFXNodeInfo
	sFXOriginalTrace
	sAddress
	sState
	sRequestedSize
	sHistory
	sDevice
	sTotalSize
	sAllocatedSize
	sActiveSize
	sSegmentType
	sSegmentPoolID
	sIsExpandable
	sBlocks
	sRealSize
	sStage
	sSegments
	sDeviceTraces
	sTraces
	sAllocatorSettings
	sExternalAnnotations
	sTraceMax
	sTraceOverflowed
	sCategories
	sHostSegments
	sHostTraces
	numKeys // every key is below it
)

const _ = uint(63 - numKeys) // sets of keys are the bits of a number

// Words that are values.
const (
	sAlloc StringID = numKeys + iota // in the order of Action
	sFreeRequested
	sFreeCompleted
	sSegmentAlloc
	sSegmentFree
	sSegmentMap
	sSegmentUnmap
	sOOM
	sSnapshot
	sAnnotate
	sActiveAllocated
	sActivePendingFree
	sActiveAwaitingFree
	sInactive
	sSmall
	sLarge
	sStart
	sEnd
	sNA
	numKnown
)

var known = [numKnown]string{
	"", "action", "addr", "size", "stream", "time_us", "frames", "forward_frames", "pool_id", "compile_context",
	"user_metadata", "internal_metadata", "category", "device_free", "name", "filename", "line",
	"fx_node_op", "fx_node_name", "fx_node_target", "fx_node_info", "fx_original_trace",
	"address", "state", "requested_size", "history", "device", "total_size", "allocated_size", "active_size",
	"segment_type", "segment_pool_id", "is_expandable", "blocks", "real_size", "stage",
	"segments", "device_traces", "traces", "allocator_settings", "external_annotations",
	"trace_alloc_max_entries", "trace_alloc_overflowed", "categories", "host_segments", "host_traces",
	"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
	"oom", "snapshot", "annotate",
	"active_allocated", "active_pending_free", "active_awaiting_free", "inactive", "small", "large", "START", "END", "N/A",
}
