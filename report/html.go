package report

import (
	"fmt"
	"io"
)

// HTML is a placeholder replaced below.
func HTML(w io.Writer, doc *Document) error { return fmt.Errorf("not yet") }
