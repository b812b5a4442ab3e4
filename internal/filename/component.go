package filename

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vramscope/vramscope/internal/pattern"
)

// component is one folder's or file's name.
type component struct {
	text   string
	folder bool
	tokens []token

	rank, local, node, world int
	pid                      int
	doubtful                 bool
	order                    []int64
	time                     int64 // microseconds since the Unix epoch, 0: none
	last                     bool
}

// token is a word of letters in lower case, or a number.
type token struct {
	text   string
	number bool
	value  int64
	taken  bool // it tells ranks or dumps apart
}

var tokens = pattern.Of(`[A-Z]?[a-z]+|[A-Z]+|[0-9]+`)

// read finds what the component says.
func (p *component) read() {
	p.rank, p.local, p.node = Unknown, Unknown, Unknown
	text := p.takeTime(p.text)
	for _, s := range tokens().FindAllString(text, 1000) {
		v, err := strconv.ParseInt(s, 10, 64)
		p.tokens = append(p.tokens, token{text: strings.ToLower(s), number: err == nil, value: v})
	}
	for i := range p.tokens {
		p.word(i)
	}
}

// Words before a number that say what it counts.
var (
	stepWords = wordSet("step steps iteration iterations iter iters it epoch batch idx dump")
	lastWords = wordSet("oom exit crash crashed final last end ooms error outofmemory")
	nodeWords = wordSet("node host machine")
	cardWords = wordSet("gpu cuda device dev localrank card")
	// coordinates are ranks within a part of the job.
	coordinates = wordSet("dp tp pp ep cp mp sp fsdp ddp data tensor pipeline pipe stage expert context sequence model group " +
		"replica shard parallel vpp etp")
	// otherRanks are ranks of matrices.
	otherRanks = wordSet("lora dora qlora low galore svd matrix adapter adapters lokr loha vera peft")
)

func wordSet(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// word looks at the i-th token and what follows it.
func (p *component) word(i int) {
	t := &p.tokens[i]
	if t.number {
		return
	}
	if lastWords[t.text] {
		p.last, t.taken = true, true
		return
	}
	if i+1 == len(p.tokens) || !p.tokens[i+1].number {
		return
	}
	n := &p.tokens[i+1]
	small := n.value < maxRank
	switch {
	case t.text == "rank" && small:
		p.takeRank(i)
	case t.text == "r" && small && p.rank < 0:
		p.rank, p.doubtful = int(n.value), true
		t.taken, n.taken = true, true
	case cardWords[t.text] && small:
		p.local, t.taken, n.taken = int(n.value), true, true
	case nodeWords[t.text] && small:
		p.node, t.taken, n.taken = int(n.value), true, true
	case t.text == "world" && small:
		p.world, n.taken = int(n.value), true
	case t.text == "pid":
		p.pid = int(n.value)
		if i+2 < len(p.tokens) && p.tokens[i+2].number { // as in the names of this program's recorder, that of the dump
			p.order, p.tokens[i+2].taken = append(p.order, p.tokens[i+2].value), true
		}
	case stepWords[t.text]:
		p.order = append(p.order, n.value)
		t.taken, n.taken = true, true
	}
}

// takeRank reads "rank" and a number, with the word before that says of what.
func (p *component) takeRank(i int) {
	t, n := &p.tokens[i], &p.tokens[i+1]
	before := ""
	if i > 0 {
		before = p.tokens[i-1].text
	}
	switch {
	case before == "local":
		p.local = int(n.value)
	case nodeWords[before]:
		p.node = int(n.value)
	case coordinates[before]:
		return // its number stays in the stem
	default:
		p.rank, p.doubtful = int(n.value), p.doubtfulRank(i)
		if i+3 < len(p.tokens) && p.tokens[i+2].text == "of" && p.tokens[i+3].number && p.tokens[i+3].value > n.value &&
			p.tokens[i+3].value <= maxRank {
			p.world = int(p.tokens[i+3].value)
			p.doubtful = false
		}
	}
	t.taken, n.taken = true, true
}

// doubtfulRank reports whether a rank may be that of a matrix: so its neighbours
// say, or it is only part of a folder's name and not 0.
func (p *component) doubtfulRank(i int) bool {
	if slices.ContainsFunc(p.tokens, func(t token) bool { return otherRanks[t.text] }) {
		return true
	}
	return p.folder && len(p.tokens) > 2 && p.tokens[i+1].value != 0
}

// stem is the component without what tells ranks and dumps apart; "" when
// nothing is left.
func (p *component) stem() string {
	var b strings.Builder
	for _, t := range p.tokens {
		if !t.taken {
			if b.Len() > 0 {
				b.WriteByte('_')
			}
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// How times stand in names: 2024-06-10_12-34-56 and its shorter forms,
// Jun_10_12_34_56 as in PyTorch's own example, and seconds or finer since 1970.
var (
	dayTime = pattern.Of(`(20[1-9][0-9])[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12][0-9]|3[01])(?:[-_T. ]?([01][0-9]|` +
		`2[0-3])[-_:.h]?([0-5][0-9])(?:[-_:.m]?([0-5][0-9]))?(?:[-_.]([0-9]{1,6}))?)?`)
	monthDay = pattern.Of(`(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[-_ ]([0-3][0-9])[-_ ]([01][0-9]|` +
		`2[0-3])[-_: ]([0-5][0-9])[-_: ]([0-5][0-9])`)
	sinceDay = pattern.Of(`(?:^|[^0-9])t?(1[4-9][0-9]{8})(?:\.([0-9]{1,7})|([0-9]{3})|([0-9]{6})|([0-9]{9}))?(?:$|[^0-9])`)
)

var months = []string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// takeTime takes a time out of a name.
func (p *component) takeTime(text string) string {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	fraction := func(s string) int64 { // digits after the point of a second, as microseconds
		n, _ := strconv.ParseInt((s + "000000")[:6], 10, 64)
		return n
	}
	if m := sinceDay().FindStringSubmatchIndex(text); m != nil {
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		seconds, _ := strconv.ParseInt(part(1), 10, 64)
		p.time = seconds*1e6 + fraction(part(2)+part(3)+part(4)+part(5))
		end := m[3]
		for i := 2; i <= 5; i++ {
			end = max(end, m[2*i+1])
		}
		begin := m[2]
		if begin > 0 && text[begin-1] == 't' {
			begin--
		}
		return text[:begin] + " " + text[end:]
	}
	if m := monthDay().FindStringSubmatch(text); m != nil {
		month := slices.Index(months, m[1]) + 1
		p.time = time.Date(2000, time.Month(month), number(m[2]), number(m[3]), number(m[4]), number(m[5]), 0,
			time.UTC).UnixMicro()
		return strings.Replace(text, m[0], " ", 1)
	}
	if m := dayTime().FindStringSubmatch(text); m != nil {
		p.time = time.Date(number(m[1]), time.Month(number(m[2])), number(m[3]), number(m[4]), number(m[5]), number(m[6]), 0,
			time.UTC).UnixMicro() + fraction(m[7])
		return strings.Replace(text, m[0], " ", 1)
	}
	return text
}
