package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/site/engine"
)

// failures are shipped runs of the gallery, each with its recording, what goes with it, and what its program does.
var failures = []struct{ name, recording, title, program string }{
	{"qwen_vocab_oom__05b", "snapshot_all.pickle.gz", "Logits", "A 0.5B model with 152,000 words trains with a batch of 24. Its logits fill the GPU in the backward pass."},
	{"llama8b_full_oom__fp32_autocast", "snapshot_named.pickle.gz", "Optimizer state", "An 8B model trains in fp32 under autocast. The first optimizer step has no room for its state."},
	{"frag_oom__pairwise_docs", "snapshot_all.pickle.gz", "Memory in pieces", "Pairs of documents of many lengths. A request fails though seven times its size is free, in pieces."},
	{"true_shortage_oom__fsdp_gather", "snapshot_python.pickle.gz", "A longer batch", "A batch four times as long as those before, with weights gathered layer by layer."},
	{"true_shortage_oom__resumed_twice", "snapshot_all.pickle.gz", "A checkpoint left on the GPU", "A training resumes and keeps the file it resumed from. The forward pass fails in the 8th of 12 layers."},
	{"retained_graph__trainer_entropy", "snapshot_named.pickle.gz", "A retained graph", "A metric of every step keeps the autograd graph that made it, and all its activations."},
	{"growing_list__step_cache", "snapshot_all.pickle.gz", "A growing list", "A replay buffer keeps a tensor of every step on the GPU."},
	{"growing_list__feeder_queue", "snapshot_python.pickle.gz", "A queue", "A feeder puts two batches into a queue in every step, and takes one out."},
}

// gallery makes a page of each failure, and one over all.
func (b *builder) gallery() error {
	var cards strings.Builder
	for _, f := range failures {
		folder := "testdata/recordings/" + f.name
		made, err := os.ReadFile(path.Join(folder, "run.json"))
		if err != nil {
			return err
		}
		var run struct {
			Description, Torch string
		}
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
		at, err := moment(reports["json"])
		if err != nil {
			return err
		}
		if err := b.write("gallery/"+f.name+".html", reports["html"]); err != nil {
			return err
		}
		recording, err := os.ReadFile(filepath.FromSlash(input))
		if err != nil {
			return err
		}
		file := "gallery/" + f.name + ".pickle.gz"
		if err := b.write(file, recording); err != nil {
			return err
		}
		fmt.Fprintf(&cards, `<li><h2><a href="%[1]s.html#at=%[2]d">%[3]s</a></h2><p><b>%[4]s</b></p><p>%[5]s</p>`+
			`<details><summary>The answer, and how it was recorded</summary><pre tabindex="0" aria-label="Answer: %[3]s">%[6]s</pre>`+
			`<p class="quiet">%[7]s. PyTorch %[8]s. <a href="../index.html?open=%[9]s">Read the recording in this browser</a> or <a href="%[1]s.pickle.gz" download>download it</a>.</p></details></li>`,
			f.name, at, html.EscapeString(f.title), html.EscapeString(r.Verdict), html.EscapeString(f.program), html.EscapeString(r.Text),
			html.EscapeString(run.Description), html.EscapeString(run.Torch), file)
	}
	body := `<main id="main"><h1>Gallery</h1><p>Eight programs that failed or leaked. Each page opens at the moment that matters.</p>` +
		`<p class="quiet">PyTorch, its allocator and its recorder are the real ones. They ran on a device that keeps the books of an H100 80GB and computes nothing.</p>` +
		`<ul class="cards">` + cards.String() + `</ul></main>`
	return b.write("gallery/index.html", b.frame("Gallery", "gallery/index.html", body, ""))
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
