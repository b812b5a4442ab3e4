package runlog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
)

// spokenMarks are words, in lower case, by which people and programs speak of a
// request for memory that failed, with a line that has them. A text with such a
// line and no message of a known form tells of a failure all the same.
var spokenMarks = []stopWord{
	{"out of memory", "RuntimeError: out of memory"},
	{"out-of-memory", "2024-05-01 ERROR worker 3: out-of-memory in the forward pass"},
	{"outofmemory", "Exception: OutOfMemoryError"},
	{"oom", "the fourth batch OOMed during backward"},
	{"out of gpu memory", "we ran out of GPU memory at step 12"},
	{"out of cuda memory", "The job ran out of CUDA memory"},
	{"out of vram", "ERROR: out of VRAM while decoding"},
	{"out of device memory", "ERROR: out of device memory"},
	{"out of hbm", "Ran out of HBM on chip 0"},
	{"failed to alloc", "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 524288000"},
	{"failure to alloc", "ERROR failure to allocate a tensor"},
	{"unable to alloc", "error: unable to allocate backend buffer"},
	{"unable to create", "llama_new_context: unable to create CUDA buffer: allocation refused"},
	{"cannot alloc", "ERROR: cannot allocate the key-value cache"},
	{"could not alloc", "could not allocate 4.00 GiB of GPU memory"},
	{"couldn't alloc", "The engine couldn't allocate its buffer"},
	{"allocation failed", "synapse: device memory allocation failed"},
	{"alloc failed", "hipMalloc: alloc failed on device 1"},
	{"allocation failure", "device allocation failure"},
	{"insufficient memory", "ERROR: insufficient memory for this batch"},
	{"insufficient gpu memory", "ERROR: insufficient GPU memory"},
	{"insufficient device memory", "ERROR: insufficient device memory"},
	{"not enough memory", "RuntimeError: not enough memory for the image"},
	{"not enough gpu", "ERROR: not enough GPU memory to load the model"},
	{"not enough vram", "Not enough VRAM for this resolution"},
	{"not enough device mem", "not enough device memory"},
	{"memory exhausted", "fatal: GPU memory exhausted"},
}

// denials are words of which none may stand shortly before such a mark: by them
// nothing failed, or not yet. Those of modals do so unless "have" stands beside them.
var (
	denials = setOf("not no never without avoid avoids avoiding prevent prevents preventing against if about means what " +
		"risk case solve solves solved fix fixes fixed fixing reduce reduces handle handles handling detect detects")
	modals = setOf("may might can could would will")
	// causes are those by which it failed all the same: "could not go on after OOM".
	causes = setOf("after from because due")
)

func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// denied looks at the words before a mark, back to where its clause begins.
func denied(before []byte) bool {
	const near = 6
	begin := len(before)
	for begin > 0 && (bytes.IndexByte([]byte(",;!?()[]{}\"|>"), before[begin-1]) < 0) &&
		// A point or colon may be of a name: torch.cuda.
		(before[begin-1] != '.' && before[begin-1] != ':' || begin == len(before) || before[begin] != ' ') {
		begin--
	}
	before = before[begin:]
	list := strings.Fields(strings.ReplaceAll(string(before), "`", " "))
	denies, modal, have := false, false, false
	for _, w := range list[max(0, len(list)-near):] {
		if causes[w] {
			return false
		}
		denies = denies || denials[w] || strings.HasSuffix(w, "n't")
		modal, have = modal || modals[w], have || w == "have"
	}
	return denies || modal && !have
}

// afterSpoken are what follows such words where nothing failed.
var afterSpoken = []stopWord{
	{"s: ", "|            CUDA OOMs: 2            |        cudaMalloc retries: 1         |"},
	{": 0", "OOM: 0"}, {"_", "oom_retries 3"}, {"-", "oom-killer score"}, {"=", "oom=False"},
	{`" in `, `if "out of memory" in str(e):`}, {"' in ", "if 'out of memory' in str(e):"},
	{" killer", "the OOM killer is off"}, {" score", "oom score 300"}, {": none", "OOM: none"}, {": false", "oom: false"},
	{" errors are ", "CUDA out of memory errors are common on small GPUs"},
	{`":`, `{"oom": true, "rc": 1}`}, {"':", "{'oom': True}"}, // a field's name: what it says belongs to a table, not to a log
}

// notSpoken are words anywhere in a line of which nothing failed.
var notSpoken = []stopWord{
	{"this is not a failure", "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB. The caller indicates that " +
		"this is not a failure, but may mean"},
	{"to avoid fragmentation", "try setting max_split_size_mb to avoid fragmentation after OOM"},
	{"except ", "    except torch.cuda.OutOfMemoryError:"},
	{"raise ", "    raise OutOfMemoryError()"},
	{"import ", "from torch.cuda import OutOfMemoryError"},
	{"print(", "print('| WARNING: ran out of memory, retrying batch')"},
	{"logger.", "logger.warning('ran out of memory')"},
	{"isinstance(", "return isinstance(e, torch.cuda.OutOfMemoryError)"},
	{"#", "# out of memory is caught below"},
	{"out of resource", "OutOfMemoryError: out of resource: triton_mm Required: 131072 Hardware limit:101376"}, // a kernel's
	{"lmcache", "LMCache WARNING: Failed to allocate memory for tensor because no memory is available"},        // on the host
}

// recovers are words by which the program goes on after a failure.
var recovers = []string{"retrying", "trying again", "try again with", "skipping", "recover", "falling back", "switching to",
	"reducing", "halving"}

// retriedLines is how far below a failure a program may say that it tries again.
const retriedLines = 6

// maxSpoken is how many such lines are kept.
const maxSpoken = 64

// spokenLine keeps a line that speaks of a failure in no known form.
func (p *Parser) spokenLine(number int, line []byte, _ features) bool {
	if len(line) > maxOther || p.oom.open {
		return false
	}
	lower := bytes.ToLower(line)
	if !speaks(lower) || !p.seemsNew(line) || p.spoken >= maxSpoken {
		return false
	}
	p.spoken++
	p.oom.finish(p)
	m := evidence.OOMMessage{Line: number, AfterStep: p.steps.latest(), UpToStep: -1, Unclear: true, Unsure: true,
		Rank: p.rank(number, line), Quote: ending.Quoted(line, maxQuote)}
	for _, word := range recovers {
		m.WentOn = m.WentOn || bytes.Contains(lower, []byte(word))
	}
	for n := len(p.report.OOMs) - 1; m.WentOn && n >= 0 && number-p.report.OOMs[n].Line <= retriedLines; n-- {
		p.report.OOMs[n].WentOn = true // what failed is tried again otherwise: another failure would be told
	}
	p.tell(&m, line)
	p.keepOOM(&m)
	return true
}

// seemsNew leaves lines out that say again what one just before said.
func (p *Parser) seemsNew(line []byte) bool {
	n := len(p.report.OOMs)
	return n == 0 || !p.report.OOMs[n-1].Unclear || p.report.OOMs[n-1].Quote != ending.Quoted(line, maxQuote)
}

// speaks looks for a mark that none of the stop words stands beside.
func speaks(lower []byte) bool {
	text := bytes.TrimLeft(lower, " ")
	if bytes.HasPrefix(text, []byte("--")) || bytes.HasPrefix(text, []byte("//")) { // an option or a comment, and what it is for
		return false
	}
	for _, w := range notSpoken {
		if bytes.Contains(lower, []byte(w.word)) {
			return false
		}
	}
	for _, mark := range spokenMarks {
		for rest, at := lower, 0; ; {
			i := bytes.Index(rest, []byte(mark.word))
			if i < 0 {
				break
			}
			at += i
			end := at + len(mark.word)
			if isMark(mark.word, lower, at, end) && !denied(lower[:at]) && !follows(lower[end:]) &&
				!follows(lower[end+wordLength(lower[end:]):]) {
				return true
			}
			rest, at = lower[end:], end
		}
	}
	return false
}

// follows tells what follows a mark where nothing failed.
func follows(text []byte) bool {
	text = bytes.ReplaceAll(text[:min(len(text), 32)], []byte("`"), nil)
	return slices.ContainsFunc(afterSpoken, func(w stopWord) bool { return bytes.HasPrefix(text, []byte(w.word)) })
}

// isMark refuses "room", and oom within the name of a setting.
func isMark(word string, line []byte, at, end int) bool {
	if word != "oom" {
		return true
	}
	if at > 0 && (isWordByte(line[at-1]) || bytes.IndexByte([]byte(".-/"), line[at-1]) >= 0) {
		return false
	}
	rest := line[end:]
	word = string(rest[:wordLength(rest)])
	return word == "" || word == "s" || word == "ed" || word == "ing" || word == "error" || word == "exception"
}

func wordLength(text []byte) (n int) {
	for n < len(text) && text[n] >= 'a' && text[n] <= 'z' {
		n++
	}
	return n
}

// maxQuote is how much of a line is quoted.
const maxQuote = 300
