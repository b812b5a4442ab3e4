package facts

import (
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/replay"
)

// Bounds on the replays of a report, in events: half a second of work for all
// of them. What lies beyond is left to the whatif command.
const (
	MaxReplayed = 200_000   // of one recording
	maxReplays  = 800_000   // of all replays that weigh fixes, and again of those that weigh settings
	MaxTried    = 4_000_000 // of all replays of a failure
)

// Replay is the recording as a program to replay, nil where it can't be or would
// take too long.
var Replay = Named("replay", func(p *Pass) *replay.Program {
	if n := p.T.Device.Events.Len(); n == 0 || n > MaxReplayed {
		return nil
	}
	program, err := replay.NewProgram(p.T)
	if err != nil {
		return nil
	}
	if check := program.Verify(); check.Refusal() != "" {
		return nil // the whatif command says why
	}
	return program
})

// savings are what changes that were replayed save, by change. Checks of failures ask
// for them first, all for the same ones, so that the order of checks makes no difference.
var savings = inner(func(*Pass) map[string]replay.Saving { return map[string]replay.Saving{} })

// Changed is what some changes save by replay, in their order; the last ones are
// left out where there would be too much to replay.
func (p *Pass) Changed(names []string) (list []replay.Saving) {
	program, known := Replay.Of(p), savings.Of(p)
	if program == nil {
		return nil
	}
	var unknown []string
	for _, name := range names {
		if _, ok := known[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		most := max(0, maxReplays/p.T.Device.Events.Len()-1-len(known))
		found, err := program.Saves(p.Classes, unknown[:min(len(unknown), most)]...)
		if err != nil {
			return nil
		}
		for _, s := range found {
			known[s.Change] = s
		}
	}
	for _, name := range names {
		s, ok := known[name]
		if !ok {
			s = replay.Saving{Change: name, Impossible: "too much to replay"}
		}
		list = append(list, s)
	}
	return list
}

// otherSettings are tried where much of what is reserved isn't in use, first of
// all PyTorch's default.
var otherSettings = []string{"", advice.Expandable, "max_split_size_mb:512", "roundup_power2_divisions:8"}

// OtherSettings is what replays under other settings show; nil where none were made.
var OtherSettings = Named("other settings", func(p *Pass) *replay.Document {
	program := Replay.Of(p)
	if program == nil {
		return nil
	}
	others := otherSettings
	if program.Settings.String() == "" {
		others = others[1:]
	}
	d, err := program.WhatIf(nil, replay.Options{GPU: p.Given, Confs: others, MaxEvents: maxReplays})
	if err != nil || d.Refused != nil || len(d.Scenarios) == 0 {
		return nil
	}
	return d
})

// WasteLong is the percentage of reserved memory from which on what was never in use
// is worth a word where settings can't be tried.
const WasteLong = 15
