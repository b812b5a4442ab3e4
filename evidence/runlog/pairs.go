package runlog

import (
	"math"

	"github.com/vramscope/vramscope/internal/units"
)

// pair is a number and what the words before it mean: "loss: 2.43",
// "dt: 644.74ms".
type pair struct {
	*meaning
	position int // in the line
	value    float64
	whole    bool // written without a fraction
	decimals int  // digits of the fraction
	unit     unit
	of       bool // followed by /total: "iter 10/100"
	after    byte // what follows the number and its unit
	end      int  // where that stands in the line
}

func (p *pair) reset(position int, m *meaning) {
	p.meaning, p.position = m, position
	p.value, p.whole, p.decimals, p.unit, p.of, p.after = 0, true, 0, noUnit, false, 0
}

// unit is what is written directly behind a number.
type unit uint8

const (
	noUnit unit = iota
	milliseconds
	seconds
	minutes
	percent
	bytesUnit
	kib
	mibUnit
	gibUnit
	kb
	mb
	gb
	perSecond // it/s
	perItem   // s/it
	otherUnit
)

// factor is the unit in bytes; binary tells frameworks whose MB are MiB.
func (u unit) factor(binary bool) float64 {
	switch u {
	case bytesUnit:
		return 1
	case kib:
		return 1 << 10
	case mibUnit:
		return 1 << 20
	case gibUnit:
		return 1 << 30
	case kb:
		return choose(binary, 1<<10, 1e3)
	case mb:
		return choose(binary, 1<<20, 1e6)
	case gb:
		return choose(binary, 1<<30, 1e9)
	}
	return 0
}

func choose(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

// inBillions tells bytes that were divided by 1e9 and printed in full, as in
// "gpu 6.266131968": a multiple of 512, which is what the allocator deals in.
// By chance that is one number in 512.
func (p *pair) inBillions() bool {
	if p.unit != noUnit || p.decimals < 6 || p.decimals > 9 || p.value <= 0 || p.value > 1e4 {
		return false
	}
	return int64(math.Round(p.value*1e9))%512 == 0
}

func (u unit) isSize() bool { return u >= bytesUnit && u <= gb }

// maxPairs bounds what is looked at in one line.
const maxPairs = 64

// scan finds the pairs of a line in one pass. The slots of list keep what
// stood there in the line before, which mostly means the same again.
// It is the hot loop of step lines.
func (d *dictionary) scan(list []pair, line []byte) []pair {
	if cap(list) < maxPairs {
		list = make([]pair, 0, maxPairs)
	}
	list = list[:0]
	if len(line) > 4096 {
		line = line[:4096]
	}
	keyStart := 0
	for i := 0; i < len(line); {
		switch classes[line[i]] {
		case digitByte:
			list = list[:len(list)+1]
			p := &list[len(list)-1]
			p.reset(i, d.lookAgain(p.meaning, line[keyStart:i]))
			p.read(line, i)
			if len(list) == maxPairs {
				return list
			}
			i, keyStart = p.end, p.end
		case wordByte:
			start := i
			for i < len(line) && classes[line[i]] <= wordByte {
				i++
			}
			if i-start == 3 && notFinite(line[start:i]) {
				list = list[:len(list)+1]
				p := &list[len(list)-1]
				p.reset(start, d.lookAgain(p.meaning, line[keyStart:start]))
				p.value, p.whole, p.end = math.NaN(), false, i
				if len(list) == maxPairs {
					return list
				}
				keyStart = i
			}
		case separatorByte:
			i++
			keyStart = i
		default:
			i++
		}
	}
	return list
}

// read reads a number with its sign and its unit.
func (p *pair) read(line []byte, i int) {
	end := p.number(line, i)
	if i > 0 && line[i-1] == '-' && (i < 2 || !isWordByte(line[i-2])) {
		p.value = -p.value
	}
	if p.end = p.unitAt(line, end); p.end < len(line) {
		p.after = line[p.end]
	}
}

func notFinite(word []byte) bool {
	return string(word) == "nan" || string(word) == "inf" || string(word) == "NaN"
}

// The classes of bytes a scan tells apart.
const (
	digitByte = iota
	wordByte
	separatorByte
	otherByte
)

var classes = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9':
			t[c] = digitByte
		case c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80:
			t[c] = wordByte
		case c == '|' || c == ',' || c == ';' || c == '{' || c == '\t':
			t[c] = separatorByte
		default:
			t[c] = otherByte
		}
	}
	return t
}()

func isWordByte(c byte) bool { return classes[c] <= wordByte }

// number reads 813,175 and 1.25E+01 and 6/ 20; it returns where it ends.
// It is a hot loop of step lines.
func (p *pair) number(line []byte, i int) int {
	p.value, i = magnitude(line, i)
	if i == len(line) {
		return i
	}
	if line[i] == '.' {
		i = p.fraction(line, i)
	}
	if i < len(line) && line[i]|0x20 == 'e' {
		i = p.exponent(line, i)
	}
	return p.ofTotal(line, i)
}

// fraction reads what follows a point.
func (p *pair) fraction(line []byte, i int) int {
	if i+1 == len(line) || !units.IsDigit(line[i+1]) {
		// Python's "2." of a rounded float, or a full stop
		p.whole = p.whole && i+1 < len(line) && line[i+1] != ' ' && line[i+1] != ','
		return i
	}
	p.whole = false
	start := i + 1
	fraction := uint64(0)
	for i++; i < len(line) && units.IsDigit(line[i]); i++ {
		if i-start < len(powers)-1 {
			fraction = fraction*10 + uint64(line[i]-'0')
		}
	}
	p.decimals = i - start
	p.value += float64(fraction) / powers[min(p.decimals, len(powers)-1)]
	return i
}

// exponent reads e-05.
func (p *pair) exponent(line []byte, at int) int {
	i := at + 1
	negative := i < len(line) && line[i] == '-'
	if negative || i < len(line) && line[i] == '+' {
		i++
	}
	if i == len(line) || !units.IsDigit(line[i]) {
		return at
	}
	p.whole = false
	exponent := 0
	for ; i < len(line) && units.IsDigit(line[i]); i++ {
		exponent = min(exponent*10+int(line[i]-'0'), 400)
	}
	if negative {
		exponent = -exponent
	}
	p.value *= math.Pow10(exponent)
	return i
}

// ofTotal reads the "/ 20" behind a number.
func (p *pair) ofTotal(line []byte, i int) int {
	j := afterBlanks(line, i)
	if j == len(line) || line[j] != '/' {
		return i
	}
	if j = afterBlanks(line, j+1); j == len(line) || !units.IsDigit(line[j]) {
		return i
	}
	p.of = true
	_, i = magnitude(line, j)
	for i+1 < len(line) && (line[i] == '.' && units.IsDigit(line[i+1]) || units.IsDigit(line[i])) {
		i++
	}
	if i < len(line) && units.IsDigit(line[i]) {
		i++
	}
	return i
}

func afterBlanks(line []byte, i int) int {
	for i < len(line) && line[i] == ' ' {
		i++
	}
	return i
}

// powers of ten that float64 has exactly, as far as uint64 goes along.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// magnitude reads digits with thousands separators.
func magnitude(line []byte, i int) (v float64, end int) {
	group := 0
	whole := uint64(0)
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case units.IsDigit(c):
			if whole > 1<<60 {
				return longMagnitude(float64(whole), line, i)
			}
			whole = whole*10 + uint64(c-'0')
			group++
		case c == ',' && group <= 3 && group > 0 && i+3 < len(line) && units.IsDigit(line[i+1]) && units.IsDigit(line[i+2]) &&
			units.IsDigit(line[i+3]) &&
			(i+4 == len(line) || !units.IsDigit(line[i+4])):
			group = 0
		default:
			return float64(whole), i
		}
	}
	return float64(whole), i
}

// longMagnitude goes on where an integer would overflow.
func longMagnitude(v float64, line []byte, i int) (float64, int) {
	for ; i < len(line) && units.IsDigit(line[i]); i++ {
		v = v*10 + float64(line[i]-'0')
	}
	return v, i
}

// unitAt reads a unit behind the number, after one blank at most.
func (p *pair) unitAt(line []byte, i int) int {
	start := i
	if start < len(line) && line[start] == ' ' {
		start++
	}
	end := start
	for end < len(line) && end-start < 9 && inUnit[line[end]] {
		end++
	}
	u := unitOf(line[start:end])
	if u == otherUnit && (start > i || line[start] == '/' && isName(line[end:])) || u == noUnit {
		return i // the next word, not a unit
	}
	if (u == seconds || u == minutes) && start > i && end-start == 1 {
		return i // "5 s" is as likely the start of something else
	}
	p.unit = u
	return end
}

// isName tells DeepSpeed's epoch=0/micro_step=80 by what follows "/micro".
func isName(rest []byte) bool {
	for len(rest) > 0 && isWordByte(rest[0]) {
		rest = rest[1:]
	}
	return len(rest) > 0 && rest[0] == '='
}

// inUnit are the bytes of units.
var inUnit = func() (t [256]bool) {
	for c := range t {
		t[c] = c|0x20 >= 'a' && c|0x20 <= 'z' || c == '/' || c == '%'
	}
	return t
}()

func unitOf(b []byte) unit {
	switch string(b) {
	case "":
		return noUnit
	case "ms":
		return milliseconds
	case "s", "sec", "secs", "seconds":
		return seconds
	case "m", "min":
		return minutes
	case "%":
		return percent
	case "B", "bytes":
		return bytesUnit
	case "KiB":
		return kib
	case "MiB", "M":
		return mibUnit
	case "GiB", "G":
		return gibUnit
	case "KB", "kB":
		return kb
	case "MB", "Mb":
		return mb
	case "GB", "Gb":
		return gb
	case "it/s":
		return perSecond
	case "s/it", "s/step", "s/iter", "sec/step", "sec/iter", "sec/it":
		return perItem
	}
	return otherUnit
}

// keyBytes is how much text before a number is looked at.
const keyBytes = 56
