package snapshot

import "math"

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

// shapes are the tables that dictionaries are rows of.
var shapes = [kHistory + 1]struct {
	where StringID // what the table is called
	steps *stepTable
	keys  uint64 // that count
}{
	kEvent: {sDeviceTraces, &eventSteps, 1<<sAction | 1<<sAddr | 1<<sSize | 1<<sStream | 1<<sTimeUS | 1<<sFrames |
		1<<sForwardFrames | 1<<sPoolID | 1<<sSegmentPoolID | 1<<sCompileContext | 1<<sUserMetadata | 1<<sInternalMetadata |
		1<<sCategory | 1<<sDeviceFree},
	kSegment: {sSegments, &stateSteps, 1<<sDevice | 1<<sAddress | 1<<sTotalSize | 1<<sAllocatedSize | 1<<sActiveSize |
		1<<sRequestedSize | 1<<sStream | 1<<sSegmentType | 1<<sSegmentPoolID | 1<<sIsExpandable | 1<<sFrames |
		1<<sForwardFrames | 1<<sBlocks},
	kBlock: {sBlocks, &stateSteps, 1<<sAddress | 1<<sSize | 1<<sRequestedSize | 1<<sState | 1<<sFrames | 1<<sForwardFrames |
		1<<sHistory},
	kNote:    {sExternalAnnotations, &stateSteps, 1<<sStage | 1<<sName | 1<<sDevice | 1<<sTimeUS},
	kFrame:   {sFrames, &stateSteps, 1<<sName | 1<<sFilename | 1<<sLine},
	kHistory: {sHistory, &historySteps, 1<<sAddr | 1<<sRealSize | 1<<sFrames},
}

// close is the general way to a row, of any keys in any order with any values: it
// turns a finished dictionary into one of the table that its keys tell; ok is false
// for dictionaries that are no row of any.
func (d *decoder) close(items []value, mask uint64) (v value, ok bool, err error) {
	kind := shapeOf(mask)
	if kind == kDict {
		return 0, false, nil
	}
	r, shape := row{action: lastAction}, &shapes[kind]
	for i := 0; i < len(items); i += 2 {
		key := d.key(shape.where, items, i)
		if key == numKeys || shape.keys&(1<<key) == 0 {
			continue
		}
		if err := d.set(&r, shape.steps.of(key), key, items[i+1]); err != nil {
			return 0, false, err
		}
	}
	if kind == kFrame && mask>>sFXNodeOp&(1<<numFX-1) != 0 {
		if r.fx, err = d.fxOf(items); err != nil {
			return 0, false, err
		}
	}
	v, err = d.add(&r, kind, mask)
	return v, true, err
}

// set sets what a key's value stands for.
func (d *decoder) set(r *row, s step, key StringID, v value) (err error) {
	switch s {
	case stepAddress:
		r.numbers[s] = d.address(v)
	case stepSize, stepTotalSize:
		r.numbers[s] = uint64(d.bytes(v))
	case stepRequested, stepAllocated, stepActive:
		r.numbers[s] = uint64(d.optional(v))
	case stepTime, stepDevice:
		r.numbers[s] = uint64(d.int(v))
	case stepLine:
		r.numbers[s] = uint64(lineOf(v))
	case stepStream:
		r.stream = d.stream(v)
	case stepCategory:
		r.category = categoryOf(d.int(v))
	case stepCompile, stepMetadata, stepInternal, stepName, stepFile, stepStage:
		*r.text(s) = d.str(v)
	case stepAction:
		r.action = d.actionOf(d.str(v))
	case stepState:
		r.state = d.stateOf(v)
	case stepSegmentType:
		r.small = d.str(v) == sSmall
	case stepPool:
		r.pool = d.poolOf(v)
	case stepStack:
		r.stack, err = d.stackOf(v)
	case stepForward:
		r.forward, err = d.stackOf(v)
	case stepExpandable:
		r.expandable = v == newValue(kBool, 1)
	default:
		err = d.setRare(r, key, v)
	}
	return err
}

// setRare sets what the tight loops leave to the general way.
func (d *decoder) setRare(r *row, key StringID, v value) (err error) {
	switch key {
	case sDeviceFree:
		r.deviceFree = d.optional(v) + 1
	case sSegmentPoolID:
		r.pool = d.poolOf(v)
	case sForwardFrames:
		r.forward, err = d.stackOf(v)
	case sBlocks:
		r.first, r.count, err = d.blocksOf(v)
	case sHistory:
		r.first, r.count, err = d.historyOf(v)
	}
	return err
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
		case kString: // forward_frames are plain text, which readTracebacks reads
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

// fxOf is what torch.fx notes on a frame.
func (d *decoder) fxOf(items []value) (id FXID, err error) {
	var notes [numFX]StringID
	for i := 0; i < len(items); i += 2 {
		if k := items[i]; k.kind() == kString && k.index() >= int(sFXNodeOp) && k.index() <= int(sFXOriginalTrace) {
			if notes[k.index()-int(sFXNodeOp)], err = d.intern([]byte(d.brief(items[i+1]))); err != nil {
				return 0, err
			}
		}
	}
	return d.fx(fxNotes(notes))
}

func fxNotes(notes [numFX]StringID) FX {
	return FX{Op: notes[0], Name: notes[1], Target: notes[2], Info: notes[3], Trace: notes[4]}
}

// lineOf is a frame's line; an unknown one of a C++ frame is written as 2**64-1.
func lineOf(v value) int32 {
	if n := v.int(); v.kind() == kInt && n >= 0 && n <= math.MaxInt32 {
		return int32(n)
	}
	return 0
}

const numFX = sFXOriginalTrace - sFXNodeOp + 1

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

// historyOf is where the rows of a block's history stand; rows that don't follow
// each other are copied to the end of all.
func (d *decoder) historyOf(v value) (first, count int, err error) {
	if v.kind() != kList {
		return 0, 0, nil
	}
	l := &d.lists[v.index()]
	if l.expanded {
		return 0, 0, d.shape(d.p, "two blocks share one history")
	}
	l.expanded = l.length() > 0
	if l.count > 0 && l.run.kind() == kHistory {
		return l.run.index(), l.count, nil
	}
	first = len(d.histories)
	err = d.each(v, func(x value) error {
		if x.kind() != kHistory {
			d.note("block history that is no dictionary")
			return nil
		}
		d.histories = append(d.histories, d.histories[x.index()])
		return d.take(32)
	})
	return first, len(d.histories) - first, err
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
