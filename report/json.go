package report

import (
	"encoding/json"
	"io"
)

// JSON writes a document in the form that Schema names.
func JSON(w io.Writer, doc *Document) error { return encode(w, doc) }

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
