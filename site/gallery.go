package main

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/vramscope/vramscope/site/engine"
)

// failure is a shipped run of the gallery.
type failure struct {
	Name, recording, Title, Program string

	Verdict, Text, Description, Torch string
	Moment                            int // the event that its page opens at
}

var failures = []failure{
	{Name: "qwen_vocab_oom__05b", recording: "snapshot_all.pickle.gz", Title: "Logits",
		Program: "A 0.5B model with 152,000 words trains with a batch of 24. Its logits fill the GPU in the backward pass."},
	{Name: "llama8b_full_oom__fp32_autocast", recording: "snapshot_named.pickle.gz", Title: "Optimizer state",
		Program: "An 8B model trains in fp32 under autocast. The first optimizer step has no room for its state."},
	{Name: "frag_oom__pairwise_docs", recording: "snapshot_all.pickle.gz", Title: "Memory in pieces",
		Program: "Pairs of documents of many lengths. A request fails though seven times its size is free, in pieces."},
	{Name: "true_shortage_oom__fsdp_gather", recording: "snapshot_python.pickle.gz", Title: "A longer batch",
		Program: "A batch four times as long as those before, with weights gathered layer by layer."},
	{Name: "true_shortage_oom__resumed_twice", recording: "snapshot_all.pickle.gz", Title: "A checkpoint left on the GPU",
		Program: "A training resumes and keeps the file it resumed from. The forward pass fails in the 8th of 12 layers."},
	{Name: "retained_graph__trainer_entropy", recording: "snapshot_named.pickle.gz", Title: "A retained graph",
		Program: "A metric of every step keeps the autograd graph that made it, and all its activations."},
	{Name: "growing_list__step_cache", recording: "snapshot_all.pickle.gz", Title: "A growing list",
		Program: "A replay buffer keeps a tensor of every step on the GPU."},
	{Name: "growing_list__feeder_queue", recording: "snapshot_python.pickle.gz", Title: "A queue",
		Program: "A feeder puts two batches into a queue in every step, and takes one out."},
}

// gallery makes a page of each failure, and one over all.
func (b *builder) gallery() error {
	page := framed{Title: "Gallery", Up: "../", Current: "gallery/index.html", Version: b.version}
	for _, f := range failures {
		if err := b.failed(&f); err != nil {
			return err
		}
		page.Failures = append(page.Failures, f)
	}
	return b.framed("gallery/index.html", "gallery", page)
}

// failed analyses a failure's recording, and writes its page.
func (b *builder) failed(f *failure) error {
	folder := "testdata/recordings/" + f.Name
	made, err := os.ReadFile(path.Join(folder, "run.json"))
	if err != nil {
		return err
	}
	var run struct{ Description, Torch string }
	if err := json.Unmarshal(made, &run); err != nil {
		return err
	}
	reports := map[string][]byte{}
	input := path.Join(folder, f.recording)
	r := engine.Answer(&engine.Request{Inputs: []string{input}, Formats: []string{"html", "json"}},
		engine.Options{Version: b.version, Put: func(format string, content []byte) error {
			reports[format] = content
			return nil
		}})
	if r.Error != "" {
		return errors.New(r.Error)
	}
	f.Verdict, f.Text, f.Description, f.Torch = r.Verdict, r.Text, run.Description, run.Torch
	if f.Moment, err = moment(reports["json"]); err != nil {
		return err
	}
	recording, err := os.ReadFile(filepath.FromSlash(input))
	if err != nil {
		return err
	}
	if err := b.write("gallery/"+f.Name+".pickle.gz", recording); err != nil {
		return err
	}
	return b.write("gallery/"+f.Name+".html", reports["html"])
}

// moment is the event of a report's first failure, or of its peak.
func moment(report []byte) (int, error) {
	var doc struct {
		Devices []struct {
			OOMs []struct {
				Event int `json:"event"`
			} `json:"ooms"`
			Peaks map[string]struct {
				Event int `json:"event"`
			} `json:"peaks"`
		} `json:"devices"`
	}
	if err := json.Unmarshal(report, &doc); err != nil {
		return 0, err
	}
	if len(doc.Devices) == 0 {
		return 0, errors.New("no device")
	}
	d := doc.Devices[0]
	if len(d.OOMs) > 0 {
		return d.OOMs[0].Event, nil
	}
	return d.Peaks["allocated"].Event, nil
}
