package monitor

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// rowForm is a line that tells of a GPU or a process by itself, or with what lines before it told.
type rowForm struct {
	form  Form
	below bool    // its form's head, without which others draw such lines, too
	first string  // bytes of which the line's first is one, blanks aside
	word  string  // that it has, which a byte search tells first
	unit  float64 // of figures without one
	line  func() *regexp.Regexp
}

// states are persistence modes and driver models, one of which may stand behind a GPU's name.
const states = `(?: +(?:On|Off|N/A|WDDM|TCC|MCDM|Disabled|Enabled|ERR!))?`

// rowForms are lines of gpustat (gpustat/core.py, print_to; with fans, power and codecs or without), rocm-smi,
// amd-smi, npu-smi, nvitop (`nvitop -1`), tegrastats and dcgm-exporter. A group is called after what it holds: card and chip
// are npu-smi's numbers of what programs know by another, part is how AMD's card is divided, list names gpustat's processes.
var rowForms = []rowForm{
	{Gpustat, false, "[", " MB", mib, pattern.Of(`^ *\[(?P<gpu>\d+)\] *(?P<name>[^|]*?) *\|[^|]*C(?:[^|]*, *(?P<busy>\d+) %|,)` +
		`[^|]*\|(?P<used>[^|/]*)/(?P<total>[^|]*) MB *(?:\|(?P<list>.*))?$`)},
	{RocmSMI, false, "G", "VRAM", 1, pattern.Of(`^GPU\[(?P<gpu>\d+)\].*VRAM Total Memory \(B\): (?P<total>\d+)`)},
	{RocmSMI, false, "G", "VRAM", 1, pattern.Of(`^GPU\[(?P<gpu>\d+)\].*VRAM Total Used Memory \(B\): (?P<used>\d+)`)},
	{RocmSMI, false, "DG", "VRAM%", 1, pattern.Of(`(?P<head>VRAM% +GPU%)`)},
	{RocmSMI, false, "0123456789", "%", 1, pattern.Of(`^ *(?P<gpu>\d+) .*?(?:NPS\d, (?P<part>[CDQT]PX),.*)?(?:W|N/A) +\d+% +` +
		`(?P<busy>\d+)%\s*$`)},
	{AMDSMI, false, "G", "GPU: ", mib, pattern.Of(`^GPU: (?P<gpu>\d+)\s*$`)},
	{AMDSMI, false, "T", "TOTAL_VRAM: ", mib, pattern.Of(`^ +TOTAL_VRAM: (?P<total>\d+ \wB)`)},
	{AMDSMI, false, "U", "USED_VRAM: ", mib, pattern.Of(`^ +USED_VRAM: (?P<used>\d+ \wB)`)},
	{AMDSMI, false, "G", "VRAM_USAGE", mib, pattern.Of(`^GPU +.*(?P<head>VRAM_USAGE)`)},
	{AMDSMI, true, "0123456789", "B", mib, pattern.Of(`^ *(?P<gpu>\d+) .* (?P<used>[\d.]+)/(?P<total>[\d.]+) (?P<unit>\wB)\s*$`)},
	{AMDSMI, true, "|", " W", mib, pattern.Of(`^\| [[:xdigit:]]+:\S+ +(?P<name>[^|]*?) *\|.* W *\|$`)},
	{AMDSMI, true, "|", "B", mib, pattern.Of(`^\| +(?P<gpu>\d+) [^|]*\| *(?P<busy>\S+) .* ` +
		`(?P<used>\d+)/(?P<total>\d+) (?P<unit>\wB) *\|$`)},
	{AMDSMI, true, "|", "B ", mib, pattern.Of(`^\| +(?P<gpu>\d+) +(?P<pid>\d+) +(?P<process>\S+) +[\d.]+ \w?B +` +
		`(?P<size>[\d.]+ \w?B)\b.*\|$`)},
	{AMDSMI, false, "|", "AMD-SMI", mib, pattern.Of(`(?P<head>AMD-SMI)`)},
	{AMDSMI, true, "|", "Processes:", mib, pattern.Of(`(?P<own>Processes:)`)}, // nvidia-smi's table has that line, too
	{NPUSMI, false, "|", "npu-smi ", mib, pattern.Of(`(?P<head>npu-smi .*Version:)`)},
	{NPUSMI, true, "|", "|", mib, pattern.Of(`^\| (?P<card>\d+) +(?P<name>[^|]*?) *\| *[A-Za-z]+ *\|.*/`)},
	{NPUSMI, true, "|", "/", mib, pattern.Of(`^\| (?P<chip>\d+) +(?P<gpu>\d*) *\| (?P<bus>\w+:\w+:[\w.]+) *\| (?P<busy>\d+) ` +
		`.*\s(?P<used>\d+) */ (?P<total>[1-9]\d*) *(?:0 */ 0 *)?\|$`)},
	{NPUSMI, true, "|", "|", mib, pattern.Of(`^\| (?P<card>\d+) +(?P<chip>\d+) +\| (?P<pid>\d+) +\| (?P<process>[^|]*?) *\| ` +
		`(?P<size>\d+) *\|$`)},
	{Nvitop, false, "\xe2", "NVITOP", mib, pattern.Of(`(?P<head>NVITOP)`)},
	{Nvitop, true, "\xe2", "│", mib, pattern.Of(`^│ +(?P<own>(?P<gpu>\d+) +(?P<name>[^│]*?)` + states + ` *│ *` +
		`(?P<bus>[^ │]*:[^ │]*) )`)},
	{Nvitop, true, "\xe2", "iB", mib, pattern.Of(`^│ +(?P<gpu>\d+) +(?P<pid>\d+) +\S+ +\S+ +(?P<size>\S+iB) +.*? ` +
		`(?:\d+:\d+(?::\d+)?|[\d.]+ days) +(?P<process>[^│]*?) *│`)},
	{Nvitop, true, "\xe2", "iB", mib, pattern.Of(`^│[^│]*│ *(?P<used>[\d.]+\wiB) */ *(?P<total>[\d.]+\wiB) *│ *(?P<busy>\S+)`)},
	// nvidia-smi's own table, and hl-smi's: a GPU's two rows, with persistence modes and driver models behind its name;
	// instances of MIG; processes, which have columns for those since driver 450
	{Table, false, "|", "-SMI", mib, pattern.Of(`(?P<own>(?P<head>(?P<tool>NVIDIA|HL)-SMI))(?:.*Driver ` +
		`Version: *(?P<driver>[\d.]{1,20}))?(?:.*CUDA Version: *(?P<cuda>[\d.]{1,20}))?`)},
	{Table, false, "|", ":", mib, pattern.Of(`^\| *(?P<own>(?P<head>(?P<gpu>\d+) +(?P<name>[^|]*?)` + states + ` *\| *` +
		`(?P<bus>[^\s|:]+:[^\s|:]+:[^\s|:]+\.\S)(?: [^|]*)?\| *[^|\s][^|]*\|))`)},
	{Table, true, "|", ":", mib, pattern.Of(`^\| *(?P<own>(?P<gpu>\d+) +(?P<name>[^|]*?)` +
		states + ` *\| *(?P<bus>[^ |]*:[^ |]*))`)},
	{Table, false, "|", "iB", mib, pattern.Of(`^\| *(?P<head>(?P<gpu>\d{1,6})) +(?:(?P<gi>\d+|N/A) +\S+ +)?(?P<pid>\d+) +` +
		`(?:C|G|C\+G|M\+C) +(?P<process>\S[^|]*?) +(?P<size>[^\s|]*iB) *\|$`)},
	{Table, false, "|", "rocesses:", mib, pattern.Of(`^\| (?P<own>(?P<head>(?P<list>Processes:|Compute processes:)))`)},
	{Table, true, "|", "rocesses", mib, pattern.Of(`(?P<own>(?P<list>Processes:|Compute processes))`)},
	{Table, false, "|", "MIG devices:", mib, pattern.Of(`^\| (?P<own>(?P<head>MIG devices:))`)},
	{Table, true, "|", "No running processes found", mib, pattern.Of(`(?P<own>(?P<none>No running processes found))`)},
	{Table, true, "|", "iB", mib, pattern.Of(`^\| *(?P<gpu>\d+) +(?P<gi>\d+) +\S+ +\S+ *\|` +
		`(?P<own>(?P<used>[^|/]*)/(?P<total>[^|]*))\|`)},
	{Table, true, "|", "/", mib, pattern.Of(`^\|[^|]*\|(?P<used>[^|/]*[iM]B) */(?P<total>[^|]*)\|?(?P<busy>[^|]*)`)},
	{Table, true, "|", "|", mib, pattern.Of(`^\|[^|]*(?:N/A|W[^|]*/|/[^|]*W)[^|]*\|[^|]*\|(?P<busy>[^|]*)`)}, // no figures
	{Table, true, "|", "", mib, pattern.Of(`^\| *(?P<gpu>\d+) +(?:(?P<gi>\d+|N/A) +(?:\d+|N/A) +)?(?P<pid>\d+) +(?:[CGM+]+ +)?` +
		`(?P<process>[^|]*?)(?: +(?P<size>\S*iB|\S*MB|N/A))? *\|$`)},
	{Table, true, "+", "--", mib, pattern.Of(`^(?P<own>(?P<rule>\+-))`)},
	// of Jetson, whose GPU has the machine's memory
	{Tegrastats, false, "0123456789R", "RAM ", mib, pattern.Of(`(?:^|\d )RAM (?P<used>\d+)/(?P<total>\d+)MB \(lfb .*` +
		`GR3D_FREQ (?P<busy>\d+)%`)},
	{DCGM, false, "D", "DEV_FB_USED{", mib, pattern.Of(`^DCGM_FI_DEV_FB_USED\{(?P<labels>.*)\} *(?P<used>\S+)` +
		`(?: +(?P<time>\d+))?`)},
	{DCGM, false, "D", "DEV_FB_FREE{", mib, pattern.Of(`^DCGM_FI_DEV_FB_FREE\{(?P<labels>.*)\} *(?P<free>\S+)`)},
}

// rowsState is what lines before said, by form.
type rowsState [formCount]carried

// carried is what lines before said of the GPU that comes next, or came last.
type carried struct {
	gpu, card  int
	last       int   // with a reading
	total      int64 // 0 or negative: nothing
	name, bus  string
	head       bool
	clock      evidence.Stamp
	chips      map[[2]int]int // by card and chip, the number that programs know
	used, free map[int]int64  // by GPU, until both are told; gpuIn bounds them

	// of nvidia-smi's table
	tool      Form           // whose it is
	pending   bool           // a GPU's first row has come
	listing   bool           // the head of the list of processes
	processes int            // rows of the list
	listed    []tableReading // the GPUs of this table
}

// maxChips is of how many chips the numbers are kept.
const maxChips = 1024

// rowsOf are the numbers of the forms whose lines begin with a byte.
var rowsOf = func() (of [256][]int) {
	for i := range rowForms {
		for k := range rowForms[i].first {
			c := rowForms[i].first[k]
			of[c] = append(of[c], i)
		}
	}
	return of
}()

// line reads a line that is one of those; false for any other, and for what tells no figure.
func (s *rowsState) line(all *gathered, line []byte) bool {
	const longest = 4096
	for _, i := range rowsOf[firstByte(line)] {
		f := &rowForms[i]
		if f.below && !s[f.form].head || len(line) > longest || !bytes.Contains(line, []byte(f.word)) {
			continue
		}
		if m := f.line().FindSubmatch(line); m != nil {
			r := found{f, m}
			return s[f.form].take(all, &r)
		}
	}
	return false
}

// found are a form's groups in a line.
type found struct {
	*rowForm
	groups [][]byte
}

// text is what a group holds, nil where there is none.
func (f *found) text(group string) []byte {
	if i := f.line().SubexpIndex(group); i > 0 {
		return f.groups[i]
	}
	return nil
}

// number is a group's, false for none.
func (f *found) number(group string) (int, bool) { return gpuIn(f.text(group)) }

func (f *found) bytes(group string) int64 {
	return memory(slices.Concat(f.text(group), f.text("unit")), f.unit)
}

// take files what a line tells; false where that is no figure.
func (c *carried) take(all *gathered, f *found) bool {
	c.remember(all, f)
	if f.form == Table && !c.table(all, f) {
		return false
	}
	if f.text("own") != nil {
		return true
	}
	if pid, ok := pidIn(f.text("pid")); ok {
		return c.process(all, f, pid)
	}
	if labels := f.text("labels"); labels != nil {
		return c.metric(all, f, labels)
	}
	return c.reading(all, f)
}

// remember keeps what a line says for those behind it.
func (c *carried) remember(all *gathered, f *found) {
	if name := f.text("name"); name != nil {
		c.name = string(name)
	}
	if bus := f.text("bus"); bus != nil {
		c.bus = busID(string(bus))
	}
	if part := f.text("part"); part != nil {
		all.partition = string(part)
	}
	c.head = c.head || f.text("head") != nil
	if card, ok := f.number("card"); ok {
		c.card = card
	}
	last := c.gpu
	if chip, ok := f.number("chip"); ok && f.text("pid") == nil {
		c.gpu = c.card // cards of one chip have no other number
		if c.chips == nil {
			c.chips = map[[2]int]int{}
		}
		at := [2]int{c.card, chip}
		if _, known := c.chips[at]; known || len(c.chips) < maxChips {
			defer func() { c.chips[at] = c.gpu }()
		}
	}
	if gpu, ok := f.number("gpu"); ok {
		c.gpu = gpu
	}
	if total := f.bytes("total"); total != Unknown || c.gpu != last {
		c.total = total
	}
}

// reading takes one of a GPU, whose number stands in the line or stood in one before.
func (c *carried) reading(all *gathered, f *found) bool {
	s := evidence.Sample{UsedBytes: f.bytes("used"), UtilizationPercent: number(f.text("busy"))}
	if _, isGPU := f.number("gpu"); !isGPU && len(f.text("gpu")) > 0 {
		return false
	}
	if s.UsedBytes == Unknown && (f.text("busy") == nil || f.text("used") != nil || !c.head) {
		return f.text("total") != nil && f.text("used") == nil
	}
	if c.last >= c.gpu && f.form != Table || all.clock.Known() {
		c.clock, all.clock = all.clock, evidence.Stamp{} // another reading of all GPUs
	}
	c.last, s.At = c.gpu, c.clock
	u := all.reading(c.form(f), c.gpu, s, cmp.Or(c.total, Unknown))
	if c.name != "" {
		u.name = fullName(c.name, u.name)
	}
	if u.ids[2] = c.bus; f.form == Table && len(c.listed) < maxUnits {
		c.pending, c.listed = false, append(c.listed, tableReading{u, s.UsedBytes})
	}
	for _, word := range bytes.Fields(f.text("list")) {
		u.gpustatProcess(s.At, word)
	}
	return true
}

// process takes one of a list.
func (c *carried) process(all *gathered, f *found, pid int) bool {
	gpu, ok := f.number("gpu")
	if chip, isChip := f.number("chip"); isChip {
		gpu, ok = c.chips[[2]int{c.card, chip}]
	}
	if ok {
		u := all.byIndex(c.form(f), gpu)
		u.process(c.clock, pid, f.text("process"), f.bytes("size"))
		if gi, isInstance := atoi(string(f.text("gi"))); isInstance && u.processes[pid] != nil {
			u.processes[pid].Instance = gi
		}
		u.unlisted = 0
		if f.form == Table {
			c.alone(all, f)
		}
	}
	return ok
}

// form is a line's, of a table that several print its printer's.
func (c *carried) form(f *found) Form { return cmp.Or(c.tool, f.form) }

// metric takes one of dcgm-exporter's, which tells what is in use and what is free one after the other:
//
//	DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-…",modelName="NVIDIA A100-SXM4-80GB"} 79012
func (c *carried) metric(all *gathered, f *found, labels []byte) bool {
	gpu, ok := gpuIn(metricLabel(labels, "gpu"))
	if !ok || len(metricLabel(labels, "GPU_I_ID")) > 0 {
		return true // of a MIG instance
	}
	if c.used == nil {
		c.used, c.free = map[int]int64{}, map[int]int64{}
	}
	u := all.byIndex(DCGM, gpu)
	u.name, u.ids[1] = string(metricLabel(labels, "modelName")), string(metricLabel(labels, "UUID"))
	total := Unknown // less what the driver keeps for itself
	mine, other, bytes := c.used, c.free, f.bytes("used")
	if f.text("used") == nil {
		mine, other, bytes = c.free, c.used, f.bytes("free")
	}
	if before, known := other[gpu]; known && bytes != Unknown {
		total = before + bytes
		delete(other, gpu)
	} else {
		mine[gpu] = bytes
	}
	if f.text("used") == nil {
		raise(&u.gpu.TotalBytes, total)
		return true
	}
	at, _ := parseStamp(f.text("time"))
	all.reading(DCGM, gpu, evidence.Sample{At: at, UsedBytes: bytes, UtilizationPercent: -1}, total)
	return true
}

var metricLabels = pattern.Of(`[{,]? *(\w+)="([^"]*)"`)

// metricLabel is the value of one of a metric's labels.
func metricLabel(labels []byte, name string) []byte {
	for _, m := range metricLabels().FindAllSubmatch(labels, 64) {
		if string(m[1]) == name {
			return m[2]
		}
	}
	return nil
}

// gpustatProcess reads "me:python/12044(60014M)", also without user or program;
// one without a number can't be told from others.
func (u *unit) gpustatProcess(at evidence.Stamp, word []byte) {
	who, size, ok := bytes.Cut(word, []byte("("))
	slash := bytes.LastIndexByte(who, '/')
	if !ok || slash < 0 {
		return
	}
	_, program, named := bytes.Cut(who[:slash], []byte(":"))
	if !named {
		program = nil // a user or a program
	}
	if id, isProcess := pidIn(who[slash+1:]); isProcess {
		u.process(at, id, program, memory(size, mib))
	}
}
