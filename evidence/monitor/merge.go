package monitor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// Finish ends the stream: units that are the same GPU become one. The parser
// must not be used afterwards.
func (p *Parser) Finish() *Report {
	p.query.flush(&p.gathered)
	p.xml.flush(&p.gathered)
	m := merger{gpus: map[int]*unit{}, byBus: map[string]int{}, byUUID: map[string]int{}}
	for _, u := range p.units {
		if u.listing != nil {
			u.identify()
		}
	}
	// Those that print an index first: they teach which bus and which UUID it
	// is. Then whole listings (-q, XML), then the process lists.
	for _, pass := range []func(*unit) bool{
		func(u *unit) bool { return u.index >= 0 },
		func(u *unit) bool { return u.index < 0 && u.form != AppsCSV },
		func(u *unit) bool { return u.index < 0 && u.form == AppsCSV },
	} {
		for _, u := range p.units {
			if pass(u) {
				m.add(u)
			}
		}
	}
	r := &Report{Rows: p.rows, Unnamed: p.unnamed}
	r.GPUs = m.sorted(r.tool())
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.Partition, g.Driver, g.CUDA = p.partition, p.driver, p.cuda
	}
	return r
}

// identify keeps only the id column that tells the GPUs of a listing apart.
func (u *unit) identify() {
	l := u.listing
	chosen := slices.IndexFunc([]int{0, 1, 2, 3}, func(k int) bool { return l.present[k] && !l.clash[k] && l.useful(k) })
	if u.anonymous() {
		u.position = 0
	}
	if chosen == 0 {
		if i, ok := atoi(u.ids[0]); ok {
			u.index = i
		}
	}
	for k := 1; k < len(u.ids); k++ {
		if l.clash[k] || !informative(k, u.ids[k]) {
			u.ids[k] = ""
		}
	}
	u.ids[2] = busID(u.ids[2])
	if chosen > 0 {
		// Equal values are one GPU: the position of the first counts.
		first := slices.IndexFunc(l.units, func(v *unit) bool { return v.ids[chosen] == u.ids[chosen] })
		u.position = l.units[first].position
	}
}

// anonymous tells a row that says nothing about which GPU it is.
func (u *unit) anonymous() bool {
	for k, id := range u.ids {
		if informative(k, id) {
			return false
		}
	}
	return true
}

// useful reports whether a column ever holds an id.
func (l *listing) useful(k int) bool {
	return slices.ContainsFunc(l.units, func(u *unit) bool { return informative(k, u.ids[k]) })
}

// informative refuses missing ids and those of MIG instances, which are parts
// of a GPU and not GPUs of their own.
func informative(k int, id string) bool {
	return !missing([]byte(id)) && !(k == 1 && strings.HasPrefix(id, "MIG-"))
}

// busID drops the domain when it is zero: tables and -q differ in its width.
func busID(s string) string {
	s = strings.ToLower(s)
	if i := strings.IndexByte(s, ':'); i >= 0 && strings.Count(s, ":") == 2 && strings.Trim(s[:i], "0") == "" {
		s = s[i+1:]
	}
	return s
}

type merger struct {
	gpus   map[int]*unit
	byBus  map[string]int
	byUUID map[string]int
}

func (m *merger) add(u *unit) {
	index := m.indexOf(u)
	if bus := u.ids[2]; bus != "" {
		m.byBus[bus] = index
	}
	if id := u.ids[1]; id != "" {
		m.byUUID[id] = index
	}
	u.gpu.GPU, u.gpu.BusID, u.gpu.UUID = index, u.ids[2], u.ids[1]
	if known := m.gpus[index]; known != nil {
		known.merge(u)
	} else {
		m.gpus[index] = u
	}
}

func (m *merger) indexOf(u *unit) int {
	if u.index >= 0 {
		return u.index
	}
	if i, ok := m.byBus[u.ids[2]]; ok && u.ids[2] != "" {
		return i
	}
	if i, ok := m.byUUID[u.ids[1]]; ok && u.ids[1] != "" {
		return i
	}
	// The position, unless that number is known to be another card.
	i := max(u.position, 0)
	for g := m.gpus[i]; g != nil && differ(g.gpu.BusID, u.ids[2]); g = m.gpus[i] {
		i++
	}
	return i
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// merge adds what another form showed of the same GPU.
func (u *unit) merge(o *unit) {
	g, other := &u.gpu, &o.gpu
	u.name = betterName(fullName(u.name, o.name), o.name)
	g.BusID, g.UUID = cmp.Or(g.BusID, other.BusID), cmp.Or(g.UUID, other.UUID)
	g.Samples += other.Samples
	g.Unshown = g.Unshown || other.Unshown
	u.otherSamples += o.otherSamples
	raise(&g.TotalBytes, evidence.Or(other.TotalBytes, Unknown))
	raise(&g.PeakUsedBytes, evidence.Or(other.PeakUsedBytes, Unknown))
	g.UnlistedBytes = max(g.UnlistedBytes, other.UnlistedBytes)
	if len(g.Instances) == 0 {
		g.Instances = other.Instances
	}
	u.first, u.last = span(u.first, u.last, o.first, o.last)
	g.Series.Append(&other.Series)
	if u.processes == nil {
		u.processes = o.processes
		return
	}
	for _, q := range u.processes { // each form has turns of its own
		q.Last = 0
	}
	for pid, p := range o.processes {
		p.Last = 0
		q := u.processes[pid]
		if q == nil {
			u.processes[pid] = p
			continue
		}
		q.name = betterName(q.name, p.name)
		raise(&q.PeakUsedBytes, evidence.Or(p.PeakUsedBytes, Unknown))
		q.Instance = max(q.Instance, p.Instance)
	}
}

// fullName prefers a name that the table did not cut: "NVIDIA GeForce ...".
func fullName(a, b string) string {
	if strings.HasSuffix(a, "...") && b != "" && !strings.HasSuffix(b, "...") {
		return b
	}
	return a
}

func span(a1, a2, b1, b2 evidence.Stamp) (evidence.Stamp, evidence.Stamp) {
	if !a1.Known() || b1.Known() && b1.Before(a1) {
		a1 = b1
	}
	if !a2.Known() || b2.Known() && a2.Before(b2) {
		a2 = b2
	}
	return a1, a2
}

// endings is how many readings in a row must list no process, where others do.
const endings = 3

// sorted are the GPUs by number.
func (m *merger) sorted(tool string) []evidence.GPU {
	list := make([]evidence.GPU, 0, len(m.gpus))
	for _, index := range slices.Sorted(maps.Keys(m.gpus)) {
		u := m.gpus[index]
		g := u.gpu
		if len(u.processes) > 0 && u.mostUnlisted < endings {
			g.UnlistedBytes = 0 // a program was about to begin or to end
		}
		g.Name, g.Tool, g.FirstTime, g.LastTime = evidence.Text(u.name), tool, known(u.first), known(u.last)
		if g.Samples == 0 {
			g.Samples = u.otherSamples
		}
		g.Processes = make([]evidence.Process, 0, len(u.processes))
		for _, pid := range slices.Sorted(maps.Keys(u.processes)) {
			p := u.processes[pid]
			p.Name = evidence.Text(p.name)
			g.Processes = append(g.Processes, p.Process)
		}
		list = append(list, g)
	}
	return list
}

func known(s evidence.Stamp) *evidence.Stamp {
	if !s.Known() {
		return nil
	}
	return &s
}
