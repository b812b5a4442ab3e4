package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/snapshot/labels"
	"github.com/vramscope/vramscope/timeline"
)

// naming is what names allocations: labels files, and the model's tensors.
type naming struct {
	paths   []string
	files   []*labels.File
	tensors []classify.Tensor
}

func (n *naming) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&n.paths, "labels", nil, "a labels `FILE` that says what memory holds; SNAPSHOT.labels.json is found by itself (repeatable)")
}

// read reads the labels that were named and those that lie beside the snapshots.
func (n *naming) read(snapshots []string) error {
	paths := append([]string(nil), n.paths...)
	for _, s := range snapshots {
		beside := besidePath(s)
		if _, err := os.Stat(beside); err == nil {
			paths = append(paths, beside)
		}
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return &snapshot.Error{File: path, Offset: -1, Cause: err.Error()}
		}
		file, err := labels.Read(f)
		f.Close()
		if err != nil {
			return &snapshot.Error{File: path, Offset: -1, Cause: err.Error()}
		}
		n.files = append(n.files, file)
	}
	return nil
}

// besidePath is where a snapshot's labels are looked for.
func besidePath(name string) string {
	for _, ending := range []string{".gz", ".zst", ".zip", ".pickle", ".pkl"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name + ".labels.json"
}

// model takes the tensors' names from a model's configuration or from a
// checkpoint's header.
func (n *naming) model(f *budgetFlags) error {
	var tensors []budget.Tensor
	var err error
	switch {
	case f.model != "":
		tensors, err = budget.ReadCheckpoint(f.model)
	case f.config != "" && f.config != "-":
		var c *budget.Config
		if c, err = readConfig(f.config); err == nil {
			tensors, err = budget.Tensors(c)
		}
	}
	if err != nil {
		return err
	}
	for _, t := range tensors {
		n.tensors = append(n.tensors, classify.Tensor{Name: t.Name, Elements: t.Elements()})
	}
	return nil
}

// redact takes what isn't common knowledge out of the names.
func (n *naming) redact(r *redact.Redactor) {
	for _, f := range n.files {
		for i := range f.Labels {
			f.Labels[i].Name = r.Metadata(f.Labels[i].Name)
		}
	}
	for i := range n.tensors {
		n.tensors[i].Name = r.Metadata(n.tensors[i].Name)
	}
}

// options are the names that concern one device.
func (n *naming) options(t *timeline.Timeline) classify.Options {
	o := classify.Options{Tensors: n.tensors}
	for _, f := range n.files {
		if f.Device == t.Device.Ordinal {
			o.Labels = append(o.Labels, classify.LabelsOf(t, f)...)
		}
	}
	return o
}
