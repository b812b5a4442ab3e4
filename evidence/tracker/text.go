package tracker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// maxLine bounds a line of text.
const maxLine = 1 << 20

// lines hands out the lines of a text; a longer one than maxLine is an error.
func lines(in io.Reader, take func(line string) bool) error {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; s.Scan(); n++ {
		if !take(strings.TrimRight(s.Text(), "\r")) {
			return nil
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line of more than %d bytes", maxLine)
	}
	return s.Err()
}

// isWandbConfig tells W&B's config.yaml, which keeps each value below its name.
func isWandbConfig(name string, head []byte) bool {
	return path.Base(slashed(name)) == "config.yaml" && bytes.Contains(head, []byte("_wandb:")) &&
		bytes.Contains(head, []byte("value:"))
}

// readYAML takes the plain values of a file of settings; lists, texts over several
// lines and anchors are passed over. A value of W&B's stands below its name:
//
//	batch_size:
//	    value: 8
func readYAML(r *run, in io.Reader) error {
	var at []string // the names above a line, by depth
	var indents []int
	return lines(in, func(line string) bool {
		m := setting().FindStringSubmatch(line)
		if m == nil {
			return true
		}
		indent, key, value := len(m[1]), m[2], strings.TrimSpace(m[3])
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			at, indents = at[:len(at)-1], indents[:len(indents)-1]
		}
		name := strings.Join(append(at, key), ".")
		if key == "value" && len(at) > 0 {
			name = strings.Join(at, ".")
		}
		switch {
		case value == "" && len(at) < 32:
			at, indents = append(at, key), append(indents, indent)
		case value != "" && !strings.ContainsRune("&*!|>", rune(value[0])):
			r.Set(name, value)
		}
		return true
	})
}

// setting is a name and its value, not one of a list or a comment.
var setting = pattern.Of(`^( *)([^ #{}\[\]":-][^{}\[\]":]*):(.*)$`)

// isMLflow tells the files of one of the folders that MLflow keeps for a run:
// mlruns/0/0123456789abcdef0123456789abcdef/metrics/loss.
func isMLflow(folder string) func(string, []byte) bool {
	return func(name string, head []byte) bool {
		return below(slashed(name), folder) != "" && (folder != "metrics" || isMetricLine(head))
	}
}

// ofRun are the folders of one of MLflow's runs, whose names are 32 hexadecimal digits.
var ofRun = pattern.Of(`(?:^|.*/)[0-9a-f]{32}/(metrics|params)/(.+)$`)

// isMetricLine tells "1700000000000 0.5 10": a time in milliseconds, a value, a step.
func isMetricLine(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	_, _, _, ok := metricOf(string(line))
	return ok
}

func metricOf(line string) (at int64, value float64, step int64, ok bool) {
	f := strings.Fields(line)
	if len(f) != 3 || len(f[0]) != 13 {
		return 0, 0, 0, false
	}
	at, err1 := strconv.ParseInt(f[0], 10, 64)
	value, err2 := strconv.ParseFloat(f[1], 64)
	step, err3 := strconv.ParseInt(f[2], 10, 64)
	return at, value, step, err1 == nil && err2 == nil && err3 == nil && step >= 0
}

// below is a file's name within one of MLflow's folders, "" where it isn't there.
func below(name, folder string) string {
	if m := ofRun().FindStringSubmatch(name); m != nil && m[1] == folder {
		return m[2]
	}
	return ""
}

// readMLflowMetric reads a metric, or what MLflow's monitor saw of a GPU:
// metrics/system/gpu_0_memory_usage_megabytes.
func readMLflowMetric(r *run, in io.Reader) error {
	name := below(r.name, "metrics")
	gpu, watched := -1, ""
	if text, ok := strings.CutPrefix(name, "system/gpu_"); ok {
		number, what, _ := strings.Cut(text, "_")
		if n, err := strconv.Atoi(number); err == nil {
			gpu, watched = n, what
		}
	}
	return lines(in, func(line string) bool {
		at, value, step, ok := metricOf(line)
		switch {
		case !ok:
		case watched == "memory_usage_megabytes":
			if value >= 0 && value < 1<<40 {
				r.reading(gpu, int64(value*1e6), -1, -1, evidence.ZonedStamp(at*1e6))
			}
		case gpu < 0:
			r.scalar(step, name, value)
		}
		return true
	})
}

// readMLflowParameter reads a parameter, which is the file's content.
func readMLflowParameter(r *run, in io.Reader) error {
	value, err := io.ReadAll(io.LimitReader(in, maxText+1))
	r.Set(below(r.name, "params"), string(value))
	return err
}

// isMLflowRun tells what MLflow keeps of a run beside those folders.
func isMLflowRun(name string, head []byte) bool {
	return ofMeta().MatchString(slashed(name)) && bytes.Contains(head, []byte("run_id:"))
}

var ofMeta = pattern.Of(`(?:^|.*/)[0-9a-f]{32}/meta\.yaml$`)

// statuses are MLflow's (mlflow/protos/service.proto, RunStatus), by number and by name.
var statuses = map[string]evidence.Ending{
	"3": {How: evidence.EndedWell}, "4": {How: evidence.Failed, Text: "FAILED, as MLflow says"},
	"5": {How: evidence.Stopped, Text: "KILLED, as MLflow says"},
}

var byNumber = strings.NewReplacer("FINISHED", "3", "FAILED", "4", "KILLED", "5")

// readMLflowRun reads how the run ended.
func readMLflowRun(r *run, in io.Reader) error {
	return lines(in, func(line string) bool {
		if status, ok := strings.CutPrefix(line, "status:"); ok {
			r.ended = statuses[byNumber.Replace(strings.Trim(status, ` '"`))]
		}
		return true
	})
}

// stepNames are the columns that number the rows of a table of steps.
var stepNames = []string{"step", "global_step", "iter", "iteration", "steps", "it", "trainer/global_step"}

// isTable tells a table whose columns are named, with one of steps and one that says
// something, and whose second line is figures.
func isTable(_ string, head []byte) bool {
	first, rest, _ := bytes.Cut(head, []byte("\n"))
	if len(first) > 16<<10 || bytes.Contains(first, []byte("memory.")) {
		return false
	}
	columns, _, says := columnsOf(string(first))
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	cells := strings.Split(strings.TrimRight(string(second), "\r"), ",")
	if columns == nil || !says || len(cells) != len(columns) {
		return false
	}
	return slices.ContainsFunc(cells, func(c string) bool {
		_, err := strconv.ParseFloat(strings.TrimSpace(c), 64)
		return err == nil
	})
}

// columnsOf are a table's columns, which of them numbers steps, and whether any says
// what is known.
func columnsOf(line string) (columns []string, step int, says bool) {
	step = -1
	for i, c := range strings.Split(strings.TrimRight(strings.TrimPrefix(line, "\xef\xbb\xbf"), "\r"), ",") {
		c = strings.Trim(strings.TrimSpace(c), `"`)
		columns = append(columns, c)
		if step < 0 && slices.Contains(stepNames, strings.ToLower(c)) {
			step = i
		}
		m, named := meaningOf(c)
		says = says || m > memory || named.What.Held()
	}
	if len(columns) < 2 || len(columns) > 4096 || step < 0 {
		return nil, -1, false
	}
	return columns, step, says
}

// readTable reads such a table. Lightning leaves cells empty that a row doesn't tell.
func readTable(r *run, in io.Reader) error {
	var columns []string
	step := -1
	return lines(in, func(line string) bool {
		if columns == nil {
			columns, step, _ = columnsOf(line)
			return columns != nil
		}
		cells := strings.Split(line, ",")
		if len(cells) != len(columns) {
			return true
		}
		number, err := strconv.ParseFloat(strings.TrimSpace(cells[step]), 64)
		if err != nil || number < 0 || number > 1<<50 {
			return true
		}
		for i, cell := range cells {
			if v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64); err == nil && i != step {
				r.scalar(int64(number), columns[i], v)
			}
		}
		return true
	})
}
