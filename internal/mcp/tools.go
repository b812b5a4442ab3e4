package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/vramscope/vramscope/explain"
)

// The inputs of tools; their descriptions are what a model reads.

type analyzeInput struct {
	Paths    []string `json:"paths" jsonschema:"snapshots, logs and nvidia-smi output of one run, or its folder"`
	Device   *int     `json:"device,omitempty" jsonschema:"only the device with this ordinal"`
	GPU      string   `json:"gpu,omitempty" jsonschema:"its name or size where the recording doesn't tell: H100 80GB, 80GiB"`
	Config   string   `json:"config,omitempty" jsonschema:"the model's config.json, to compare with its budget"`
	FailOn   []string `json:"fail_on,omitempty" jsonschema:"conditions that make exit_code 1: leak, oom, damage, reserved>95%, …"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"of the answer"`
}

func (s *server) analyze(in analyzeInput) (*command, error) {
	c := &command{args: []string{"analyze"}, maxBytes: in.MaxBytes}
	c.number("device", in.Device)
	c.flag("gpu", in.GPU)
	if err := s.config(c, in.Config); err != nil {
		return nil, err
	}
	if err := repeated(c, "fail-on", in.FailOn); err != nil {
		return nil, err
	}
	return c, s.files(c, in.Paths...)
}

type explainInput struct {
	Paths    []string `json:"paths" jsonschema:"the recording, or the run's folder"`
	Kind     string   `json:"kind" jsonschema:"allocation, event, address, site, finding, leak, oom, category, rule or step"`
	Value    string   `json:"value" jsonschema:"which one: a number, a hexadecimal address, FILE:LINE, or an id"`
	Device   *int     `json:"device,omitempty" jsonschema:"the device with this ordinal"`
	GPU      string   `json:"gpu,omitempty" jsonschema:"the GPU's name or size where the recording doesn't tell"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"of the answer"`
}

func (s *server) explain(in explainInput) (*command, error) {
	var kinds []string
	for _, k := range explain.Kinds {
		kinds = append(kinds, k.Name)
	}
	if !slices.Contains(kinds, in.Kind) {
		return nil, fmt.Errorf("kind: one of %s", strings.Join(kinds, ", "))
	}
	c := &command{args: []string{"explain", "--" + in.Kind + "=" + in.Value}, maxBytes: in.MaxBytes}
	c.number("device", in.Device)
	c.flag("gpu", in.GPU)
	return c, s.files(c, in.Paths...)
}

type whatifInput struct {
	Path     string   `json:"path" jsonschema:"the recording"`
	Conf     []string `json:"conf,omitempty" jsonschema:"PYTORCH_CUDA_ALLOC_CONF to try, such as expandable_segments:True"`
	Capacity []string `json:"capacity,omitempty" jsonschema:"sizes of GPUs to try, such as 40GiB"`
	Change   []string `json:"change,omitempty" jsonschema:"of the program: optimizer=8bit, logits=chunked, checkpointing=full, …"`
	Device   *int     `json:"device,omitempty" jsonschema:"the device with this ordinal"`
	GPU      string   `json:"gpu,omitempty" jsonschema:"the recorded GPU where the recording doesn't tell"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"of the answer"`
}

func (s *server) whatif(in whatifInput) (*command, error) {
	c := &command{args: []string{"whatif"}, maxBytes: in.MaxBytes}
	c.number("device", in.Device)
	c.flag("gpu", in.GPU)
	for name, values := range map[string][]string{"conf": in.Conf, "capacity": in.Capacity, "change": in.Change} {
		if err := repeated(c, name, values); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.args[1:])
	return c, s.files(c, in.Path)
}

type budgetInput struct {
	Config        string   `json:"config,omitempty" jsonschema:"the model's config.json"`
	Params        string   `json:"params,omitempty" jsonschema:"the number of parameters, such as 8B, without config.json"`
	Batch         *int     `json:"batch,omitempty" jsonschema:"sequences of a step"`
	Sequence      *int     `json:"sequence,omitempty" jsonschema:"tokens of a sequence"`
	Precision     string   `json:"precision,omitempty" jsonschema:"bf16, fp32, bf16-mixed, …"`
	Optimizer     string   `json:"optimizer,omitempty" jsonschema:"adamw, adamw-8bit, sgd, …"`
	Checkpointing string   `json:"checkpointing,omitempty" jsonschema:"none, selective or full"`
	Attention     string   `json:"attention,omitempty" jsonschema:"eager, sdpa or flash"`
	Loss          string   `json:"loss,omitempty" jsonschema:"default, chunked, fused, …"`
	Zero          *int     `json:"zero,omitempty" jsonschema:"ZeRO stage, 0 to 3"`
	GPUs          *int     `json:"gpus,omitempty" jsonschema:"number of GPUs"`
	Lora          *int     `json:"lora,omitempty" jsonschema:"rank of LoRA adapters"`
	Inference     bool     `json:"inference,omitempty" jsonschema:"instead of training"`
	Context       *int     `json:"context,omitempty" jsonschema:"with inference: tokens in the cache"`
	GPU           []string `json:"gpu,omitempty" jsonschema:"GPUs that it should fit, such as H100 80GB"`
	Solve         string   `json:"solve,omitempty" jsonschema:"batch, seq or gpus: the largest, or fewest, that fit"`
	MaxBytes      int      `json:"max_bytes,omitempty" jsonschema:"of the answer"`
}

func (s *server) budget(in budgetInput) (*command, error) {
	c := &command{args: []string{"budget"}, maxBytes: in.MaxBytes}
	if err := s.config(c, in.Config); err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, value string }{{"params", in.Params}, {"precision", in.Precision},
		{"optimizer", in.Optimizer}, {"checkpointing", in.Checkpointing}, {"attention", in.Attention}, {"loss", in.Loss},
		{"solve", in.Solve}} {
		c.flag(f.name, f.value)
	}
	for _, f := range []struct {
		name  string
		value *int
	}{{"batch", in.Batch}, {"seq", in.Sequence}, {"zero", in.Zero}, {"gpus", in.GPUs}, {"lora", in.Lora},
		{"context", in.Context}} {
		c.number(f.name, f.value)
	}
	if in.Inference {
		c.args = append(c.args, "--inference")
	}
	return c, repeated(c, "gpu", in.GPU)
}

type diffInput struct {
	Before   string   `json:"before" jsonschema:"a recording, or a run's folder"`
	After    string   `json:"after" jsonschema:"the one to compare with it"`
	Device   *int     `json:"device,omitempty" jsonschema:"the device with this ordinal, of both"`
	GPU      string   `json:"gpu,omitempty" jsonschema:"the GPUs' name or size where a recording doesn't tell"`
	FailOn   []string `json:"fail_on,omitempty" jsonschema:"conditions that make exit_code 1: grew>5%, leak, oom, …"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"of the answer"`
}

func (s *server) diff(in diffInput) (*command, error) {
	c := &command{args: []string{"diff"}, maxBytes: in.MaxBytes}
	c.number("device", in.Device)
	c.flag("gpu", in.GPU)
	if err := repeated(c, "fail-on", in.FailOn); err != nil {
		return nil, err
	}
	return c, s.files(c, in.Before, in.After)
}

type recordInput struct {
	Kinds []string `json:"kinds,omitempty" jsonschema:"recipes to print, such as oom or torchrun; none: all"`
}

func (s *server) record(in recordInput) (*command, error) {
	if len(in.Kinds) > maxList {
		return nil, fmt.Errorf("kinds: at most %d", maxList)
	}
	return &command{args: []string{"record"}, paths: in.Kinds, plain: true}, nil
}

// config adds the model's configuration, if there is one.
func (s *server) config(c *command, name string) error {
	if name == "" {
		return nil
	}
	full, err := s.roots.file(name)
	if err == nil {
		c.flag("config", full)
	}
	return err
}

func repeated(c *command, name string, values []string) error {
	if len(values) > maxList {
		return fmt.Errorf("%s: at most %d", name, maxList)
	}
	c.list(name, values)
	return nil
}

// outputs are what each tool's answers have at least.
var outputs = map[string]*jsonschema.Schema{
	"analyze": object("vramscope.report/1", "verdict", "devices", "findings"),
	"explain": object("vramscope.explain/1", "question", "answer", "next"),
	"whatif":  object("vramscope.whatif/1", "scenarios"),
	"budget":  object("vramscope.budget/1", "peak_bytes"),
	"diff":    object("vramscope.diff/1", "verdict"),
	"record":  object("vramscope.record/1", "text"),
}

// object is the schema of an answer; doc/json.md has all of its members.
func object(name string, members ...string) *jsonschema.Schema {
	var constant any = name
	o := &jsonschema.Schema{Type: "object", Required: append([]string{"schema", "exit_code", "messages"}, members...),
		Properties: map[string]*jsonschema.Schema{
			"schema":    {Const: &constant},
			"exit_code": {Type: "integer", Description: "1: a condition of fail_on holds"},
			"messages":  {Type: "array", Items: &jsonschema.Schema{Type: "string"}, Description: "what the command said besides"},
		}}
	for _, m := range members {
		o.Properties[m] = &jsonschema.Schema{}
	}
	return o
}
