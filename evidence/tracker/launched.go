package tracker

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/limit"
	"github.com/vramscope/vramscope/internal/secrets"
)

// maxSaid bounds a text that a report shows: a command may be long.
const maxSaid = 500

// readLaunched takes where the program ran.
func readLaunched(r *run, in io.Reader) error {
	var all struct {
		Environment struct {
			Torch     *string           `json:"torch"`
			CUDA      *string           `json:"cuda"`
			Driver    *string           `json:"driver"`
			GPU       *string           `json:"gpu"`
			Python    *string           `json:"python"`
			Command   *string           `json:"command"`
			GitCommit *string           `json:"git_commit"`
			WorldSize *int              `json:"world_size"`
			Settings  map[string]string `json:"allocator_settings"`

			Simulated *evidence.Simulated `json:"simulated"`
		} `json:"environment"`
		ExitCode  *int64  `json:"exit_code"`
		Exception *string `json:"exception"`
	}
	d := json.NewDecoder(limit.Reader(limit.Launched, in))
	if err := d.Decode(&all); err != nil {
		return broken(d, err)
	}
	e := &all.Environment
	m := &evidence.Machine{Torch: short(e.Torch), CUDA: short(e.CUDA), Driver: short(e.Driver), Python: short(e.Python),
		GitCommit: short(e.GitCommit), Settings: settingsOf(e.Settings), Simulated: simulatedOn(e.Simulated)}
	if e.WorldSize != nil && *e.WorldSize > 0 {
		m.WorldSize = e.WorldSize
	}
	if all.ExitCode != nil {
		r.ended = ending.OfCode(*all.ExitCode)
		if raised := short(all.Exception); raised != nil && *raised != "" && r.ended.How == evidence.Failed {
			r.ended.Text = ending.Quoted([]byte(*raised), maxSaid)
		}
	}
	r.p.GPU, r.p.Command, r.p.Machine = short(e.GPU), command(e.Command), m
	return nil
}

// maxAssumed bounds how much is told of what a simulation assumed.
const maxAssumed = 200

// simulatedOn is the GPU that wasn't there, nil where one was.
func simulatedOn(s *evidence.Simulated) *evidence.Simulated {
	if s == nil || s.GPU == "" {
		return nil
	}
	s.GPU, s.Device, s.Ended = cut.Bytes(s.GPU, maxSaid), cut.Bytes(s.Device, maxSaid), short(s.Ended)
	s.Assumptions = append([]evidence.Assumption{}, s.Assumptions[:min(len(s.Assumptions), maxAssumed)]...)
	for i := range s.Assumptions {
		a := &s.Assumptions[i]
		a.What, a.File, a.Function = cut.Bytes(a.What, maxSaid), cut.Bytes(a.File, maxSaid), cut.Bytes(a.Function, maxSaid)
		a.Taken = cut.Bytes(a.Taken, maxSaid)
	}
	s.Uncounted, s.Unknown = few(s.Uncounted), few(s.Unknown)
	return s
}

// few are counts by name, as many as are told.
func few(counts map[string]int) map[string]int {
	out := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if len(out) < maxAssumed {
			out[cut.Bytes(name, maxSaid)] = counts[name]
		}
	}
	return out
}

// command is the program's, without what nobody else may know.
func command(s *string) *string {
	if s != nil {
		s = new(secrets.Text(*s))
	}
	return short(s)
}

// short is a text that says something, cut to what a report has room for.
func short(s *string) *string {
	if s == nil || strings.TrimSpace(*s) == "" {
		return nil
	}
	return new(cut.Bytes(*s, maxSaid))
}

// settingsOf are the allocator's settings as PYTORCH_CUDA_ALLOC_CONF has them; other variables by their names.
func settingsOf(variables map[string]string) *string {
	var names, all []string
	for name := range variables {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), 8)] {
		switch {
		case variables[name] == "":
		case strings.HasSuffix(name, "_ALLOC_CONF"):
			all = append(all, variables[name])
		default:
			all = append(all, name+"="+variables[name])
		}
	}
	return short(new(strings.Join(all, " ")))
}
