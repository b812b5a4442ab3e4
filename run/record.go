package run

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vramscope/vramscope/internal/secrets"
	"github.com/vramscope/vramscope/simulate"
)

// Record is run.json: what was run, and what came of it.
type Record struct {
	Schema      string      `json:"schema"`
	Command     []string    `json:"command"`
	Folder      string      `json:"working_directory"`
	Start       string      `json:"start"`
	End         *string     `json:"end"` // null: it runs, or was killed with everything
	ExitCode    *int        `json:"exit_code"`
	Signal      *string     `json:"signal"`              // that ended the program
	Exception   string      `json:"exception,omitempty"` // that it failed with, as its output tells
	Environment Environment `json:"environment"`
	Processes   []Process   `json:"processes"`
	Notes       []string    `json:"notes"`
}

// Schema is that of run.json.
const Schema = "vramscope.run/1"

// Environment is where it ran, as far as anything tells.
type Environment struct {
	Torch             *string           `json:"torch"`
	CUDA              *string           `json:"cuda"`
	Driver            *string           `json:"driver"`
	GPU               *string           `json:"gpu"`
	WorldSize         *int              `json:"world_size"`
	AllocatorSettings map[string]string `json:"allocator_settings"`
	Command           string            `json:"command"`
	Python            *string           `json:"python"`
	Host              string            `json:"host"`
	GitCommit         *string           `json:"git_commit"`
	Simulated         *Simulated        `json:"simulated"` // null: the machine's own GPU
}

// Process is one that imported PyTorch.
type Process struct {
	PID       int      `json:"pid"`
	Rank      *int     `json:"rank"`
	Recording *string  `json:"recording"` // all, python, none; later, user, off, unavailable, unwanted; null: CUDA never came up
	Dumps     []Dump   `json:"dumps"`
	OOMs      int      `json:"ooms"`
	Steps     int      `json:"steps"`
	Overhead  float64  `json:"overhead_seconds"`
	Notes     []string `json:"notes"`
	Stats     any      `json:"memory_stats"`

	// Simulated is what the process says of its simulated GPU; null without one.
	Simulated *simulate.Account `json:"simulated,omitempty"`
}

// Dump is one of its snapshots.
type Dump struct {
	File    *string `json:"file"` // null: replaced by a later one
	Why     string  `json:"why"`
	Event   *int64  `json:"event"` // how many allocations had been made
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
}

// process is what the recorder writes of a process, as python/vramscope/_hook/recorder.py says it.
type process struct {
	Process
	State             string            `json:"state"`
	Host              string            `json:"host"`
	Start             float64           `json:"start"`
	Signals           bool              `json:"signals"`
	Torch             *string           `json:"torch"`
	CUDA              *string           `json:"cuda"`
	GPU               *string           `json:"gpu"`
	Python            *string           `json:"python"`
	WorldSize         *int              `json:"world_size"`
	AllocatorSettings map[string]string `json:"allocator_settings"`
	Capacity          map[string]int64  `json:"capacity"`
	Holders           []holder          `json:"holders"`
}

// holder is a variable, or a kind of named tensors, of the last look.
type holder struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Step  int    `json:"step"`
}

// Bounds of what is read of the processes' own files.
const (
	maxProcesses    = 20_000
	maxProcessBytes = 1 << 20
)

// processes reads what the recorders wrote, in order of rank, then start. A file that a
// process was killed over is left out.
func processes(dir string) []process {
	entries, _ := os.ReadDir(filepath.Join(dir, processesFolder))
	var found []process
	for _, e := range entries[:min(len(entries), maxProcesses)] {
		info, err := e.Info()
		if err != nil || !strings.HasSuffix(e.Name(), ".json") || info.Size() > maxProcessBytes {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, processesFolder, e.Name()))
		var p process
		if err == nil && json.Unmarshal(text, &p) == nil {
			p.Dumps, p.Notes = noNull(p.Dumps), noNull(p.Notes)
			found = append(found, p)
		}
	}
	rank := func(p process) int {
		if p.Rank == nil {
			return 1 << 30
		}
		return *p.Rank
	}
	slices.SortFunc(found, func(a, b process) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	return found
}

// noNull is a list that is written as [] when it is empty.
func noNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// fill takes over what the processes said.
func (r *Record) fill(found []process) {
	r.Processes = []Process{}
	e := &r.Environment
	e.Simulated.begin()
	for _, p := range found {
		if p.State != "torch" {
			r.Processes = append(r.Processes, p.Process)
		}
		e.Torch, e.CUDA, e.GPU = cmp.Or(e.Torch, p.Torch), cmp.Or(e.CUDA, p.CUDA), cmp.Or(e.GPU, p.GPU)
		if e.Simulated != nil {
			e.Simulated.take(p.Simulated)
			if p.OOMs > 0 {
				e.Simulated.Fits = new(false)
			}
		}
		e.Python, e.WorldSize = cmp.Or(e.Python, p.Python), cmp.Or(e.WorldSize, p.WorldSize)
		if len(p.AllocatorSettings) > 0 && len(e.AllocatorSettings) == 0 {
			e.AllocatorSettings = p.AllocatorSettings
		}
	}
}

// write replaces run.json.
func (r *Record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, RecordFile)
	if err = os.WriteFile(name+".tmp", append(text, '\n'), 0o600); err == nil {
		err = os.Rename(name+".tmp", name)
	}
	return err
}

// newRecord is what can be said before the program starts.
func newRecord(command []string, at time.Time) *Record {
	folder, _ := os.Getwd()
	host, _ := os.Hostname()
	return &Record{Schema: Schema, Command: secrets.Words(command), Folder: folder, Start: at.Format(time.RFC3339Nano),
		Processes: []Process{}, Notes: []string{},
		Environment: Environment{Command: secrets.Text(quoted(command)), Host: host, GitCommit: commitOf(folder),
			AllocatorSettings: map[string]string{}}}
}

// quoted is a command as a shell reads it.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = Quote(w)
	}
	return strings.Join(out, " ")
}

// Quote is a word as a shell reads it.
func Quote(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// commitOf is the commit that is checked out where the program runs, nil when git doesn't
// say: its files are read, as the program git may not be there.
func commitOf(folder string) *string {
	for dir := folder; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if text, err := os.ReadFile(git); err == nil { // a worktree's
			git = strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
		}
		if head, err := os.ReadFile(filepath.Join(git, "HEAD")); err == nil {
			return resolve(git, strings.TrimSpace(string(head)))
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func resolve(git, head string) *string {
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return &head
	}
	common := git
	if text, err := os.ReadFile(filepath.Join(git, "commondir")); err == nil {
		common = filepath.Join(git, strings.TrimSpace(string(text)))
	}
	if text, err := os.ReadFile(filepath.Join(common, filepath.FromSlash(ref))); err == nil {
		return new(strings.TrimSpace(string(text)))
	}
	packed, _ := os.ReadFile(filepath.Join(common, "packed-refs"))
	for line := range strings.Lines(string(packed)) {
		if commit, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return &commit
		}
	}
	return nil
}
