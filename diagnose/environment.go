package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/report"
)

// environment is where the run ran, as far as its evidence tells.
func (j *job) environment(doc *report.Document) (x report.Environment) {
	launched(doc, &x)
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
	x.GPU = cmp.Or(x.GPU, onlyGPU(doc))
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

// launched takes what the program's launcher or a tracker wrote down.
func launched(doc *report.Document, x *report.Environment) {
	p := doc.Evidence.Settings()
	if p == nil {
		return
	}
	x.Command, x.GPU = p.Command, p.GPU
	if m := p.Machine; m != nil {
		x.Torch, x.CUDA, x.Driver, x.Python = m.Torch, m.CUDA, m.Driver, m.Python
		x.Settings, x.WorldSize, x.GitCommit, x.Simulated = m.Settings, m.WorldSize, m.GitCommit, m.Simulated
	}
}

// onlyGPU is what all GPUs that monitors saw are called; nil where they differ: which of them it ran on isn't told.
func onlyGPU(doc *report.Document) (found *string) {
	for i := range doc.Evidence.GPUs {
		name := doc.Evidence.GPUs[i].Name
		if name == nil || *name == "" {
			continue
		}
		if found != nil && *found != *name {
			return nil
		}
		found = name
	}
	return found
}
