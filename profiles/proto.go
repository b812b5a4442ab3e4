package profiles

import "google.golang.org/protobuf/encoding/protowire"

// message is an encoded protocol buffer that grows field by field. Perfetto has
// no Go module that is kept up, and of its schema a trace needs these few fields.
type message []byte

func (m message) uint(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) int(field protowire.Number, v int64) message { return m.uint(field, uint64(v)) }

func (m message) text(field protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

func (m message) sub(field protowire.Number, inner message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
}

// Fields and values of Perfetto's schema, protos/perfetto/trace/*.proto.
const (
	tracePacket = 1 // Trace

	packetTimestamp   = 8
	packetSequence    = 10
	packetEvent       = 11
	packetInterned    = 12
	packetFlags       = 13
	packetDescriptor  = 60
	sequenceBegins    = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	sequenceGoesOn    = 2 // SEQ_NEEDS_INCREMENTAL_STATE
	internedEventName = 2 // InternedData
	internedNoteName  = 3
	internedID        = 1 // EventName, DebugAnnotationName
	internedText      = 2

	trackUUID        = 1 // TrackDescriptor
	trackName        = 2
	trackParent      = 5
	trackCounter     = 8
	trackOrdering    = 11
	trackRank        = 12
	trackDescription = 14
	orderExplicit    = 3
	counterUnit      = 3 // CounterDescriptor
	counterShare     = 7
	unitBytes        = 3

	eventNotes   = 4 // TrackEvent
	eventType    = 9
	eventNameID  = 10
	eventTrack   = 11
	eventName    = 23
	eventCounter = 30
	sliceBegin   = 1
	sliceEnd     = 2
	instant      = 3
	counter      = 4
	noteNameID   = 1 // DebugAnnotation
	noteInt      = 4
)
