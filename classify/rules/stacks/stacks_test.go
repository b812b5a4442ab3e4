package stacks

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

const kib = 1 << 10

// asked is a block of a program, and what a rule says of it.
type asked struct {
	name string
	tell func(p *phased.Program) (block int) // after weights were made
	also func(a *phases.Program, b int)      // changes facts that no event tells; nil: none
	want rules.Claim
}

var none, silence = rules.Claim{}, rules.Silence()

// check asks a rule about the block of each program.
func check(t *testing.T, r *rules.Rule, rows []asked) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.In(meaning.Setup)
			p.By(frames.Filled)
			p.Make(600*kib, 2)
			block := c.tell(p)
			a := p.Follow()
			if c.also != nil {
				c.also(a, block)
			}
			if got := phased.Ask(r, a, block); got != c.want {
				t.Errorf("%v %v %d, want %v %v %d", got.Category, got.Detail, got.Sure, c.want.Category, c.want.Detail, c.want.Sure)
			}
		})
	}
}

// kept is a block that stays.
func kept(phase meaning.Phase, marks frames.Marks, size int64, rest ...meaning.Phase) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(phase)
		p.By(marks)
		b := p.Make(size, 1)[0]
		p.By(0)
		after(p, rest)
		return b
	}
}

// life is a block that is made in one phase and goes in another, after so many other blocks.
func life(phase meaning.Phase, marks frames.Marks, size int64, others int, gone meaning.Phase, by frames.Marks,
	rest ...meaning.Phase) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		b := kept(phase, marks, size)(p)
		p.Make(7*kib, others)
		p.In(gone)
		p.By(by)
		p.Free(b)
		p.By(0)
		after(p, rest)
		return b
	}
}

// after goes through phases, in each of which there is some work.
func after(p *phased.Program, rest []meaning.Phase) {
	for _, phase := range rest {
		p.In(phase)
		p.Work(9 * kib)
	}
}

func native(a *phases.Program, _ int) { a.Recorded.Native = true }

const (
	setup, forward, backward, update = meaning.Setup, meaning.Forward, meaning.Backward, meaning.Optimizer
	other                            = frames.Filled
)

func TestCast(t *testing.T) {
	const cast = frames.Native | frames.Cast
	copied := rules.As(meaning.AutocastCopies, rules.Strong)
	casts := func(gap int, inPasses ...int) func(p *phased.Program) int { // with others between; gives the last one
		return func(p *phased.Program) (b int) {
			for _, n := range inPasses {
				after(p, []meaning.Phase{update, forward})
				for range n {
					p.By(cast)
					b = p.Make(300*kib, 1)[0]
					p.By(0)
					p.Make(7*kib, gap)
				}
			}
			return b
		}
	}
	check(t, CastByFrames, []asked{
		{"half of a weight", kept(forward, cast, 300*kib), nil, copied},
		{"one byte larger", kept(forward, cast, 300*kib+1), nil, none},
		{"by an operator that Python calls", kept(forward, frames.Cast, 300*kib), nil, none},
		{"by other code", kept(forward, frames.Native, 300*kib), nil, none},
		{"as many as weights", casts(1, 2), nil, copied},
		{"more than weights", casts(1, 3), nil, none},
		{"more than weights in one of the passes", casts(1, 3, 2), nil, copied},
	})
}

func TestCommunication(t *testing.T) {
	gathered := rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
	bucket := rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Strong)
	gradient := rules.As(meaning.Gradients, rules.Strong)
	check(t, GatheredPython, []asked{
		{"by collectives", kept(forward, frames.Comm, 5*kib), nil, gathered},
		{"by other code", kept(forward, frames.Bucket, 5*kib), nil, none},
	})
	check(t, ReducerBucketPython, []asked{
		{"kept", kept(forward, frames.Bucket, 5*kib), nil, bucket},
		{"for 1000 events", life(forward, frames.Bucket, 5*kib, 999, forward, 0), nil, silence},
		{"for 1001 events", life(forward, frames.Bucket, 5*kib, 1000, forward, 0), nil, bucket},
		{"kept, by other code", kept(forward, frames.Comm, 5*kib), nil, none},
	})
	check(t, ReducedGradient, []asked{
		{"kept", kept(backward, frames.Keep, 5*kib, update), nil, gradient},
		{"gone right after the pass", life(backward, frames.Keep, 5*kib, 3, update, 0), nil, gradient},
		{"gone in the pass", life(backward, frames.Keep, 5*kib, 3, backward, 0, update), nil, none},
		{"kept, by other code", kept(backward, frames.Comm, 5*kib, update), nil, none},
	})
}

func TestRange(t *testing.T) {
	gathered := rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
	within := func(name string, from, to int) func(a *phases.Program, b int) { // events from the block on
		return func(a *phases.Program, b int) {
			for i := range a.Last {
				a.Events.TimeUS = append(a.Events.TimeUS, int64(i))
			}
			s := a.Timeline.Snapshot
			s.Strings = []string{"", name}
			s.Annotations = []snapshot.Annotation{{Start: true, Name: 1, TimeUS: int64(b + from)}, {Name: 1, TimeUS: int64(b + to)}}
		}
	}
	const gather, reduce = "FSDP::all_gather (layers.0)", "FSDP::post_backward_reduce"
	check(t, GatheredByAnnotation, []asked{
		{"gathered", kept(forward, other, 5*kib), within(gather, 0, 0), gathered},
		{"one event after the range", kept(forward, other, 5*kib), within(gather, -1, -1), none},
		{"one event before it", kept(forward, other, 5*kib, update), within(gather, 1, 2), none},
		{"in another range", kept(forward, other, 5*kib), within("forward", 0, 0), none},
		{"without ranges", kept(forward, other, 5*kib), nil, none},
		{"reduced, and kept", kept(backward, other, 5*kib, update), within(reduce, 0, 0),
			rules.As(meaning.Gradients, rules.Likely)},
		{"reduced, and gone in the pass", life(backward, other, 5*kib, 2, backward, 0, update), within(reduce, 0, 0), gathered},
		{"in setup", kept(setup, other, 5*kib), within(gather, 0, 0), none},
	})
}

func TestLabel(t *testing.T) {
	p := &phased.Program{}
	p.In(forward)
	p.Make(5*kib, 3)
	f := rules.New(p.Follow())
	if ByLabel.Speaks(f) {
		t.Error("speaks without labels")
	}
	f.Labels = map[timeline.AllocationID]meaning.Category{0: meaning.Logits, 1: meaning.Unknown}
	if !ByLabel.Speaks(f) {
		t.Error("doesn't speak of labels")
	}
	claim := ByLabel.Look(f)
	for id, want := range []rules.Claim{rules.As(meaning.Logits, 100), none, none} {
		if got := claim(timeline.AllocationID(id)); got != want {
			t.Errorf("block %d: %v, want %v", id, got, want)
		}
	}
}

func TestWorkspace(t *testing.T) {
	workspace := func(sure uint8) rules.Claim { return rules.KindOf(meaning.Workspace, meaning.CuBLAS, sure) }
	check(t, WorkspaceByFrames, []asked{
		{"by C++ frames", kept(forward, frames.Native|frames.Workspace, 5*kib), nil, workspace(rules.Exact)},
		{"without them", kept(forward, frames.Workspace, 5*kib), nil, none},
		{"by other code", kept(forward, frames.Native, 5*kib), nil, none},
	})
	const size = 1 << 20
	check(t, WorkspaceBySize, []asked{
		{"gone by the next event", life(forward, 0, size, 0, forward, 0), nil, workspace(rules.Strong + 1)},
		{"gone by the next event but one", life(forward, 0, size, 1, forward, 0), nil, workspace(rules.Strong + 1)},
		{"one event later", life(forward, 0, size, 2, forward, 0), nil, none},
		{"one byte larger", life(forward, 0, size+1, 0, forward, 0), nil, none},
		{"with C++ frames, which don't name it", life(forward, 0, size, 0, forward, 0), native, none},
		{"older than the recording", func(p *phased.Program) int { return p.Older(size) }, nil, none},
		{"never gone", lasting(32<<20, 1, 0), nil, workspace(rules.Likely + 1)},
		{"of two threads", lasting(32<<20, 2, 0), nil, workspace(rules.Likely + 1)},
		{"when the program is over", kept(forward, 0, 32<<20, backward), func(a *phases.Program, _ int) { a.Over = true },
			workspace(rules.Likely + 1)},
		{"three of them", lasting(32<<20, 3, 0), nil, none},
		{"kept for the backward pass in which the recording ends", kept(forward, 0, 32<<20, backward), nil, none},
		{"where setup leaves a weight of its size", lasting(32<<20, 1, 1), nil, none},
		{"never gone, of cuBLASLt's size", lasting(1<<20, 1, 0), nil, none},
	})
}

// lasting makes blocks in passes that nothing frees, beside weights of their size.
func lasting(size int64, blocks, weights int) func(p *phased.Program) int {
	return func(p *phased.Program) int {
		p.In(setup)
		p.Make(size, weights)
		p.In(forward)
		p.Work(5 * kib)
		made := p.Make(size, blocks)
		p.Work(5*kib, 5*kib)
		after(p, []meaning.Phase{backward, update, forward, backward, update, forward, backward})
		return made[0]
	}
}

func TestCache(t *testing.T) {
	cache := rules.As(meaning.KVCache, rules.Strong)
	check(t, CachePython, []asked{
		{"in forward", kept(forward, frames.Cache, 5*kib), nil, cache},
		{"in generation", kept(meaning.Generate, frames.Cache, 5*kib), nil, cache},
		{"in setup", kept(setup, frames.Cache, 5*kib), nil, cache},
		{"in backward", kept(backward, frames.Cache, 5*kib), nil, none},
		{"by other code", kept(forward, frames.Weight, 5*kib), nil, none},
	})
}

func TestWeight(t *testing.T) {
	weight := func(sure uint8) rules.Claim { return rules.KindOf(meaning.Weights, meaning.Parameter, sure) }
	hinted := func(a *phases.Program, b int) { a.Stacks[a.Events.StackOf(b)].Hint = meaning.HintOf(setup) }
	const stored = frames.Weight | frames.Stored
	stepped := func(tell func(p *phased.Program) int) func(p *phased.Program) int { // state that a step makes and keeps
		return func(p *phased.Program) int {
			b := tell(p)
			kept(update, other, 5*kib)(p)
			return b
		}
	}
	check(t, WeightPython, []asked{
		{"kept", kept(setup, frames.Weight, 5*kib, forward), nil, weight(rules.Strong)},
		{"kept, by other code", kept(setup, frames.Cache, 5*kib, forward), nil, none},
		{"kept, of a pass", kept(forward, frames.Weight, 5*kib, forward), nil, none},
		{"gone in the loop", life(setup, frames.Weight, 5*kib, 2, forward, 0), nil, weight(rules.Strong)},
		{"gone in setup", life(setup, frames.Weight, 5*kib, 99, setup, 0, forward), nil, silence},
		{"gone in setup that frames name, after 65 events", life(setup, frames.Weight, 5*kib, 64, setup, 0, forward), hinted,
			weight(rules.Plausible)},
		{"after 64 events", life(setup, frames.Weight, 5*kib, 63, setup, 0, forward), hinted, silence},
		{"read from a file", kept(setup, stored, 5*kib, forward), nil, weight(rules.Strong)},
		{"read from a file, in a program that trains", kept(setup, stored, 5*kib, forward, backward), nil, weight(rules.Plausible)},
		{"read from a file, where steps make state", stepped(kept(setup, stored, 5*kib, forward, backward)), nil,
			weight(rules.Strong)},
		{"moments that come with a checkpoint", func(p *phased.Program) (b int) {
			p.By(frames.Weight)
			for range 8 {
				p.Make(700*kib, 1)
				p.Make(800*kib, 1)
			}
			p.Make(5*kib, 1)
			for range 8 {
				p.Make(700*kib, 2)
				b = p.Make(800*kib, 2)[0]
			}
			after(p, []meaning.Phase{forward})
			return b
		}, nil, none},
	})
}

// TestFlatBuffers: what a constructor of Megatron's makes goes by its line.
func TestFlatBuffers(t *testing.T) {
	const file = "/opt/" + frames.FlatBuffers
	gradients := rules.KindOf(meaning.Gradients, meaning.GradientBucket, rules.Strong)
	weights := rules.As(meaning.Weights, rules.Strong)
	for _, c := range []struct {
		name  string
		file  string
		lines []int
		want  []rules.Claim
	}{
		{"of gradients alone", file, []int{70, 70}, []rules.Claim{gradients, gradients}},
		{"of weights, too", file, []int{69, 70, 69}, []rules.Claim{weights, gradients, weights}},
		{"of other code", "/opt/train.py", []int{69, 70}, []rules.Claim{none, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var events []recorder.Event
			for k, line := range c.lines {
				stack := &recorder.Stack{Frames: []*recorder.Frame{{File: "/opt/torch/functional.py", Name: "zeros", Line: 90},
					{File: c.file, Name: "__init__", Line: line}}}
				events = append(events, recorder.Event{Action: "alloc", Address: (k + 1) << 32, Size: 600 * kib, TimeUS: k, Stream: 0,
					Stack: stack})
			}
			r := recorder.Recording{Traces: [][]recorder.Event{events}}
			s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_10, Protocol: 4})), snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			a := phases.Follow(timeline.New(s, &s.Devices[0]), phases.Gather(s, &s.Devices[0]))
			for k, want := range c.want {
				if got := phased.Ask(FlatBufferPython, a, k); got != want {
					t.Errorf("block %d: %v, want %v", k, got, want)
				}
			}
		})
	}
}

func TestState(t *testing.T) {
	state := rules.As(meaning.OptimizerState, rules.Strong)
	check(t, StatePython, []asked{
		{"kept", kept(update, frames.State, 5*kib), nil, state},
		{"for 200 events", life(update, frames.State, 5*kib, 199, update, 0), nil, silence},
		{"for 201 events", life(update, frames.State, 5*kib, 200, update, 0), nil, state},
		{"kept, by other code", kept(update, frames.Weight, 5*kib), nil, none},
	})
}

func TestHandedToHook(t *testing.T) {
	again := rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Strong)
	block := func(made, gone frames.Marks) func(p *phased.Program) int {
		return life(backward, made, 5*kib, 2, backward, gone, update)
	}
	const hook, engine = frames.Unpacked, frames.Engine
	check(t, HandedToHook, []asked{
		{"made for a hook, gone by a node", block(hook, engine), nil, again},
		{"made in a nested pass", block(hook|frames.Nested, engine), nil, silence},
		{"made by other code", block(other, engine), nil, silence},
		{"gone while the layer is made again", block(hook, engine|frames.Rebuild), nil, silence},
		{"gone before the hook has it", block(hook, engine|hook), nil, silence},
		{"gone with the graph", block(hook, engine|frames.Release), nil, none},
		{"gone by the program", block(hook, frames.UserInner), nil, none},
		{"made in forward", life(forward, hook, 5*kib, 2, backward, engine), nil, silence},
		{"without stacks of allocations", block(hook, engine), func(a *phases.Program, _ int) { a.Recorded.Allocs = false }, none},
	})
}

func TestReleased(t *testing.T) {
	saved := func(sure uint8) rules.Claim { return rules.As(meaning.Activations, sure) }
	kind := func(d meaning.Detail) rules.Claim { return rules.KindOf(meaning.Activations, d, rules.Strong) }
	block := func(phase meaning.Phase, made frames.Marks) func(p *phased.Program) int {
		return life(phase, made, 5*kib, 2, backward, frames.Release)
	}
	check(t, ReleasedByAutograd, []asked{
		{"of forward", block(forward, other), nil, saved(rules.Strong - 2)},
		{"of generation", block(meaning.Generate, other), nil, saved(rules.Strong - 2)},
		{"of nothing that is known", block(meaning.OtherPhase, other), nil, saved(rules.Strong - 2)},
		{"of setup", block(setup, other), nil, none},
		{"of a step", block(update, other), nil, none},
		{"of backward", block(backward, other), nil, saved(rules.Likely)},
		{"made again", block(backward, frames.Rebuild), nil, kind(meaning.Recomputed)},
		{"copied back from the host, in what is made again", block(backward, frames.Restore|frames.Rebuild), nil,
			kind(meaning.Restored)},
		{"older than the recording", func(p *phased.Program) int {
			p.By(frames.Release)
			return p.Older(5 * kib)
		}, nil, saved(rules.Likely)},
		{"older, gone otherwise", func(p *phased.Program) int {
			gone := p.Older(5 * kib)
			block(forward, other)(p)
			return gone
		}, nil, none},
		{"gone otherwise", life(forward, other, 5*kib, 2, backward, frames.Engine), nil, none},
	})
	check(t, RestoredPython, []asked{
		{"in backward", kept(backward, frames.Restore, 5*kib), nil, kind(meaning.Restored)},
		{"in forward", kept(forward, frames.Restore, 5*kib), nil, none},
		{"by other code", kept(backward, frames.Rebuild, 5*kib), nil, none},
	})
}
