package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/words"
)

// Categories in the order of every table and chart.
var Categories = words.Categories()

// Shown are the categories that people see.
var Shown = append(slices.Clip(Categories), Leaked, Held)

// CategoryTitle is a category in words for people; any other name stays as it is.
func CategoryTitle(category string) string {
	switch {
	case category == "":
		return "Allocated"
	case category == words.KVCache.String():
		return "KV cache"
	case category == "cache" || slices.Contains(Shown, category):
		return strings.ToUpper(category[:1]) + CategoryWords(category[1:])
	}
	return category
}

// CategoryWords is a category within a sentence.
func CategoryWords(category string) string { return strings.ReplaceAll(category, "_", " ") }

// ShortFile is a path's last two elements, which tell files of one name apart.
func ShortFile(file string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	dir, base := path.Split(file)
	if parent := path.Base(dir); parent != "." && parent != "/" {
		return parent + "/" + base
	}
	return base
}

// OffMachine is a path without the folders of a machine, or a flag with one; what is relative stays.
func OffMachine(file string) string {
	flag, value, found := strings.Cut(file, "=")
	if found && strings.HasPrefix(flag, "--") {
		return flag + "=" + OffMachine(value)
	}
	if strings.HasPrefix(file, "/") || strings.HasPrefix(file, `\`) || len(file) > 1 && file[1] == ':' {
		return ShortFile(file)
	}
	return file
}

// ShortPlace is a file's name with its folder, and the line; "" when no file was
// recorded.
func ShortPlace(file string, line *int) string {
	if file == "" || file == "??" {
		return ""
	}
	if line == nil {
		return ShortFile(file)
	}
	return ShortFile(file) + ":" + strconv.Itoa(*line)
}

// Place is the file's name with its folder, and the line.
func (s *Site) Place() string { return ShortPlace(s.File, s.Line) }

// Short names a call site in a few words.
func (s *Site) Short() string {
	switch {
	case s.Function != "" && s.File != "":
		return s.Function + " " + s.Place()
	case s.Function != "":
		return s.Function
	case s.File != "":
		return s.Place()
	case s.Op != "":
		return s.Op
	case s.Older:
		return "allocated before the recording"
	case !s.Known:
		return "no stack recorded"
	}
	return "no line of Python on the stack"
}

// Name is a call site in a few words, with its later line.
func (s *DiffSite) Name() string {
	site := Site{Function: s.Function, File: s.File, Line: cmp.Or(s.AfterLine, s.BeforeLine), Op: s.Op, Known: s.Known,
		Older: s.Older}
	return site.Short()
}

// Kind is what of an input was aligned, in words.
func (c *Clock) Kind() string {
	text := strings.ReplaceAll(c.What, "_", "-")
	if c.GPU != nil {
		text += fmt.Sprintf(", GPU %d", *c.GPU)
	}
	return text
}

// PhaseText is a phase in a sentence.
var PhaseText = map[string]string{words.Setup.String(): "setup", words.Data.String(): "data loading",
	words.Forward.String(): "the forward pass", words.Backward.String(): "the backward pass",
	words.Optimizer.String(): "the optimizer step", words.ZeroGrad.String(): "zero_grad", words.Generate.String(): "generation",
	words.OtherPhase.String(): "other work"}
