package monitor

import (
	"sort"
	"strings"
)

// Finish ends the stream: units that are the same GPU become one. The parser
// must not be used afterwards.
func (p *Parser) Finish() *Report {
	p.query.flushGPU(p)
	p.xml.flushGPU(p)
	p.dcgm.finish(p)
	p.loose.finish(p)
	m := merger{gpus: map[int]*GPU{}, byBus: map[string]int{}, byUUID: map[string]int{}}
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
	return &Report{Rows: p.rows, GPUs: m.sorted(), Unnamed: p.unnamed}
}

// identify keeps only the id column that tells the GPUs of a listing apart.
func (u *unit) identify() {
	l := u.listing
	chosen := -1
	for k := range idRoles {
		if l.present[k] && !l.clash[k] && l.useful(k) {
			chosen = k
			break
		}
	}
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
		for _, first := range l.units {
			if first.ids[chosen] == u.ids[chosen] {
				u.position = first.position
				break
			}
		}
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

// useful tells whether a column ever holds an id.
func (l *listing) useful(k int) bool {
	for _, u := range l.units {
		if informative(k, u.ids[k]) {
			return true
		}
	}
	return false
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
	gpus   map[int]*GPU
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
	u.gpu.Index, u.gpu.BusID, u.gpu.UUID = index, u.ids[2], u.ids[1]
	u.gpu.Processes = u.sortedProcesses()
	if g := m.gpus[index]; g != nil {
		g.merge(&u.gpu)
	} else {
		m.gpus[index] = &u.gpu
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
	for g := m.gpus[i]; g != nil && differ(g.BusID, u.ids[2]); g = m.gpus[i] {
		i++
	}
	return i
}

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// merge adds what another form showed of the same GPU.
func (g *GPU) merge(o *GPU) {
	g.Name = betterName(fullName(g.Name, o.Name), o.Name)
	if g.BusID == "" {
		g.BusID = o.BusID
	}
	if g.UUID == "" {
		g.UUID = o.UUID
	}
	g.Samples += o.Samples
	g.otherSamples += o.otherSamples
	g.TotalBytes = max(g.TotalBytes, o.TotalBytes)
	g.PeakUsedBytes = max(g.PeakUsedBytes, o.PeakUsedBytes)
	g.UnlistedBytes = max(g.UnlistedBytes, o.UnlistedBytes)
	if len(g.Instances) == 0 {
		g.Instances = o.Instances
	}
	g.First, g.Last = span(g.First, g.Last, o.First, o.Last)
	g.Series.append(&o.Series)
	g.Processes = mergeProcesses(g.Processes, o.Processes)
}

// fullName prefers a name that the table did not cut: "NVIDIA GeForce ...".
func fullName(a, b string) string {
	if strings.HasSuffix(a, "...") && b != "" && !strings.HasSuffix(b, "...") {
		return b
	}
	return a
}

func span(a1, a2, b1, b2 Stamp) (Stamp, Stamp) {
	if !a1.Known() || b1.Known() && b1.before(a1) {
		a1 = b1
	}
	if !a2.Known() || b2.Known() && a2.before(b2) {
		a2 = b2
	}
	return a1, a2
}

func mergeProcesses(a, b []Process) []Process {
	at := map[int]int{}
	for i := range a {
		at[a[i].PID] = i
	}
	for _, p := range b {
		i, ok := at[p.PID]
		if !ok {
			at[p.PID] = len(a)
			a = append(a, p)
			continue
		}
		q := &a[i]
		q.Name = betterName(q.Name, p.Name)
		q.PeakUsedBytes = max(q.PeakUsedBytes, p.PeakUsedBytes)
		q.Instance = max(q.Instance, p.Instance)
		q.First, q.Last = span(q.First, q.Last, p.First, p.Last)
		q.Series.append(&p.Series)
	}
	sort.Slice(a, func(i, j int) bool { return a[i].PID < a[j].PID })
	return a
}

func (m *merger) sorted() []GPU {
	list := make([]GPU, 0, len(m.gpus))
	for _, g := range m.gpus {
		if g.Samples == 0 {
			g.Samples = g.otherSamples
		}
		list = append(list, *g)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Index < list[j].Index })
	return list
}
