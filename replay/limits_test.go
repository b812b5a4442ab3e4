package replay

import "testing"

// TestGuessAllowedForPeople: the bounds of a limit are sizes as people read them.
func TestGuessAllowedForPeople(t *testing.T) {
	for usable, want := range map[int64]string{
		0:                     "a memory fraction refused requests: between 26.09 GiB and 26.15 GiB",
		84932978278 - Outside: "a memory fraction refused requests: about 0.33 of the GPU (between 26.09 GiB and 26.15 GiB)",
	} {
		if _, why := (&Program{}).guessAllowed(28015853568, 28082962431, usable); why != want {
			t.Errorf("%d usable: %s", usable, why)
		}
	}
}
