package read

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/tracker"
)

// readTracked reads a file of a tracker's, and what the program printed where the file has
// that, too.
func readTracked(r io.Reader, form *tracker.Form, name string, source int) ([]string, *evidence.Evidence, error) {
	from, console := io.Pipe()
	type printed struct {
		kinds []string
		ev    *evidence.Evidence
	}
	done := make(chan printed)
	go func() {
		kinds, ev, err := readText(from, name, source, textLines)
		if errors.Is(err, ErrNothingKnown) {
			kinds, ev = nil, nil
		}
		_, _ = io.Copy(io.Discard, from)
		done <- printed{kinds, ev}
	}()
	found, err := form.Read(r, name, console)
	_ = console.Close()
	said := <-done
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	if found.Steps == nil && found.Parameters == nil && len(found.GPUs) == 0 && found.Ending.How == "" && said.ev == nil {
		return nil, nil, cmp.Or(err, fmt.Errorf("%s: a tracker's file without steps, memory or parameters that are known: %w",
			name, ErrNothingKnown))
	}
	ev := said.ev
	if ev == nil {
		ev = evidence.New()
	}
	for i := range found.GPUs {
		found.GPUs[i].Source = source
	}
	if len(found.GPUs) > 0 {
		ev.GPUs = found.GPUs
	}
	if found.Parameters != nil {
		found.Parameters.Source = source
		ev.Parameters = append(ev.Parameters, *found.Parameters)
	}
	logged(ev, found, source)
	kinds := append([]string{form.Kind}, said.kinds...)
	return slices.Compact(kinds), ev, err
}

// logged joins a tracker's steps with those of the console, of which it knows less: which
// step was which, and what each held.
func logged(ev *evidence.Evidence, found *tracker.Found, source int) {
	if found.Steps == nil && found.Ending.How == "" && len(ev.Logs) == 0 {
		return
	}
	if len(ev.Logs) == 0 {
		ev.Logs = append(ev.Logs, evidence.Log{Source: source, Steps: &evidence.Steps{Source: source}})
	}
	log := &ev.Logs[0]
	if found.Steps != nil && (found.Steps.Count > 0 || log.Steps.Count == 0) {
		found.Steps.Source = source
		log.Steps, ev.Steps = found.Steps, nil
		if found.Steps.Count > 0 {
			ev.Steps = append(ev.Steps, found.Steps)
		}
	}
	if ev.Steps == nil {
		ev.Steps = []*evidence.Steps{}
	}
	if found.GPUBytes > 0 {
		log.Pressure.CapacityBytes = found.GPUBytes
	}
	if end := found.Ending; end.How != "" && (log.Ending.How == "" || end.How == evidence.EndedWell ||
		end.How == evidence.Killed) {
		log.Ending = end
	}
}
