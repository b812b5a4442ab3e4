package runlog

import (
	"bytes"
	"strings"

	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/evidence/serving"
)

// features says which words occur in a line. One pass over the line finds them
// all; a byte search for each would pass over every line twenty times.
type features uint32

const (
	hasOOM      features = 1 << iota // "out of memory"
	hasTrace                         // a stack frame or the head of a traceback
	hasMetric                        // words of step lines and memory prints
	hasBar                           // a progress bar
	hasTable                         // a column separator
	hasCut                           // what may be "CUDA out of memory", cut by the end of the line
	hasRecord                        // torchrun's list of failures
	hasServer                        // an inference server
	hasEnd                           // how a process ended
	hasStats                         // memory_stats()
	hasOther                         // what asks for memory beside PyTorch's allocator
	hasPressure                      // what trainers say of a GPU's size, and of its being full
	hasRunning                       // the Trainer begins
	hasEngine                        // an inference engine's account
	hasMoment                        // before or after a phase
	hasSpoken                        // a failure in words of its own
	hasAlloc                         // something about allocating
	hasTest                          // a test's result
	hasUnit                          // MiB and GiB are made of bytes
	hasSetting                       // how the training is set
	hasLimit                         // how much of the host's memory the job may hold

	// What has no word: something that has begun, or the way that a line begins.
	inRecord
	inAsync
	inTrace
	inSummary
	inHost
	inColumns
	isCounted

	allWords = inRecord - 1
)

// feature is a word and what it tells.
type feature struct {
	word string
	is   features
}

// words are found by their first two bytes, so these should be rare pairs:
// "oss" rather than "loss".
var words = []feature{
	{"ut of memory", hasOOM},
	{"OOM", hasSpoken}, {"Out Of Mem", hasSpoken}, {"OUT OF MEM", hasSpoken}, {"OutOfMem", hasSpoken},
	{"ut-of-memory", hasSpoken},
	{"otal capac", hasAlloc},
	{"ut of GPU", hasSpoken}, {"ut of CUDA", hasSpoken}, {"ut of VRAM", hasSpoken}, {"ut of device", hasSpoken},
	{"ut of HBM", hasSpoken}, {"leep mode freed", hasMoment}, {"efore ", hasMoment}, {"fter ", hasMoment},
	{"During ", hasMoment}, {"ufficient", hasSpoken}, {"ough memory", hasSpoken}, {"ough GPU", hasSpoken},
	{"ough VRAM", hasSpoken}, {"ough device mem", hasSpoken}, {"mory exhausted", hasSpoken}, {"oom", hasSpoken},
	{"to alloc", hasSpoken}, {"to Alloc", hasSpoken}, {"not alloc", hasSpoken}, {"n't alloc", hasSpoken},
	{"nable to create", hasSpoken}, {"ocation fail", hasSpoken}, {"ocation Fail", hasSpoken}, {"lloc fail", hasSpoken},
	{`e "`, hasTrace}, {".py", hasTrace}, {"Traceback (", hasTrace}, {"ll In[", hasTrace}, {"ut In ", hasTrace},
	{"<ipython", hasTrace}, {"ipykernel", hasTrace}, {".ipynb", hasTrace},
	{"oss", hasMetric}, {"OSS", hasMetric}, {"tep", hasMetric}, {"iter", hasMetric}, {"Iter", hasMetric}, {"mem", hasMetric},
	{"Mem", hasMetric},
	{"lloc", hasMetric | hasAlloc}, {"iB", hasMetric}, {"GB", hasMetric}, {"MB", hasMetric}, {"KV cache", hasMetric},
	{"roughput", hasMetric},
	{"gpu ", hasMetric}, {"GPU ", hasMetric}, {"GPU:", hasMetric},
	{"poch", hasMetric}, {"nable params", hasMetric}, {"eserved", hasMetric}, {"GPU blocks", hasMetric},
	{"* Running ", hasRunning},
	{"Memory Efficiency: ", hasLimit}, {"memory:  ", hasLimit}, {"Limits:", hasLimit}, {"Requests:", hasLimit},
	{"tch size", hasSetting}, {"tch_size", hasSetting}, {"tch-size", hasSetting}, {"ccum", hasSetting}, {"eq_len", hasSetting},
	{"uence_len", hasSetting}, {"toff_len", hasSetting}, {"ld_size", hasSetting}, {"m GPUs", hasSetting},
	{"PASSED", hasTest}, {"SKIPPED", hasTest}, {"XFAIL", hasTest}, {"XPASS", hasTest}, {"... ok", hasTest}, {"| `", hasTest},
	{"... skipped", hasTest}, {"expected failure", hasTest},
	{"ache flushes since", hasPressure}, {"allocation retries", hasPressure}, {"UDA capacity: ", hasPressure},
	{"ax memory", hasPressure},
	{"CUDA o", hasCut}, {"HIP o", hasCut}, {"XPU o", hasCut},
	{"Root Cause (", hasRecord}, {"(local_rank:", hasRecord},
	{"_bytes.all.", hasStats}, {"num_ooms", hasStats},
	{"-side assert", hasOther}, {"illegal memory acc", hasOther}, {"Assertion `", hasOther},
	{"%|", hasBar | hasMetric}, {"| ", hasTable}, {"|=", hasTable}, {"|-", hasTable},
}

// unitWords are how programs divide bytes for what they print as MB and GB.
var unitWords = []string{"1024**", "1024 **", "1024 / 1024", "1024/1024", "1024 * 1024", "1024*1024", "1024^3", "2**30",
	"2 ** 30", "1 << 30", "1<<30", "2**20", "1 << 20", "1<<20"}

// UnitWord is how a program's text divides bytes for what it prints, "" where it doesn't.
func UnitWord(text []byte) string {
	for _, u := range unitWords {
		if bytes.Contains(text, []byte(u)) {
			return u
		}
	}
	return ""
}

// starts maps a pair of bytes to the words that begin with it, as 1 + the
// number of a list.
var (
	starts     [1 << 16]uint8
	startLists = buildStarts()
)

func buildStarts() [][]feature {
	lists := [][]feature{nil}
	for _, m := range serving.Marks {
		words = append(words, feature{m.Words, hasEngine})
	}
	for _, u := range unitWords {
		words = append(words, feature{u, hasUnit})
	}
	for i, marks := range [][]ending.Mark{ending.Marks, refusals} {
		for _, m := range marks {
			for word := range strings.SplitSeq(m.Words, "|") {
				words = append(words, feature{word, [...]features{hasEnd, hasOther}[i]})
			}
		}
	}
	for _, m := range serverMarks {
		words = append(words, feature{m.text, hasServer})
	}
	for _, w := range words {
		pair := uint16(w.word[0])<<8 | uint16(w.word[1])
		if starts[pair] == 0 {
			starts[pair] = uint8(len(lists))
			lists = append(lists, nil)
		}
		lists[starts[pair]] = append(lists[starts[pair]], w)
	}
	return lists
}

func featuresOf(line []byte) (f features) {
	if len(line) == 0 {
		return 0
	}
	pair := uint16(line[0])
	for i := 1; i < len(line); i++ {
		pair = pair<<8 | uint16(line[i])
		if list := starts[pair]; list != 0 {
			f |= confirm(startLists[list], line[i-1:])
		}
	}
	return f
}

func confirm(list []feature, rest []byte) (f features) {
	for _, w := range list {
		if bytes.HasPrefix(rest, []byte(w.word)) {
			f |= w.is
		}
	}
	return f
}
