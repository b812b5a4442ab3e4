package redact

import (
	"path"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Evidence redacts in place what logs, nvidia-smi and traces brought in.
func (r *Redactor) Evidence(ev *evidence.Evidence) {
	for i := range ev.GPUs {
		g := &ev.GPUs[i]
		pointed(g.Name, r.gpu)
		g.BusID, g.UUID = r.name("bus", g.BusID), r.name("uuid", g.UUID)
		for k := range g.Processes {
			pointed(g.Processes[k].Name, r.process)
		}
	}
	for i := range ev.OOMMessages {
		m := &ev.OOMMessages[i]
		if m.UserFile != nil && m.UserFunction != nil {
			*m.UserFunction = r.function(*m.UserFunction, *m.UserFile)
		}
		pointed(m.UserFile, r.source)
		m.OwnFile, m.Quote = r.source(m.OwnFile), ""
	}
	for i := range ev.Logs {
		for k := range ev.Logs[i].HostFailures {
			pointed(&ev.Logs[i].HostFailures[k].UserFile, r.source)
		}
	}
	for i := range ev.Parameters {
		p := &ev.Parameters[i]
		p.Command = nil
		if p.Machine != nil {
			p.Machine.GitCommit = nil
		}
		pointed(p.Model, func(name string) string { return r.name("model", name) })
		pointed(p.GPU, r.gpu)
	}
	for i := range ev.Traces {
		r.trace(&ev.Traces[i])
	}
}

func pointed(s *string, rewrite func(string) string) {
	if s != nil {
		*s = rewrite(*s)
	}
}

func (r *Redactor) trace(x *evidence.Trace) {
	for i := range x.Devices {
		x.Devices[i].Name = r.gpu(x.Devices[i].Name)
	}
	for _, spans := range [][]evidence.Span{x.Steps, x.Annotations} {
		for i := range spans {
			spans[i].Name = r.Annotation(spans[i].Name)
			spans[i].Category = r.unless(spanCategory, "category", spans[i].Category)
		}
	}
}

var spanCategory = pattern.Of(`^(user_annotation|gpu_user_annotation|cpu_op|python_function|kernel|gpu_memcpy|gpu_memset|` +
	`cuda_runtime|overhead|Operator)?$`)

func (r *Redactor) source(file string) string {
	to, _ := r.file(file)
	return to
}

// function redacts that of a file, as those of stacks.
func (r *Redactor) function(name, file string) string {
	if _, known := r.file(file); known || commonFunction(name) || name == "" {
		return name
	}
	return r.name("fn", name)
}

// gpu keeps what vendors call their products.
func (r *Redactor) gpu(name string) string {
	if isGPU(name) {
		return name
	}
	return r.name("gpu", name)
}

// process keeps the names of programs that everybody has, without their folder.
func (r *Redactor) process(name string) string {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	if processName().MatchString(base) {
		return base
	}
	return r.name("process", name)
}

var processName = pattern.Of(`^((?i:python)[0-9.]*(\.exe)?|\[Not Found\]|\[N/A\]|N/A|-|\[?Insufficient Permissions\]?|Xorg|` +
	`gnome-shell|kwin_x11|nvidia-cuda-mps-server|nv-hostengine|dcgmi|torchrun|ray|vllm|jupyter-lab|ipython|firefox|chrome)$`)
