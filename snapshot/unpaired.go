package snapshot

import "slices"

// setUnpairedAside makes unknown actions, by their own names, of allocations
// without any free, and of frees without any allocation, where one address is
// given out, or back, more than once: skip_actions has left the others out, and
// nobody knows how long a block was held.
func (t *tables) setUnpairedAside(dev *Device) {
	e := &dev.Events
	var counts [ActionOther]int
	for _, a := range e.Action {
		if a < ActionOther {
			counts[a]++
		}
	}
	given, back := counts[Alloc], counts[FreeRequested]+counts[FreeCompleted]
	var looked Action
	switch {
	case (given == 0) == (back == 0):
		return
	case given > 0:
		looked = Alloc
	case counts[FreeCompleted] > 0:
		looked = FreeCompleted
	default:
		looked = FreeRequested
	}
	addresses := make([]uint64, 0, counts[looked])
	for i, a := range e.Action {
		if a == looked && e.Address[i] != 0 {
			addresses = append(addresses, e.Address[i])
		}
	}
	slices.Sort(addresses)
	if all := len(addresses); len(slices.Compact(addresses)) == all {
		return
	}
	for i, a := range e.Action {
		if a == Alloc || a == FreeRequested || a == FreeCompleted {
			e.Action[i] = t.asideOf(a)
		}
	}
	dev.Unpaired = given + back
}

// asideOf is an unknown action of a known one's name.
func (t *tables) asideOf(a Action) Action {
	name := actionNames[a]
	i := slices.Index(t.out.otherActions, name)
	if i < 0 {
		i = min(len(t.out.otherActions), int(lastAction-ActionOther))
		if i < int(lastAction-ActionOther) {
			t.out.otherActions = append(t.out.otherActions, name)
		}
	}
	return ActionOther + Action(i)
}
