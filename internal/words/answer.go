package words

import "encoding/json"

// Answer says what becomes of a run under other settings or with a change.
type Answer string

// Answers. What isn't known is no failure, and a request that is met no success.
const (
	Fits           Answer = "fits"
	Meets          Answer = "meets"            // the request that failed; what follows isn't recorded
	MeetsThenFails Answer = "meets_then_fails" // what is known to follow doesn't fit
	Fails          Answer = "fails"
	NotKnown       Answer = "unknown" // how much memory there is isn't known
)

// Through reports whether the run goes through; nil where that isn't known.
func (a Answer) Through() *bool {
	switch a {
	case Fits:
		return new(true)
	case Fails, MeetsThenFails:
		return new(false)
	}
	return nil
}

// MarshalJSON writes null where nothing was worked out.
func (a Answer) MarshalJSON() ([]byte, error) {
	if a == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(a))
}
