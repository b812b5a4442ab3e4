package snapshot

import "github.com/vramscope/vramscope/internal/pages"

// step is what is to be done for a field.
type step uint8

const (
	stepOther   step = iota // the value is still to be read
	stepAddress             // the payload is the value, up to stepLine
	stepSize
	stepTime
	stepTotalSize
	stepRequested
	stepAllocated
	stepActive
	stepDevice
	stepLine
	stepStream
	stepCategory
	stepCompile // the payload is a position in the memo, up to stepForward
	stepMetadata
	stepInternal
	stepName
	stepFile
	stepStage // the last text
	stepAction
	stepState
	stepSegmentType
	stepPool
	stepStack
	stepForward
	stepExpandable // the payload is NEWTRUE or NEWFALSE
	stepNoFrames   // an empty list, and the row's end behind it
	stepBlocks     // a list, still to be read
	stepEnd        // SETITEMS
)

// stepTable is what is done for values of keys: for numbers, for references to
// the memo, for booleans.
type stepTable struct {
	number, reference, boolean [numKeys + 1]step
}

var eventSteps = stepTable{
	number: [numKeys + 1]step{sAddr: stepAddress, sSize: stepSize, sTimeUS: stepTime, sStream: stepStream,
		sCategory: stepCategory},
	reference: [numKeys + 1]step{sAction: stepAction, sCompileContext: stepCompile, sUserMetadata: stepMetadata,
		sInternalMetadata: stepInternal,
		sPoolID:           stepPool, sFrames: stepStack, sForwardFrames: stepForward},
}

// stateSteps are those of all rows but events: segments, blocks, frames, annotations.
var stateSteps = stepTable{
	number: [numKeys + 1]step{sAddress: stepAddress, sSize: stepSize, sRequestedSize: stepRequested, sTotalSize: stepTotalSize,
		sAllocatedSize: stepAllocated, sActiveSize: stepActive, sStream: stepStream, sDevice: stepDevice, sLine: stepLine,
		sTimeUS: stepTime},
	reference: [numKeys + 1]step{sState: stepState, sSegmentType: stepSegmentType, sSegmentPoolID: stepPool, sFrames: stepStack,
		sName: stepName, sFilename: stepFile, sStage: stepStage},
	boolean: [numKeys + 1]step{sIsExpandable: stepExpandable},
}

// historySteps are those of the uses that a block had.
var historySteps = stepTable{number: [numKeys + 1]step{sAddr: stepAddress, sRealSize: stepSize},
	reference: [numKeys + 1]step{sFrames: stepStack}}

// of is what a key stands for, whatever its value.
func (t *stepTable) of(key StringID) step { return t.number[key] | t.reference[key] | t.boolean[key] }

// row is an event, segment, block, frame or annotation while it is read; what isn't
// there is zero.
type row struct {
	numbers           [stepLine + 1]uint64                  // by step
	texts             [stepStage - stepCompile + 1]StringID // by step, from stepCompile on
	action            Action
	state             BlockState
	stream, pool      uint32
	stack, forward    StackID
	category          int32
	deviceFree        int64 // plus one; 0: none
	small, expandable bool
	fx                FXID
	within            bool // it is a block that is read with its segment
	list              bool // its blocks were read
	first, count      int  // of its blocks, or of the uses that a block had
	strangers         int  // of fast.strange
}

// number and text are what stands for a step.
func (r *row) number(s step) int64   { return int64(r.numbers[s]) }
func (r *row) text(s step) *StringID { return &r.texts[s-stepCompile] }

// add adds a row to its table; keys are those that it had. The value is 0 when there
// is no such table.
func (t *tables) add(r *row, kind value, keys uint64) (value, error) {
	sizeOf := func(key StringID, s step) int64 {
		if keys&(1<<key) == 0 {
			return -1
		}
		return r.number(s)
	}
	switch kind {
	case kEvent:
		t.eventKeys |= keys
		return t.addEvent(r)
	case kFrame:
		id, err := t.frame(Frame{Function: *r.text(stepName), File: *r.text(stepFile), Line: int32(r.numbers[stepLine]),
			FX: r.fx})
		return newValue(kFrame, uint64(id)), err
	case kBlock:
		b := Block{Address: r.numbers[stepAddress], Size: r.number(stepSize), Requested: sizeOf(sRequestedSize, stepRequested),
			State: r.state, Stack: r.stack, ForwardStack: r.forward, FirstHistory: int32(r.first), History: int32(r.count)}
		t.presentUse(&b)
		return addTo(t, &t.blocks, kBlock, b, blockBytes)
	case kHistory:
		return addTo(t, &t.histories, kHistory, History{r.numbers[stepAddress], r.number(stepSize), r.stack}, 32)
	case kNote:
		return addTo(t, &t.annotations, kNote, Annotation{Start: t.starts(*r.text(stepStage)), Name: *r.text(stepName),
			Device: int(r.numbers[stepDevice]), TimeUS: r.number(stepTime)}, 64)
	case kSegment:
		return addTo(t, &t.segments, kSegment, segmentRow{device: r.number(stepDevice), firstBlock: r.first, numBlocks: r.count,
			Segment: Segment{Address: r.numbers[stepAddress], TotalSize: r.number(stepTotalSize),
				Allocated: sizeOf(sAllocatedSize, stepAllocated), Active: sizeOf(sActiveSize, stepActive),
				Requested: sizeOf(sRequestedSize, stepRequested), Stream: r.stream, Pool: r.pool, Small: r.small,
				Expandable: r.expandable, Stack: r.stack, ForwardStack: r.forward}}, segmentBytes)
	}
	return 0, nil
}

// addTo adds a row of so many bytes to a table.
func addTo[T any](t *tables, table *[]T, kind value, row T, bytes int64) (value, error) {
	if err := t.take(bytes); err != nil {
		return 0, err
	}
	*table = append(pages.Grown(*table, 1), row)
	return newValue(kind, uint64(len(*table)-1)), nil
}
