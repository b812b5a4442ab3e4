package monitor

import (
	"bytes"
	"math/bits"
)

// Form is one of the formats of nvidia-smi and of the programs that print the same figures.
type Form uint8

const (
	Table Form = iota
	CSV
	AppsCSV
	Dmon
	Pmon
	Query
	XML
	Gpustat
	Nvitop
	RocmSMI
	AMDSMI
	DCGM
	NPUSMI
	HLSMI
	Tegrastats
	formCount
)

// String is the kind's name as reports print it.
func (f Form) String() string { return Forms[f].Name }

// Forms describes each, by its number.
var Forms = [formCount]struct{ Name, Tool, Example string }{
	Table: {"nvidia_smi_table", "nvidia-smi", `| NVIDIA-SMI 570.10   Driver Version: 570.10   CUDA Version: 12.8 |
|   0  NVIDIA L4      On  | 00000000:01:00.0 Off |              0 |
| N/A   52C    P0    30W /  72W |  1024MiB / 23034MiB |  9%  Default |`},
	CSV: {"nvidia_smi_csv", "nvidia-smi", `index, memory.used [MiB], memory.total [MiB]
0, 1024 MiB, 23034 MiB`},
	AppsCSV: {"nvidia_smi_apps_csv", "nvidia-smi", `gpu_uuid, pid, process_name, used_gpu_memory [MiB]
GPU-1, 101, python, 2048 MiB`},
	Dmon: {"nvidia_smi_dmon", "nvidia-smi", `# gpu     fb   bar1     sm    mem    pwr
# Idx     MB     MB      %      %      W
    0    239      3      6      1     70`},
	Pmon: {"nvidia_smi_pmon", "nvidia-smi", `# gpu         pid   type     fb   ccpm     sm    mem    enc    dec    command
    0       11497     C    386      -     30      1      -      -    python`},
	Query: {"nvidia_smi_query", "nvidia-smi", `==============NVSMI LOG==============
GPU 00000000:01:00.0
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 8192 MiB`},
	XML: {"nvidia_smi_xml", "nvidia-smi", `<nvidia_smi_log>
	<gpu id="00000000:01:00.0">
		<fb_memory_usage>
			<total>81559 MiB</total>
			<used>1000 MiB</used>
		</fb_memory_usage>
	</gpu>
</nvidia_smi_log>`},
	Gpustat: {"gpustat", "gpustat", `[0] NVIDIA A100 | 41'C,  97 % | 70000 / 81920 MB | me(69996M)`},
	Nvitop: {"nvitop", "nvitop", `│ NVITOP 1.4.2    Driver Version: 550.54.15    CUDA Driver Version: 12.4    │
│   0  A100-SXM4-80GB      Off  │ 00000000:07:00.0 Off │                    0 │
│ N/A   41C    P0   298W / 400W │  60.00GiB / 80.00GiB │     98%      Default │`},
	RocmSMI: {"rocm_smi", "rocm-smi", `GPU[0]		: VRAM Total Memory (B): 206141652992
GPU[0]		: VRAM Total Used Memory (B): 187588718592`},
	AMDSMI: {"amd_smi", "amd-smi", `GPU: 0
    MEM_USAGE:
        TOTAL_VRAM: 196592 MB
        USED_VRAM: 178880 MB`},
	DCGM: {"dcgm", "DCGM", `#Entity   GPUTL  FBUSD  FBTTL
ID
GPU 0     98     60000  81920`},
	NPUSMI: {"npu_smi", "npu-smi", `| npu-smi 24.1.0                 Version: 24.1.0                                     |
| NPU   Name      | Health       | Power(W)  Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID    | Bus-Id       | AICore(%) Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     Ascend910 | OK           | 150.0     40                0    / 0             |
| 0     0         | 0000:9D:00.0 | 50        0    / 0          4000 / 65536         |`},
	HLSMI: {"hl_smi", "hl-smi", `| HL-SMI Version:                              hl-1.16.0-fw-50.1.2.0          |
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|   0  HL-225              N/A  | 0000:33:00.0     N/A |                   0  |
| N/A   26C   N/A    95W / 600W |    768MiB / 98304MiB |     0%           N/A |`},
	Tegrastats: {"tegrastats", "tegrastats", `06-02-2025 10:00:01 RAM 5512/7620MB (lfb 2x1MB) SWAP 0/3810MB (cached 0MB) ` +
		`CPU [33%@1510,off] GR3D_FREQ 99% CPU@60C`},
}

// start is how a form begins, or what goes on although it is no listing.
type start struct {
	first string // bytes of which the first of such a line is one, blanks aside; "": any but those of rules
	take  func(p *Parser, line []byte) bool
}

// rowFirsts are the bytes that lines of rowForms begin with.
var rowFirsts = func() (all string) {
	for c, forms := range rowsOf {
		if len(forms) > 0 {
			all += string([]byte{byte(c)})
		}
	}
	return all
}()

// letters are those that begin names of week days.
const letters = "FGHIJKLMNOPQRSTUVW"

// starts are in the order in which a line is offered to them.
var starts = [...]start{
	{rowFirsts, func(p *Parser, line []byte) bool { return p.oneRow.line(&p.gathered, line) }},
	{"#", func(p *Parser, line []byte) bool { return p.monitor.header(line) }},
	{"=", func(p *Parser, line []byte) bool { return p.query.header(&p.gathered, line) }},
	{letters, func(p *Parser, line []byte) bool { return p.dateLine(line) }},
	{"", func(p *Parser, line []byte) bool { return p.prefixedDate(line) }},
	{"", prefixedTable},
	{"", func(p *Parser, line []byte) bool { return p.csv.begin(line) }},
	{"", func(p *Parser, line []byte) bool { return p.csv.bareRow(&p.gathered, line) }},
}

// startsOf are the starts to try by a line's first byte, a bit each. Where the rules of tables and headings begin a
// line, only those are tried that say so.
var startsOf = func() (of [256]uint32) {
	for i, s := range starts {
		for c := range of {
			switch alone := bytes.IndexByte([]byte("|+#="), byte(c)) >= 0; {
			case s.first == "" && !alone, bytes.IndexByte([]byte(s.first), byte(c)) >= 0:
				of[c] |= 1 << i
			}
		}
	}
	return of
}()

// startLine looks for the beginning of any form; it sees every line of an
// ordinary log and must refuse most of them after a few byte searches.
func (p *Parser) startLine(line []byte) bool {
	for try := startsOf[firstByte(line)]; try != 0; try &= try - 1 {
		if starts[bits.TrailingZeros32(try)].take(p, line) {
			return true
		}
	}
	return false
}

// prefixedTable reads a table behind a log's time or rank.
func prefixedTable(p *Parser, line []byte) bool {
	if p.prefixed == 0 && !bytes.Contains(line, []byte("NVIDIA-SMI")) {
		return false
	}
	bar := bytes.IndexAny(line, "|+")
	if bar <= 0 {
		return false
	}
	cells := line[bar:]
	if rest := bytes.TrimLeft(cells[1:], " "); len(rest) > 0 && (rest[0] == '|' || rest[0] == '+') {
		cells = rest // docker compose puts a bar before every line
	}
	if !p.oneRow.line(&p.gathered, cells) {
		return false
	}
	p.prefixed = foreignLines
	return true
}

func firstByte(line []byte) byte {
	for _, c := range line {
		if c != ' ' && c != '\t' {
			return c
		}
	}
	return 0
}
