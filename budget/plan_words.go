package budget

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed dialects.txt
var dialects string

// framework tells a plan in the words of the framework that is asked for, "" where none is
// or it has none.
func (s Setting) framework() string {
	of := map[string]string{"shards": fmt.Sprint(s.GPUs / (max(s.TP, 1) * max(s.CP, 1)))}
	for i := range Fields {
		of[Fields[i].Name] = fmt.Sprint(Fields[i].is(&s))
	}
	if s.Offload == "optimizer" {
		of["optimizer"] = "paged " + s.Optimizer
	}
	if s.FSDP != "" && s.Offload == "params" {
		of["fsdp"] += " offload"
	}
	_, rows, _ := strings.Cut(dialects, "\n\n"+ProfileOf(s.Framework).Name+"\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	var words []string
	for line := range strings.Lines(rows) {
		c := strings.SplitN(strings.TrimSpace(line), " | ", 3)
		v := of[c[0]]
		if above, numbers := strings.CutPrefix(c[1], ">"); numbers {
			n, _ := strconv.ParseInt(v, 10, 64)
			if least, _ := strconv.ParseInt(above, 10, 64); n > least {
				words = append(words, fmt.Sprintf(c[2], n))
			}
		} else if v == c[1] {
			words = append(words, c[2])
		}
	}
	return strings.Join(words, " ")
}
