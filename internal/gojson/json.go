// Package json is Go's own encoding/json under the name of another library, which
// Arrow's JSON asks for: no table is written by it, and it would make the program
// two megabytes larger.
package json

import "encoding/json"

// What Arrow takes of it.
type (
	Decoder            = json.Decoder
	Encoder            = json.Encoder
	Marshaler          = json.Marshaler
	Unmarshaler        = json.Unmarshaler
	Delim              = json.Delim
	Number             = json.Number
	RawMessage         = json.RawMessage
	UnmarshalTypeError = json.UnmarshalTypeError
)

// Functions of the same kind.
var (
	Marshal    = json.Marshal
	Unmarshal  = json.Unmarshal
	NewDecoder = json.NewDecoder
	NewEncoder = json.NewEncoder
)
