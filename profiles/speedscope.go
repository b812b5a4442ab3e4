package profiles

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// The file format of speedscope (src/lib/file-format-spec.ts there).
type (
	speedscopeFile struct {
		Schema   string              `json:"$schema"`
		Exporter string              `json:"exporter"`
		Name     string              `json:"name"`
		Active   int                 `json:"activeProfileIndex"`
		Shared   speedscopeShared    `json:"shared"`
		Profiles []speedscopeProfile `json:"profiles"`
	}
	speedscopeShared struct {
		Frames []speedscopeFrame `json:"frames"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int    `json:"line,omitempty"`
	}
	speedscopeProfile struct {
		Type    string  `json:"type"`
		Name    string  `json:"name"`
		Unit    string  `json:"unit"`
		Start   int64   `json:"startValue"`
		End     int64   `json:"endValue"`
		Samples [][]int `json:"samples"` // indices of frames, outermost first
		Weights []int64 `json:"weights"`
	}
)

// What a stack takes, in bytes: itself with its key, each of its frames, and
// what is shared of a frame.
const flameBytes, flameFrameBytes, sharedFrameBytes = 60, 16, 250

// flame collects the stacks of one profile.
type flame struct {
	weights map[flameKey]int64
	order   []flameKey
}

type flameKey struct {
	category classify.Category
	stack    stackKey
}

func (f *flame) add(k flameKey, bytes int64) {
	if _, ok := f.weights[k]; !ok {
		f.order = append(f.order, k)
	}
	f.weights[k] += bytes
}

// speedscope makes one file.
type speedscope struct {
	budget
	file   speedscopeFile
	frames *shownFrames
	index  map[place]int
}

// WriteSpeedscope writes, for each device and moment, the bytes in use by
// category and stack, and last all that was allocated within the recording.
// The outermost frame of every stack is its category.
func WriteSpeedscope(w io.Writer, r Recording, moments ...Moment) error {
	x := &speedscope{budget: budget{limit: r.MaxMemory}, frames: newFrames(r), index: map[place]int{},
		file: speedscopeFile{Schema: "https://www.speedscope.app/file-format-schema.json",
			Exporter: "vramscope", Name: "GPU memory", Shared: speedscopeShared{Frames: []speedscopeFrame{}},
			Profiles: []speedscopeProfile{}}}
	for _, d := range r.Devices {
		for _, m := range moments {
			event, err := m.event(d.Timeline)
			if err != nil {
				return err
			}
			if err := x.inUse(d, event, fmt.Sprintf("device %d: in use %s", d.Timeline.Device.Ordinal,
				m.name(event))); err != nil {
				return err
			}
		}
		if err := x.churn(d); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(w)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(&x.file); err != nil {
		return err
	}
	return out.Flush()
}

// inUse adds the profile of a moment.
func (x *speedscope) inUse(d Device, event int, name string) error {
	f := flame{weights: map[flameKey]int64{}}
	for i := range d.Timeline.Len() {
		if id := timeline.AllocationID(i); d.Timeline.AliveAt(id, event) {
			f.add(d.flameKey(id), d.Timeline.Allocated[i])
		}
	}
	return x.add(&f, name)
}

// churn adds the profile of all that was allocated, freed or not.
func (x *speedscope) churn(d Device) error {
	f := flame{weights: map[flameKey]int64{}}
	for i := d.Timeline.Older(); i < d.Timeline.Len(); i++ {
		f.add(d.flameKey(timeline.AllocationID(i)), d.Timeline.Allocated[i])
	}
	if len(f.order) == 0 {
		return nil
	}
	return x.add(&f, fmt.Sprintf("device %d: allocated in the course of the recording", d.Timeline.Device.Ordinal))
}

func (d Device) flameKey(id timeline.AllocationID) flameKey {
	return flameKey{d.Classes.Category[id], d.stackOf(id)}
}

// add adds a profile; categories stand one after the other, what lives longest
// first, and within them stacks by their first allocation.
func (x *speedscope) add(f *flame, name string) error {
	p := speedscopeProfile{Type: "sampled", Name: name, Unit: "bytes", Samples: [][]int{}, Weights: []int64{}}
	slices.SortStableFunc(f.order, func(a, b flameKey) int {
		return cmp.Compare(slices.Index(classify.Stacked[:], a.category), slices.Index(classify.Stacked[:], b.category))
	})
	for _, k := range f.order {
		stack := []int{x.frame(&place{name: k.category.String()})}
		for _, place := range slices.Backward(x.frames.stack(k.stack)) {
			stack = append(stack, x.frame(place))
		}
		if err := x.take(flameBytes + flameFrameBytes*len(stack)); err != nil {
			return err
		}
		p.Samples = append(p.Samples, stack)
		p.Weights = append(p.Weights, f.weights[k])
		p.End += f.weights[k]
	}
	x.file.Profiles = append(x.file.Profiles, p)
	return nil
}

// frame is the index of a shared frame.
func (x *speedscope) frame(p *place) int {
	i, ok := x.index[*p]
	if !ok {
		i = len(x.file.Shared.Frames)
		x.used += sharedFrameBytes
		x.index[*p] = i
		x.file.Shared.Frames = append(x.file.Shared.Frames, speedscopeFrame{p.name, p.file, p.line})
	}
	return i
}
