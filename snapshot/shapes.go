package snapshot

import (
	"math"

	"github.com/vramscope/vramscope/internal/pages"
)

// Keys by which a closed dictionary is told.
const (
	eventKeys   = 1 << sAction
	segmentKeys = 1<<sBlocks | 1<<sTotalSize
	blockKeys   = 1<<sState | 1<<sHistory
	noteKeys    = 1<<sStage | 1<<sName
	frameKeys   = 1<<sFilename | 1<<sName
	historyKeys = 1 << sRealSize
)

// keysOf has a bit for each known key.
func keysOf(items []value) (mask uint64) {
	for i := 0; i < len(items); i += 2 {
		if k := items[i]; k.kind() == kString && k.index() < int(numKeys) {
			mask |= 1 << k.index()
		}
	}
	return mask
}

// close turns a finished dictionary into a row of the table that its keys
// tell; ok is false for dictionaries that are no row of any.
func (d *decoder) close(items []value, mask uint64) (row value, ok bool, err error) {
	switch shapeOf(mask) {
	case kEvent:
		return d.closeEvent(items)
	case kSegment:
		return d.closeSegment(items)
	case kBlock:
		return d.closeBlock(items)
	case kNote:
		return d.closeAnnotation(items)
	case kHistory:
		return d.closeHistory(items)
	case kFrame:
		return d.closeFrame(items)
	}
	return 0, false, nil
}

// shapeOf tells by a dictionary's known keys which table it is a row of; kDict
// is for none.
func shapeOf(mask uint64) value {
	switch {
	case mask&(1<<sSegments|1<<sDeviceTraces) != 0:
		return kDict // the whole snapshot
	case mask&eventKeys != 0:
		return kEvent
	case mask&segmentKeys == segmentKeys, mask&(1<<sTotalSize|1<<sSegmentType) == 1<<sTotalSize|1<<sSegmentType:
		return kSegment
	case mask&blockKeys != 0 && mask&(1<<sSize) != 0:
		return kBlock
	case mask&noteKeys == noteKeys:
		return kNote
	case mask&historyKeys != 0:
		return kHistory
	case mask&frameKeys == frameKeys, mask&frameKeys != 0 && mask&(1<<sLine) != 0:
		return kFrame
	}
	return kDict
}

// key is the known key at an even position, numKeys for any other, which is
// counted as unknown.
func (o *objects) key(where StringID, items []value, i int) StringID {
	if k := items[i]; k.kind() == kString {
		id := StringID(k.index())
		if id < numKeys {
			return id
		}
		o.unknownKey(where, id, items[i+1])
	}
	return numKeys
}

// unknownKey counts a key, with one value to show.
func (o *objects) unknownKey(where, key StringID, v value) {
	u := o.unknown[[2]StringID{where, key}]
	if u == nil {
		if len(o.unknown) >= 1000 {
			return
		}
		u = &Unknown{Where: known[where], Key: o.out.Strings[key], Example: o.brief(v)}
		o.unknown[[2]StringID{where, key}] = u
	}
	u.Count++
}

// stackOf interns a list of frames, once for each list.
func (d *decoder) stackOf(v value) (StackID, error) {
	switch v.kind() {
	case kStack:
		return StackID(v.index()), nil
	case kList, kTuple:
	default:
		if v.kind() != kNone {
			d.note("stack that is no list of frames")
		}
		return 0, nil
	}
	l := &d.lists[v.index()]
	if l.isStack {
		return l.stack, nil
	}
	frames := d.scratch[:0]
	err := d.each(v, func(x value) error {
		switch x.kind() {
		case kFrame:
			frames = append(frames, FrameID(x.index()))
		case kString: // forward_frames are plain text
			id, err := d.frame(Frame{Function: StringID(x.index())})
			if err != nil {
				return err
			}
			frames = append(frames, id)
		default:
			d.note("frame that is neither a dictionary nor text")
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	d.scratch = frames[:0]
	id, err := d.internStack(frames)
	l = &d.lists[v.index()]
	l.stack, l.isStack = id, true
	if len(frames) == l.length() { // other lists may be named again for what they are
		l.items = nil
	}
	return id, err
}

func (d *decoder) closeFrame(items []value) (value, bool, error) {
	var f Frame
	var notes [numFX]value
	var noted [numFX]bool
	for i := 0; i < len(items); i += 2 {
		v := items[i+1]
		switch k := d.key(sFrames, items, i); k {
		case sName:
			f.Function = d.str(v)
		case sFilename:
			f.File = d.str(v)
		case sLine:
			f.Line = lineOf(v)
		case sFXNodeOp, sFXNodeName, sFXNodeTarget, sFXNodeInfo, sFXOriginalTrace:
			notes[k-sFXNodeOp], noted[k-sFXNodeOp] = v, true
		}
	}
	fx := ""
	for i, v := range notes {
		if noted[i] {
			fx = addFX(fx, sFXNodeOp+StringID(i), d.brief(v))
		}
	}
	if fx != "" {
		id, err := d.intern([]byte(fx))
		if err != nil {
			return 0, false, err
		}
		f.FX = id
	}
	id, err := d.frame(f)
	return newValue(kFrame, uint64(id)), true, err
}

// lineOf is a frame's line; an unknown one of a C++ frame is written as 2**64-1.
func lineOf(v value) int32 {
	if n := v.int(); v.kind() == kInt && n >= 0 && n <= math.MaxInt32 {
		return int32(n)
	}
	return 0
}

// numFX is how many notes of torch.fx a frame may have.
const numFX = sFXOriginalTrace - sFXNodeOp + 1

// addFX adds one of torch.fx's notes to those of a frame.
func addFX(notes string, key StringID, note string) string {
	if notes != "" {
		notes += " "
	}
	return notes + known[key] + "=" + short(note)
}

func (d *decoder) closeHistory(items []value) (value, bool, error) {
	var h History
	var err error
	for i := 0; i < len(items); i += 2 {
		v := items[i+1]
		switch d.key(sHistory, items, i) {
		case sAddr:
			h.Address = d.address(v)
		case sRealSize:
			h.RealSize = d.bytes(v)
		case sFrames:
			if h.Stack, err = d.stackOf(v); err != nil {
				return 0, false, err
			}
		}
	}
	d.histories = append(d.histories, h)
	return newValue(kHistory, uint64(len(d.histories)-1)), true, d.take(32)
}

func (d *decoder) closeAnnotation(items []value) (value, bool, error) {
	var a Annotation
	var stage StringID
	for i := 0; i < len(items); i += 2 {
		v := items[i+1]
		switch d.key(sExternalAnnotations, items, i) {
		case sStage:
			stage = d.str(v)
		case sName:
			a.Name = d.str(v)
		case sDevice:
			a.Device = int(d.int(v))
		case sTimeUS:
			a.TimeUS = d.int(v)
		}
	}
	a.Start = d.starts(stage)
	d.annotations = append(pages.Grown(d.annotations, 1), a)
	return newValue(kNote, uint64(len(d.annotations)-1)), true, d.take(64)
}

// blockState is the state for the word in the file.
func blockState(word StringID) (state BlockState, ok bool) {
	switch word {
	case sActiveAllocated:
		return ActiveAllocated, true
	case sActivePendingFree, sActiveAwaitingFree:
		return ActivePendingFree, true
	case sInactive:
		return Inactive, true
	}
	return Inactive, false
}

// What a block and a segment are taken to need, in bytes: twice their rows, which grow.
const (
	blockBytes   = 128
	segmentBytes = 256
)

func (d *decoder) closeBlock(items []value) (value, bool, error) {
	b := Block{Requested: -1}
	var err error
	for i := 0; i < len(items) && err == nil; i += 2 {
		v := items[i+1]
		switch d.key(sBlocks, items, i) {
		case sAddress:
			b.Address = d.address(v)
		case sSize:
			b.Size = d.bytes(v)
		case sRequestedSize:
			b.Requested = d.optional(v)
		case sState:
			b.State = d.stateOf(v)
		case sFrames:
			b.Stack, err = d.stackOf(v)
		case sForwardFrames:
			b.ForwardStack, err = d.stackOf(v)
		case sHistory:
			err = d.historyOf(&b, v)
		}
	}
	if err != nil {
		return 0, false, err
	}
	d.presentUse(&b)
	d.blocks = append(pages.Grown(d.blocks, 1), b)
	return newValue(kBlock, uint64(len(d.blocks)-1)), true, d.take(blockBytes)
}

func (o *objects) stateOf(v value) BlockState {
	state, ok := blockState(o.str(v))
	if !ok {
		o.note("block in an unknown state, taken as inactive")
	}
	return state
}

// presentUse tells of a block in use what only its history says: the newest
// use is the present one.
func (t *tables) presentUse(b *Block) {
	if b.State != Inactive && b.History > 0 {
		h := t.histories[b.FirstHistory]
		if b.Stack == 0 {
			b.Stack = h.Stack
		}
		if b.Requested < 0 {
			b.Requested = h.RealSize
		}
	}
}

// historyOf ties a block to the rows of its history; rows that don't follow
// each other are copied to the end of all.
func (d *decoder) historyOf(b *Block, v value) error {
	if v.kind() != kList {
		return nil
	}
	l := &d.lists[v.index()]
	if l.expanded {
		return d.shape(d.p, "two blocks share one history")
	}
	l.expanded = l.length() > 0
	if l.count > 0 && l.run.kind() == kHistory {
		b.FirstHistory, b.History = int32(l.run.index()), int32(l.count)
		return nil
	}
	b.FirstHistory, b.History = int32(len(d.histories)), 0
	return d.each(v, func(x value) error {
		if x.kind() != kHistory {
			d.note("block history that is no dictionary")
			return nil
		}
		d.histories = append(d.histories, d.histories[x.index()])
		b.History++
		return d.take(32)
	})
}

// closeSegment reads a segment.
//
// complexity: a case for each key.
func (d *decoder) closeSegment(items []value) (value, bool, error) {
	s := segmentRow{Segment: Segment{Allocated: -1, Active: -1, Requested: -1}}
	var err error
	for i := 0; i < len(items) && err == nil; i += 2 {
		v := items[i+1]
		switch d.key(sSegments, items, i) {
		case sDevice:
			s.device = d.int(v)
		case sAddress:
			s.Address = d.address(v)
		case sTotalSize:
			s.TotalSize = d.bytes(v)
		case sAllocatedSize:
			s.Allocated = d.optional(v)
		case sActiveSize:
			s.Active = d.optional(v)
		case sRequestedSize:
			s.Requested = d.optional(v)
		case sStream:
			s.Stream = d.stream(v)
		case sSegmentType:
			s.Small = d.str(v) == sSmall
		case sSegmentPoolID:
			s.Pool = d.poolOf(v)
		case sIsExpandable:
			s.Expandable = v == newValue(kBool, 1)
		case sFrames:
			s.Stack, err = d.stackOf(v)
		case sForwardFrames:
			s.ForwardStack, err = d.stackOf(v)
		case sBlocks:
			s.firstBlock, s.numBlocks, err = d.blocksOf(v)
		}
	}
	if err != nil {
		return 0, false, err
	}
	d.segments = append(pages.Grown(d.segments, 1), s)
	return newValue(kSegment, uint64(len(d.segments)-1)), true, d.take(segmentBytes)
}

// blocksOf is where the rows of a list of blocks stand in decoder.blocks; rows
// that don't follow each other are copied to its end.
func (d *decoder) blocksOf(v value) (first, count int, err error) {
	if v.kind() != kList {
		return 0, 0, nil
	}
	l := &d.lists[v.index()]
	if l.expanded {
		return 0, 0, d.shape(d.p, "two segments share one list of blocks")
	}
	l.expanded = l.length() > 0
	if l.count > 0 && l.run.kind() == kBlock {
		return l.run.index(), l.count, nil
	}
	first = len(d.blocks)
	err = d.each(v, func(x value) error {
		if x.kind() != kBlock {
			d.note("block that is no dictionary")
			return nil
		}
		d.blocks = append(d.blocks, d.blocks[x.index()])
		return d.take(blockBytes)
	})
	return first, len(d.blocks) - first, err
}
