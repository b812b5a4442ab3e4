package runlog

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

// oomState joins a message that a terminal or a logger wrapped over lines.
type oomState struct {
	open    bool
	message evidence.OOMMessage
	text    []byte // the message without any white space
	lines   int
	prefix  []byte // what stands before the message on its first line
	cut     int    // number of a line that ends inside of "out of memory"
	head    []byte // that line
	missing string // what is missing of the words
}

const (
	oomLines = 24   // that a message may be wrapped over
	oomBytes = 8192 // of a message without white space

	oomsInLine = 256 // that are looked at
)

var outOfMemory = []byte("ut of memory")

// start looks for a message in a line. A line of a table of results may hold
// several.
func (o *oomState) start(p *Parser, number int, line []byte) bool {
	found, from := 0, 0 // how many, and where the last one's words end
	for rest := line; found < oomsInLine; {
		i := bytes.Index(rest, outOfMemory)
		if i < 1 {
			break
		}
		i--
		at := len(line) - len(rest) + i
		if rest[i]|0x20 == 'o' && isMessage(rest, i) {
			o.begin(p, number, line[from:], at-from)
			found++
			from = at + len("out of memory")
		}
		rest = rest[i+len("out of memory"):]
	}
	return found > 0 || o.headless(p, number, line)
}

// bodyWords are those of a message behind its first words, which quotes and
// loggers cut off.
var bodyWords = [...]string{"ried to allocate ", "total capacity; ", "has a total capac", "already allocated; ",
	"reserved in total by PyTorch", "is allocated by PyTorch, ", "MPS allocated: "}

// headless looks for a message without its first words, but with figures.
func (o *oomState) headless(p *Parser, number int, line []byte) bool {
	for i, words := range bodyWords {
		at := bytes.Index(line, []byte(words))
		if at < 0 {
			continue
		}
		text := figures.Compact(line[at+len(words):], 16)
		if i == 0 { // a size follows: others use these words, too
			if v, _ := figures.Size(text); v == unknown && !bytes.HasPrefix(text, []byte("morethan1EB")) {
				return false
			}
		} else if at = 0; !bytes.Contains(line, []byte("iB ")) {
			return false
		}
		o.begin(p, number, line, max(at-1, 0))
		return true
	}
	return false
}

// cutShort keeps a line that ends inside of the three words themselves.
func (o *oomState) cutShort(number int, line []byte) bool {
	i := bytes.LastIndexByte(line, ' ')
	for words := 0; i > 0 && words < 3; words++ {
		tail := line[i+1:]
		if len(tail) > 0 && bytes.HasPrefix([]byte("out of memory"), tail) && backendOf(line[:i]) != "" &&
			len(tail) < len("out of memory") {
			o.cut, o.head, o.missing = number, append(o.head[:0], line...), "out of memory"[len(tail):]
			return true
		}
		i = bytes.LastIndexByte(line[:i], ' ')
	}
	return false
}

// mend joins a cut line with the one after it.
func (o *oomState) mend(number int, line []byte) (int, []byte) {
	next := bytes.TrimSpace(line)
	first := o.cut
	o.cut = 0
	if !bytes.HasPrefix(next, bytes.TrimLeft([]byte(o.missing), " ")) {
		return number, line
	}
	if o.missing[0] == ' ' {
		o.head = append(o.head, ' ')
	}
	o.head = append(o.head, next...)
	return first, o.head
}

var (
	// figuresFollow: what was asked for stands behind the words.
	figuresFollow = pattern.Of(`ried to alloc|MPS allocated`)
	// sentence goes on behind the words, other than to say where, which place does.
	sentence = pattern.Of(`^ [a-z]`)
	place    = pattern.Of(`^ (?:at|in|on|while|when|during) `)
	raises   = pattern.Of(`Error: |runtime error`)
	named    = pattern.Of(`[Ee]rror|failure|xception`)
)

// isMessage tells an error from prose and program text about errors: behind
// it follows what was asked for, or before it stands the exception's name.
func isMessage(line []byte, i int) bool {
	before, after := line[max(0, i-120):i], line[i+len("out of memory"):]
	if next := bytes.Index(after, outOfMemory); next >= 0 {
		after = after[:next] // fairseq's "ran out of memory with exception: CUDA out of memory. Tried…" is one
	}
	after = after[:min(len(after), 200)]
	backend := backendOf(before)
	switch {
	case figuresFollow().Match(after):
		return true
	case bytes.HasPrefix(after, []byte(" occurred when warming up sampler")), // vLLM's words, not PyTorch's
		// "we had a CUDA error: out of memory problem"
		sentence().Match(after) && !place().Match(after) && !raises().Match(before),
		quoted(before, after): // "out of memory" in str(e)
		return false
	case backend == "":
		return bytes.Contains(before, []byte("cuda runtime error"))
	case named().Match(before):
		return true
	}
	// The message may be wrapped right here, before "Tried to allocate".
	short := len(bytes.TrimSpace(after)) <= len(". Tried to allocat")
	return short && len(after) > 0 && after[0] == '.' && !bytes.ContainsAny(before, "\"'`(#") &&
		!denied(bytes.ToLower(before[:max(0, bytes.LastIndex(before, []byte(backend)))]))
}

// quoted reports whether the same quotes stand around the words, which aren't one of a list's strings.
func quoted(before, after []byte) bool {
	return len(after) > 0 && (after[0] == '"' || after[0] == '\'') && bytes.IndexByte(before, after[0]) >= 0 &&
		!bytes.HasPrefix(bytes.TrimLeft(after, "\"'"), []byte(","))
}

var backends = [...]string{"CUDA", "HIP", "XPU", "MPS", "NPU", "MUSA", "MLU", "HPU", "CUDNN", "CUBLAS"}

func backendOf(before []byte) string {
	if len(before) > 40 {
		before = before[len(before)-40:]
	}
	for _, name := range backends {
		if bytes.Contains(before, []byte(name)) {
			return name
		}
	}
	said := bytes.ToUpper(before)
	for _, name := range backends {
		if bytes.HasSuffix(said, []byte(name+" ")) || bytes.HasSuffix(said, []byte(name+" ERROR: ")) {
			return name
		}
	}
	return ""
}

// authors are allocators that name the file in which the driver refused them.
var authors = []struct{ in, by string }{{"cumem_allocator.cpp", "cumem"}, {"/THC/", "THC"}, {"/turbomind/", "LMDeploy"},
	{"CUDA driver error: out of memory", "expandable segments"}}

func authorOf(line []byte) string {
	for _, a := range authors {
		if bytes.Contains(line, []byte(a.in)) {
			return a.by
		}
	}
	return ""
}

func (o *oomState) begin(p *Parser, number int, line []byte, at int) {
	o.finish(p)
	if len(p.report.OOMs) >= maxEntries { // it wouldn't be kept
		p.report.Dropped++
		return
	}
	backend := backendOf(line[:at])
	*o = oomState{open: true, text: o.text[:0], prefix: append(o.prefix[:0], line[:at]...), head: o.head}
	o.message = evidence.OOMMessage{Line: number, Rank: p.rank(number, line[:at]), Backend: backend,
		AfterStep: p.steps.latest(), UpToStep: -1, Driver: ofDriver(line[:at]),
		Handled: !bytes.Contains(line[:at], []byte("Error: ")), By: authorOf(line)}
	p.tell(&o.message, line[:at])
	o.add(line[at:])
	if o.complete() {
		o.finish(p)
	}
}

// add appends text without its white space, so that it does not matter where
// the message was wrapped, even inside a number.
func (o *oomState) add(text []byte) {
	for _, c := range text {
		if len(o.text) == oomBytes {
			break // however long the line is
		}
		if c > ' ' {
			o.text = append(o.text, c)
		}
	}
	o.lines++
}

// complete tells that all figures have come.
func (o *oomState) complete() bool {
	if !bytes.Contains(o.text, []byte("Triedtoalloc")) {
		return len(o.text) > 120
	}
	return len(o.text) >= oomBytes || lastWords().Match(o.text)
}

// lastWords are those of the messages, and a size that a program's own words follow.
var lastWords = pattern.Of(`unallocated|totalbyPyTorch|cached\)|(?:private|shared)pool\.|riedtoallocate[\d.]+.iB(?:\.\.|[a-z,;])`)

// wrapped takes a line after the first; false when it is not part of the
// message, which then ends.
func (o *oomState) wrapped(p *Parser, line []byte) bool {
	if o.lines >= oomLines || !o.continues(line) {
		o.finish(p)
		return false
	}
	o.add(dropPrefix(line, o.prefix))
	if o.complete() {
		o.finish(p)
	}
	return true
}

// continues tells a wrapped line from the next statement: after the head of a
// message nothing but its own words may follow.
func (o *oomState) continues(line []byte) bool {
	line = dropPrefix(line, o.prefix)
	text := figures.Compact(line, 40)
	if len(text) == 0 {
		return false
	}
	if bytes.Contains(o.text, []byte("riedtoalloc")) || !bytes.HasPrefix(bytes.ToLower(o.text), []byte("o")) {
		return !bytes.HasPrefix(text, []byte("Traceback")) && !bytes.HasPrefix(text, []byte(`File"`)) &&
			!bytes.Contains(line, outOfMemory)
	}
	// Only the beginning has come: it must go on as the message does.
	const want = "outofmemory.triedtoallocate"
	all := bytes.ToLower(slices.Concat(o.text, text))
	n := min(len(want), len(all))
	return len(o.text) < len(want) && string(all[:n]) == want[:n]
}

// dropPrefix removes what a logger repeats before every line: the prefix of
// the first one up to the exception's name, box drawing and pytest's E.
func dropPrefix(line, prefix []byte) []byte {
	if i := bytes.LastIndexByte(prefix, ']'); i > 0 && i < len(line) && line[i] == ']' {
		line = line[i+1:]
		line = bytes.TrimPrefix(line, []byte(":"))
	}
	line = bytes.TrimSpace(line)
	line = bytes.TrimLeft(line, "> ")
	for _, mark := range [...]string{"│", "║", "|", "E  "} {
		line = bytes.TrimPrefix(line, []byte(mark))
		if mark != "E  " {
			line = bytes.TrimSuffix(line, []byte(mark))
		}
	}
	return line
}

func (o *oomState) blank(p *Parser) {
	if o.open {
		o.finish(p)
	}
}

func (o *oomState) finish(p *Parser) {
	if !o.open {
		return
	}
	o.open = false
	if readMessage(&o.message, o.text); o.message.RequestedBytes == nil {
		readMessage(&o.message, withoutSlips(o.text))
	}
	p.keepOOM(&o.message)
}

func (p *Parser) keepOOM(m *evidence.OOMMessage) {
	if len(p.report.OOMs) >= maxEntries {
		p.report.Dropped++
		return
	}
	if n := len(p.report.OOMs); n > 0 && (m.Driver && m.By == "" || m.By == "NVML") {
		if last := &p.report.OOMs[n-1]; last.By == "NvMap" && m.Line-last.Line <= awaitLines { // which refused the driver
			m.By, m.RequestedBytes = last.By, last.RequestedBytes
		}
	}
	p.survival.failed(p)
	p.report.OOMs = append(p.report.OOMs, *m)
}

// ofDriver tells "CUDA error: out of memory" and "cuda runtime error (2) : out of memory".
func ofDriver(before []byte) bool {
	before = bytes.ToLower(before[max(0, len(before)-24):])
	return bytes.HasSuffix(before, []byte("cuda error: ")) || bytes.HasSuffix(before, []byte("hip error: ")) ||
		bytes.HasSuffix(before, []byte(" driver error: ")) || bytes.Contains(before, []byte("runtime error"))
}

// messageFigures are what messages say, without white space: PyTorch's, in the forms that it has used, and those of others.
var messageFigures = []struct {
	field func(*evidence.OOMMessage) **int64
	forms []string
}{
	{func(m *evidence.OOMMessage) **int64 { return &m.RequestedBytes }, figures.Asked},
	{func(m *evidence.OOMMessage) **int64 { return &m.CapacityBytes },
		[]string{"totalcapacityof%", "totalcapactyof%", "%totalcapacity", "%total;", "Devicelimit:%"}},
	{func(m *evidence.OOMMessage) **int64 { return &m.DeviceFreeBytes },
		[]string{"%isfree", "%free;", "%free)", "Free(accordingtoCUDA):%", "availablememoryisonly%", "Have:%"}},
	{func(m *evidence.OOMMessage) **int64 { return &m.ProcessBytes }, []string{"thisprocesshas%"}},
	{func(m *evidence.OOMMessage) **int64 { return &m.AllowedBytes },
		[]string{"%allowed;", "maxallowed:%", "memoryfraction):%", "availableKVcachememory(%", "butonly%"}},
	{func(m *evidence.OOMMessage) **int64 { return &m.AllocatedBytes }, []string{"%isallocatedbyPyTorch", "%alreadyallocated",
		"MPSallocated:%", "Currentlyallocated:%", "%memoryhasbeenallocated"}},
	{func(m *evidence.OOMMessage) **int64 { return &m.BesideBytes }, []string{"otherallocations:%"}},
	{func(m *evidence.OOMMessage) **int64 { return &m.PrivatePoolBytes }, []string{"%allocatedinprivatepools"}},
	// Before 1.4 "cached" was what is reserved and not allocated
	// (c10/cuda/CUDACachingAllocator.cpp: amount_cached - amount_allocated).
	{func(m *evidence.OOMMessage) **int64 { return &m.ReservedUnallocatedBytes },
		[]string{"%isreservedbyPyTorchbutunallocated", "%cached)"}},
}

// slips are letters that programs which read pictures take for figures, and the other way round.
var slips = []struct {
	in func() *regexp.Regexp
	of *strings.Replacer
}{{pattern.Of(`[\dOoIl][\dOoIl.]*(?:[KMGT]iB|bytes)|GPU[OoIl];`), strings.NewReplacer("O", "0", "o", "0", "I", "1", "l", "1")},
	{pattern.Of(`[a-z][01][a-z]`), strings.NewReplacer("0", "o", "1", "l")}}

// withoutSlips is a message as it stood in the picture.
func withoutSlips(text []byte) []byte {
	for _, s := range slips {
		text = s.in().ReplaceAllFunc(text, func(part []byte) []byte { return []byte(s.of.Replace(string(part))) })
	}
	return text
}

var (
	// cutWords is a size that a message begins with whose first words are cut off.
	cutWords = pattern.Of(`^[.…]*([a-z]+)([\d.]+[KMGT]iB)`)
	// "node:200:300 [3] include/alloc.h:103 NCCL WARN" is of that GPU
	gpuOf     = pattern.Of(`(?:GPU:?|ondevice|\((?:NPU|MLU|XPU|MUSA|HPU))(\d{1,4})|\[(\d{1,3})\][^\[]*NCCLWARN`)
	backendIn = pattern.Of(`\((NPU|MLU|XPU|MUSA|HPU)`)
	// vLLM's pool (vllm/v1/core/kv_cache_utils.py) and sglang's count in tokens
	tokensOf = pattern.Of(`Trytoallocate(\d{1,15})|(?:^Available\w*tokens:|estimatedmaximummodellengthis)(\d{1,15})`)
	// what vLLM found at its start and wanted (vllm/v1/worker/utils.py): (10.20/23.65GiB) … (0.9,21.28GiB)
	startOf = pattern.Of(`Freememoryondevice[^(]*\(([\d.]+)/([\d.]+GiB)\).*memoryutilization\([\d.]+,([\d.]+GiB)`)
)

// readMessage takes the figures from a message without white space; false where there is none:
//
//	…allocate2.90GiB.GPU0hasatotalcapacityof178.35GiBofwhich1.47GiBisfree.
//	…allocate3.91GiB(GPU0;79.33GiBtotalcapacity;27.16GiBalreadyallocated;…
func readMessage(m *evidence.OOMMessage, text []byte) (found bool) {
	if cut := cutWords().FindSubmatch(text); cut != nil && bytes.HasSuffix([]byte("riedtoallocate"), cut[1]) {
		m.RequestedBytes, found = figures.Find(cut[2], "%"), true
	}
	for i := range messageFigures {
		f := &messageFigures[i]
		if v := figures.Find(text, f.forms...); v != nil {
			*f.field(m), found = v, true
		}
	}
	m.Beyond = m.Beyond || bytes.Contains(text, []byte("riedtoallocatemorethan1EB"))
	if r := figures.Find(text, "%reservedintotalbyPyTorch"); r != nil && m.AllocatedBytes != nil {
		m.ReservedUnallocatedBytes = known(max(*r-*m.AllocatedBytes, 0))
	}
	if in := backendIn().FindSubmatch(text); in != nil && m.Backend == "" {
		m.Backend = string(in[1])
	}
	if gpu := gpuOf().FindSubmatch(text); gpu != nil && m.GPU == nil {
		if n, _, _ := figures.Integer(bytes.Join(gpu[1:], nil)); n < 1024 {
			m.GPU = new(int(n))
		}
	}
	if tokens := tokensOf().FindSubmatch(text); tokens != nil {
		asked, _, _ := figures.Integer(tokens[1])
		free, _, _ := figures.Integer(tokens[2])
		m.Tokens, m.TokensFree, found = max(m.Tokens, asked), max(m.TokensFree, free), true
	}
	if start := startOf().FindSubmatch(text); start != nil {
		m.DeviceFreeBytes = figures.Find(slices.Concat(start[1], []byte("GiB")), "%")
		m.CapacityBytes, m.RequestedBytes = figures.Find(start[2], "%"), figures.Find(start[3], "%")
	}
	readProcesses(m, text)
	return found
}

func readProcesses(m *evidence.OOMMessage, text []byte) {
	for len(m.OtherProcesses) < 64 {
		i := bytes.Index(text, []byte("Process"))
		if i < 0 {
			return
		}
		text = text[i+len("Process"):]
		id, rest, ok := figures.Integer(text)
		if ok && bytes.HasPrefix(rest, []byte("has")) {
			if b := figures.After(rest, "has"); b > 0 { // 0: what the driver says of a process that ends
				m.OtherProcesses = append(m.OtherProcesses, evidence.ProcessUse{PID: int(id), Bytes: b})
			}
		}
	}
}

func known(bytes int64) *int64 { return evidence.Known(bytes) }
