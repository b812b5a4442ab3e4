// Package filename reads what the names of a run's files say: which rank wrote
// a file, which of several dumps it is, and what it has in common with others.
//
//	n := filename.Parse("iteration_20_exit/rank3_memory_snapshot.pickle")
//	fmt.Println(n.Rank, n.Order, n.Last) // 3 [20] true
//
// Names are habits of programs and people, not a format. What a name says
// only perhaps is marked as Doubtful, for the reader to confirm.
package filename

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// RunRecord is what `vramscope run` calls its account of a run, in the run's directory.
const RunRecord = "run.json"

// Unknown is a number that a name doesn't say.
const Unknown = -1

// Name is what a path says.
type Name struct {
	Rank  int // of the whole job
	Local int // on its machine, or the GPU's number there
	Node  int
	World int // the number of ranks, 0 when not said
	PID   int // of the process, 0 when not said
	// Doubtful marks a Rank that may be something else: lora_rank16, resnet_r50.
	Doubtful bool
	// Order tells later dumps from earlier ones: steps, then a time in
	// microseconds. Only compare it within one Stem.
	Order []int64
	Last  bool   // the name says that nothing came after: oom, exit, crash, final
	Stem  string // the path without what tells ranks and dumps apart
	// Shape is the Stem with a mark for each number that is left, and Numbers are
	// those numbers: snapshot_0 and snapshot_1 have one shape.
	Shape   string
	Numbers []int64
}

// maxRank is the largest number that passes for a rank.
const maxRank = 1 << 17

// Parse reads a path; of its folders, only those that it names. Both kinds of
// slashes part folders.
func Parse(name string) Name {
	n := Name{Rank: Unknown, Local: Unknown, Node: Unknown}
	parts := strings.Split(strings.ReplaceAll(name, `\`, "/"), "/")
	parts[len(parts)-1] = without(parts[len(parts)-1], endings, dumpEndings)
	var stem []string
	torchrun := false
	for i, part := range parts {
		p := component{text: part, folder: i < len(parts)-1}
		p.read()
		if torchrun && p.folder && len(p.tokens) == 1 && p.tokens[0].number {
			p.local, p.tokens = int(p.tokens[0].value), nil // torchrun --log-dir: attempt_0/3/stderr.log
		}
		torchrun = strings.HasPrefix(part, "attempt_")
		n.take(&p)
		if s := p.stem(); s != "" || !p.folder {
			stem = append(stem, s)
		}
	}
	n.Stem = strings.Join(stem, "/")
	n.Shape = digits().ReplaceAllStringFunc(n.Stem, func(s string) string {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return s
		}
		n.Numbers = append(n.Numbers, v)
		return "#"
	})
	return n
}

// take joins what one component says with what the ones before it said: the
// innermost wins for ranks, all add to the order.
func (n *Name) take(p *component) {
	if p.rank >= 0 {
		n.Rank, n.Doubtful = p.rank, p.doubtful
	}
	if p.local >= 0 {
		n.Local = p.local
	}
	if p.node >= 0 {
		n.Node = p.node
	}
	n.World, n.PID = cmp.Or(p.world, n.World), cmp.Or(p.pid, n.PID)
	n.Order = append(n.Order, p.order...)
	if p.time > 0 {
		n.Order = append(n.Order, p.time)
	}
	n.Last = n.Last || p.last
}

// Compare orders the dumps of one process by what their names say; 0: they
// don't say.
func Compare(a, b Name) int {
	return cmp.Or(slices.Compare(a.Order, b.Order), boolCompare(a.Last, b.Last))
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

var digits = pattern.Of(`[0-9]+`)

// endings say how a file is written, not which it is.
var endings = map[string]bool{".gz": true, ".zst": true, ".zip": true, ".pickle": true, ".pkl": true, ".pt": true,
	".json": true, ".jsonl": true, ".log": true, ".txt": true, ".csv": true, ".out": true, ".err": true, ".xml": true,
	".labels": true}

// dumpEndings say nothing of ranks, but may tell one run's files from another's.
var dumpEndings = map[string]bool{".bin": true, ".dump": true, ".trace": true}

// WithoutEndings is a file's name, or its path with slashes, without what says how
// the file is written.
func WithoutEndings(name string) string { return without(name, endings) }

func without(name string, lists ...map[string]bool) string {
	for {
		ext := path.Ext(name)
		if ext == name || !slices.ContainsFunc(lists, func(list map[string]bool) bool { return list[strings.ToLower(ext)] }) {
			return name
		}
		name = strings.TrimSuffix(name, ext)
	}
}
