package recorder

// Planted is a small recording with a text wherever a recording can hold text:
// it must be one word in lower case, which then stands in functions, files,
// annotations, metadata, settings, categories, and in keys, values and actions
// that nobody knows.
func Planted(word string) Recording {
	r := Simulate(Program{Seed: 3, Events: 60, Depth: 3}).Recording
	text := func(s string) *Text { return &Text{s} }
	frames := []*Frame{
		{Name: word + "_loss", File: "/home/" + word + "/runs/train.py", Line: 12,
			FX: []Item{{"fx_node_op", text(word)}, {"fx_node_name", text(word)}, {"fx_node_target", text(word)},
				{"fx_original_trace", text("File " + word + ".py")}}},
		{Name: "Trainer." + word, File: `C:\Users\` + word + `\run.py`, Line: 3},
		{Name: word, File: "<ipython-input-3-" + word + ">", Line: 1},
		{Name: word, File: "/tmp/torchinductor_" + word + "/ab/cab.py", Line: 1},
		{Name: word, File: "/opt/conda/lib/python3.11/site-packages/" + word + "/net.py", Line: 1},
		{Name: "forward", File: "/home/" + word + "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", Line: 134},
		{Name: word + "::kernel(at::Tensor)", File: word + ".cu", Line: 0},
		{Name: "c10::impl::wrap<" + word + "::Op>::call()", File: "/opt/" + word + "/lib.so", Line: 0},
	}
	stack := &Stack{Frames: frames}
	for i := range r.Traces[0] {
		e := &r.Traces[0][i]
		e.Stack, e.Category = stack, 0
		e.Metadata, e.Internal, e.Compile = word+".weight", word, word+" region"
		e.Forward = []string{"File \"/home/" + word + "/x.py\", line 3, in " + word + "\n"}
		e.Extra = append(e.Extra, Item{word + "_key", text(word + " value")})
	}
	r.Traces[0] = append(r.Traces[0], Event{Action: word + "_action", Address: 1, Size: 2, Stream: 0, TimeUS: 3})
	for i := range r.Segments {
		r.Segments[i].Extra = []Item{{word + "_segment", text(word)}}
		for k := range r.Segments[i].Blocks {
			r.Segments[i].Blocks[k].Stack = &Stack{Frames: frames[:2]}
		}
	}
	r.HostTraces = r.Traces[0][:3]
	r.Annotations = []Annotation{{Stage: "START", Name: word, TimeUS: 1}, {Stage: "END", Name: word, TimeUS: 2},
		{Stage: "START", Name: "Optimizer.step#" + word + ".step", TimeUS: 1}, {Stage: "END", Name: "Optimizer.step#" + word +
			".step", TimeUS: 2}}
	for _, name := range []string{"## Call CompiledFxGraph " + word + " ##", "FSDP::pre_forward (" + word + ".0)", "FSDP::backward_prefetch for " + word} {
		r.Annotations = append(r.Annotations, Annotation{Stage: "START", Name: name, TimeUS: 1}, Annotation{Stage: "END", Name: name, TimeUS: 2})
	}
	r.Settings = append(r.Settings, Item{"PYTORCH_ALLOC_CONF", text("max_split_size_mb:64," + word + ":yes")},
		Item{word, text(word)})
	r.Extra = []Item{{word + "_top", text(word)}, {"categories", &List{Items: []any{text(word)}}}}
	return r
}
