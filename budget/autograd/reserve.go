package autograd

import "github.com/vramscope/vramscope/replay/allocator"

// Request is a storage that is made, or let go where bytes is negative.
type Request struct {
	id, bytes int64
	stream    uint8
	Unit      bool // an all-gather of FSDP1
	Lent      bool // another stream uses it, too
	Waits     bool // it is made when the GPU is through with all before
	handed    bool // to compiled code, whose first run takes it as it is
}

// Streams that a step takes memory on.
const (
	MainStream uint8 = iota
	GatherStream
	ReduceStream
	NarrowStream // FSDP1's for this rank's part of what is gathered
	graphPool    // where what compiled code makes lies under CUDA graphs: a pool of their own
	numStreams
)

// stepsServed is after how many steps the cache has what every later one needs: the second
// finds the holes that the first optimizer step has filled.
const stepsServed = 3

// Reserve says how steps are served.
type Reserve struct {
	Expandable bool    // segments
	State      []int64 // bytes of each tensor that the optimizer keeps
	Temp       []int64 // and of what its step takes
	Early      bool    // its state is there before the first step
	Behind     bool    // the GPU is, and what other streams use is free when it is through with it
	Ahead      int     // how many units that are gathered the host may be
}

// Reserved is what the caching allocator takes from the device for a training: it serves
// the requests of some steps one after another, with the optimizer's between them.
func (o Reserve) Reserved(load, step []Request) int64 {
	set := allocator.Defaults()
	set.Expandable = o.Expandable
	pairs := make([]allocator.Pair, numStreams)
	for i := range pairs {
		pairs[i].Stream = uint32(i)
	}
	v := &server{Reserve: o, a: allocator.New(set, pairs, allocator.GPU{}, true)}
	v.serve(load)
	for i := range stepsServed {
		if i == 0 && o.Early {
			v.keep(o.State)
		}
		v.settle(len(v.waiting)) // what is read of a step waits for the GPU
		before := v.a.PeakReserved
		v.first = i == 0
		born := v.serve(step)
		if i == 0 && !o.Early {
			v.keep(o.State)
		}
		v.drop(v.keep(o.Temp))
		for _, id := range born {
			v.free(id)
		}
		if i > 0 && v.a.PeakReserved == before {
			break
		}
	}
	return v.a.PeakReserved
}

// server is an allocator with what it has given out.
type server struct {
	Reserve
	a     *allocator.Allocator
	held  []allocator.BlockID // by storage, the block after its own; 0 where it has none
	first bool                // CUDA graphs aren't captured yet

	made    []made // by storage
	waiting []int64
	units   []int // of these, where units end
}

// made is how a storage was.
type made struct {
	stream uint8
	unit   bool
	lent   bool
}

// settle frees what the GPU is through with: the first n of what waits.
func (v *server) settle(n int) {
	for _, id := range v.waiting[:n] {
		v.give(id)
	}
	v.waiting = v.waiting[n:]
	kept := v.units[:0]
	for _, u := range v.units {
		if u > n {
			kept = append(kept, u-n)
		}
	}
	v.units = kept
}

// serve meets requests, and says which storages they made.
func (v *server) serve(rs []Request) (born []int64) {
	for _, r := range rs {
		switch {
		case r.bytes > 0:
			for int(r.id) >= len(v.held) {
				v.held, v.made = append(v.held, 0), append(v.made, made{})
			}
			v.made[r.id] = made{r.stream, r.Unit, r.Lent}
			switch {
			case r.Waits:
				v.settle(len(v.waiting))
			case v.Behind && r.Unit && len(v.units) >= v.Ahead:
				v.settle(v.units[0])
			}
			on := r.stream
			if v.first && r.handed {
				on = MainStream
			}
			v.held[r.id] = 1 + v.a.Malloc(v.a.Request(r.bytes, uint16(on)))
			born = append(born, r.id)
		case r.bytes < 0:
			v.free(r.id)
		}
	}
	return born
}

// free lets a storage go, at once or when the GPU is through with it.
func (v *server) free(id int64) {
	if !v.Behind || int(id) >= len(v.held) || v.made[id].stream == MainStream && !v.made[id].lent || v.held[id] == 0 {
		v.give(id)
		return
	}
	if v.waiting = append(v.waiting, id); v.made[id].unit {
		v.units = append(v.units, len(v.waiting))
	}
}

// give gives a storage's block back, where it has one.
func (v *server) give(id int64) {
	if int(id) < len(v.held) && v.held[id] > 0 {
		v.a.Free(v.held[id] - 1)
		v.held[id] = 0
	}
}

func (v *server) keep(sizes []int64) (ids []allocator.BlockID) {
	for _, n := range sizes {
		if n > 0 {
			ids = append(ids, v.a.Malloc(v.a.Request(n, uint16(MainStream))))
		}
	}
	return ids
}

func (v *server) drop(ids []allocator.BlockID) {
	for _, b := range ids {
		v.a.Free(b)
	}
}
