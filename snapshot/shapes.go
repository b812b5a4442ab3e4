package snapshot

import (
	"fmt"
	"math"
)

// maxBytes is the largest size taken at its word: 64 TiB, far above any device
// and low enough that sums of millions stay within 63 bits of each other's way.
const maxBytes = 1 << 46

// Keys by which a closed dictionary is told.
const (
	eventKeys   = 1 << sAction
	segmentKeys = 1<<sBlocks | 1<<sTotalSize
	blockKeys   = 1<<sState | 1<<sHistory
	noteKeys    = 1<<sStage | 1<<sName
	frameKeys   = 1<<sFilename | 1<<sName
	historyKeys = 1 << sRealSize
)

// close turns a finished dictionary into a row of the table that its keys
// tell; ok is false for dictionaries that are no row of any.
func (d *decoder) close(items []value) (row value, ok bool, err error) {
	var mask uint64
	for i := 0; i < len(items); i += 2 {
		if k := items[i]; k.kind() == kString && k.index() < int(numKeys) {
			mask |= 1 << k.index()
		}
	}
	switch {
	case mask&(1<<sSegments|1<<sDeviceTraces) != 0:
		return 0, false, nil // the whole snapshot
	case mask&eventKeys != 0:
		return d.closeEvent(items)
	case mask&segmentKeys == segmentKeys, mask&(1<<sTotalSize|1<<sSegmentType) == 1<<sTotalSize|1<<sSegmentType:
		return d.closeSegment(items)
	case mask&blockKeys != 0 && mask&(1<<sSize) != 0:
		return d.closeBlock(items)
	case mask&noteKeys == noteKeys:
		return d.closeAnnotation(items)
	case mask&historyKeys != 0:
		return d.closeHistory(items)
	case mask&frameKeys == frameKeys, mask&frameKeys != 0 && mask&(1<<sLine) != 0:
		return d.closeFrame(items)
	}
	return 0, false, nil
}

// key is the known key at an even position, numKeys for any other, which is
// counted as unknown.
func (d *decoder) key(where StringID, items []value, i int) StringID {
	if k := items[i]; k.kind() == kString {
		id := StringID(k.index())
		if id < numKeys {
			return id
		}
		d.unknownKey(where, id, items[i+1])
	}
	return numKeys
}

// unknownKey counts a key, with one value to show.
func (d *decoder) unknownKey(where, key StringID, v value) {
	u := d.unknown[[2]StringID{where, key}]
	if u == nil {
		if len(d.unknown) >= 1000 {
			return
		}
		u = &Unknown{Where: known[where], Key: d.out.Strings[key], Example: d.brief(v)}
		d.unknown[[2]StringID{where, key}] = u
	}
	u.Count++
}

// brief is a value in a few words.
func (d *decoder) brief(v value) string {
	switch v.kind() {
	case kNone:
		return "None"
	case kBool:
		if v.index() == 1 {
			return "True"
		}
		return "False"
	case kInt:
		return fmt.Sprint(v.int())
	case kBig:
		if b := d.bigs[v.index()]; b.huge {
			return "an integer of more than 64 bits"
		} else if b.negative {
			return fmt.Sprint(int64(b.low))
		} else {
			return fmt.Sprint(b.low)
		}
	case kFloat:
		return fmt.Sprint(d.floats[v.index()])
	case kString:
		return d.textOf(v)
	case kPool:
		p := d.out.Pools[v.index()]
		return fmt.Sprintf("(%d, %d)", p[0], p[1])
	case kList, kTuple:
		return fmt.Sprintf("%d elements", d.lists[v.index()].length())
	case kDict:
		return fmt.Sprintf("%d keys", len(d.dicts[v.index()].items)/2)
	}
	return "a nested value"
}

// bytes is a size; one that can't be right is noted and counts as nothing.
func (d *decoder) bytes(v value) int64 {
	if v.kind() == kInt {
		if n := v.int(); 0 <= n && n <= maxBytes {
			return n
		} else if n < 0 {
			d.note("size below zero, counted as 0")
			return 0
		}
		d.note("size beyond 64 TiB, counted as 0")
		return 0
	}
	switch v.kind() {
	case kBig:
		b := d.bigs[v.index()]
		switch {
		case b.huge:
			d.note("size of more than 64 bits, counted as 0")
		case b.negative:
			d.note("size below zero, counted as 0")
		default:
			d.note("size beyond 64 TiB, counted as 0")
		}
	case kNone:
	default:
		d.note("size that is no integer, counted as 0")
	}
	return 0
}

// address uses all 64 bits.
func (d *decoder) address(v value) uint64 {
	switch v.kind() {
	case kInt:
		if n := v.int(); n >= 0 {
			return uint64(n)
		}
		d.note("address below zero")
		return uint64(v.int())
	case kBig:
		b := d.bigs[v.index()]
		if b.huge || b.negative {
			d.note("address of more than 64 bits or below zero")
		}
		return b.low
	case kNone:
	default:
		d.note("address that is no integer")
	}
	return 0
}

// int is any other integer; what isn't one is 0.
func (d *decoder) int(v value) int64 {
	switch v.kind() {
	case kInt:
		return v.int()
	case kBool:
		return int64(v.index())
	case kBig:
		if b := d.bigs[v.index()]; !b.huge && b.negative == (int64(b.low) < 0) {
			return int64(b.low)
		}
		d.note("integer of more than 64 bits, counted as 0")
	case kFloat:
		if f := d.floats[v.index()]; math.Abs(f) < 1<<62 {
			return int64(f)
		}
	}
	return 0
}

func (d *decoder) str(v value) StringID {
	if v.kind() == kString {
		return StringID(v.index())
	}
	if v.kind() != kNone {
		d.note("text that is no string")
	}
	return 0
}

func (d *decoder) stream(v value) uint32 {
	raw := d.address(v)
	id, ok := d.streams[raw]
	if !ok {
		id = uint32(len(d.out.Streams))
		d.out.Streams = append(d.out.Streams, raw)
		d.streams[raw] = id
	}
	return id
}

func (d *decoder) poolOf(v value) uint32 {
	switch v.kind() {
	case kPool:
		return uint32(v.index())
	case kList: // after a detour through JSON
		var p Pool
		if l := &d.lists[v.index()]; l.length() == 2 && len(l.items) == 2 {
			p = Pool{d.int(l.items[0]), d.int(l.items[1])}
		}
		return d.pool(p)
	}
	return 0
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
	l.stack, l.isStack, l.items = id, true, nil
	return id, err
}

func (d *decoder) internStack(frames []FrameID) (StackID, error) {
	before := d.out.stacks.len()
	id := d.out.stacks.intern(frames)
	if d.out.stacks.len() > before {
		return id, d.take(4*int64(len(frames)) + 32)
	}
	return id, nil
}

func (d *decoder) frame(f Frame) (FrameID, error) {
	id, ok := d.frames[f]
	if !ok {
		if err := d.take(64); err != nil {
			return 0, err
		}
		id = FrameID(len(d.out.Frames))
		d.out.Frames = append(d.out.Frames, f)
		d.frames[f] = id
	}
	return id, nil
}

func (d *decoder) closeFrame(items []value) (value, bool, error) {
	var f Frame
	var fx string
	for i := 0; i < len(items); i += 2 {
		v := items[i+1]
		switch k := d.key(sFrames, items, i); k {
		case sName:
			f.Function = d.str(v)
		case sFilename:
			f.File = d.str(v)
		case sLine:
			// An unknown line of a C++ frame is written as 2**64-1.
			if n := v.int(); v.kind() == kInt && n >= 0 && n <= math.MaxInt32 {
				f.Line = int32(n)
			}
		case sFXNodeOp, sFXNodeName, sFXNodeTarget, sFXNodeInfo, sFXOriginalTrace:
			if fx != "" {
				fx += " "
			}
			fx += known[k] + "=" + d.brief(v)
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
	for i := 0; i < len(items); i += 2 {
		v := items[i+1]
		switch d.key(sExternalAnnotations, items, i) {
		case sStage:
			a.Start = v == newValue(kString, uint64(sStart))
		case sName:
			a.Name = d.str(v)
		case sDevice:
			a.Device = int(d.int(v))
		case sTimeUS:
			a.TimeUS = d.int(v)
		}
	}
	d.annotations = append(d.annotations, a)
	return newValue(kNote, uint64(len(d.annotations)-1)), true, d.take(64)
}

// blockStates gives the state for the word in the file.
var blockStates = map[StringID]BlockState{sActiveAllocated: ActiveAllocated, sActivePendingFree: ActivePendingFree,
	sActiveAwaitingFree: ActivePendingFree, sInactive: Inactive}

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
			b.Requested = d.bytes(v)
		case sState:
			state, ok := blockStates[d.str(v)]
			if !ok {
				d.note("block in an unknown state, taken as inactive")
			}
			b.State = state
		case sFrames:
			b.Stack, err = d.stackOf(v)
		case sForwardFrames:
			b.ForwardStack, err = d.stackOf(v)
		case sHistory:
			d.historyOf(&b, v)
		}
	}
	if err != nil {
		return 0, false, err
	}
	if b.State != Inactive && b.History > 0 { // its newest use is the present one
		h := d.histories[b.FirstHistory]
		if b.Stack == 0 {
			b.Stack = h.Stack
		}
		if b.Requested < 0 {
			b.Requested = h.RealSize
		}
	}
	d.blocks = append(d.blocks, b)
	return newValue(kBlock, uint64(len(d.blocks)-1)), true, d.take(128)
}

// historyOf ties a block to the rows of its history.
func (d *decoder) historyOf(b *Block, v value) {
	if v.kind() != kList {
		return
	}
	l := &d.lists[v.index()]
	if l.count > 0 && l.run.kind() == kHistory && !l.expanded {
		b.FirstHistory, b.History = int32(l.run.index()), int32(l.count)
		l.expanded = true
	} else if l.length() > 0 {
		d.note("block history that is not a plain list")
	}
}

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
			s.Allocated = d.bytes(v)
		case sActiveSize:
			s.Active = d.bytes(v)
		case sRequestedSize:
			s.Requested = d.bytes(v)
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
	d.segments = append(d.segments, s)
	return newValue(kSegment, uint64(len(d.segments)-1)), true, d.take(256)
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
	l.expanded = true
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
		return d.take(128)
	})
	return first, len(d.blocks) - first, err
}
