package diagnose

import (
	"slices"

	"github.com/vramscope/vramscope/report"
)

// environment is where the run ran, as far as its evidence tells.
func (j *job) environment(doc *report.Document) (x report.Environment) {
	for i := range doc.Inputs {
		in := &doc.Inputs[i]
		if in.Era != nil && *in.Era != "" && x.Torch == nil {
			x.Torch = in.Era
		}
		at := slices.IndexFunc(in.Settings, func(s report.KeyValue) bool { return s.Key == "PYTORCH_CUDA_ALLOC_CONF" })
		if at >= 0 && in.Settings[at].Value != "" && x.Settings == nil {
			x.Settings = &in.Settings[at].Value
		}
	}
	for i := range doc.Evidence.GPUs {
		if name := doc.Evidence.GPUs[i].Name; name != nil && *name != "" {
			if x.GPU != nil && *x.GPU != *name {
				x.GPU = nil // which of them it ran on isn't told
				break
			}
			x.GPU = name
		}
	}
	monitored(doc, &x)
	if doc.Ranks != nil && doc.Ranks.Sure {
		x.WorldSize = doc.Ranks.World
	}
	return x
}

// monitored takes the versions that monitors print, where nothing else told them.
func monitored(doc *report.Document, x *report.Environment) {
	for i := range doc.Evidence.GPUs {
		if g := &doc.Evidence.GPUs[i]; x.Driver == nil && g.Driver != "" {
			x.Driver = &g.Driver
			if x.CUDA == nil && g.CUDA != "" {
				x.CUDA = &g.CUDA
			}
		}
	}
}
