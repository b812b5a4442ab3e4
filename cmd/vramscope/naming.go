package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/redact"
	"github.com/vramscope/vramscope/timeline"
)

// naming is what names allocations: labels files, and the model's tensors.
type naming struct {
	paths []string
	names open.Names
}

func (n *naming) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&n.paths, "labels", nil,
		"a labels `FILE` that says what memory holds; SNAPSHOT.labels.json is found by itself (repeatable)")
	cmd.Flags().StringArrayVar(&n.names.Without, "without", nil,
		"classify without the rule or signal with this `ID` of doc/classification.md (repeatable)")
	_ = cmd.Flags().MarkHidden("without") // it is there
}

// read reads the labels that were named and those that lie beside the snapshots.
func (n *naming) read(snapshots []string) error {
	for _, id := range n.names.Without {
		if !phases.Known(id) && !slices.ContainsFunc(classify.Rules(), func(r *rules.Rule) bool { return r.ID == id }) {
			return fmt.Errorf("--without %.60q: doc/classification.md has no such rule or signal", id)
		}
	}
	return n.names.Labels(append(append([]string(nil), n.paths...), open.LabelsBeside(snapshots)...)...)
}

// model takes the tensors' names from a checkpoint's header or, without one, from
// a model's configuration; "" and nil are none.
func (n *naming) model(checkpoint string, config *budget.Config) error {
	return n.names.Tensors(checkpoint, config)
}

// configFile reads --config where standard input is for the recording; nil without it.
func configFile(name string) (*budget.Config, error) {
	if name == "" {
		return nil, nil
	}
	return open.ReadConfig(name)
}

// redact takes what isn't common knowledge out of the names.
func (n *naming) redact(r *redact.Redactor) { n.names.Redact(r) }

// options are the names that concern one device.
func (n *naming) options(t *timeline.Timeline) classify.Options { return n.names.Options(t) }
