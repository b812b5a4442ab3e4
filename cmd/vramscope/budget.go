package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/budget/search"
	"github.com/vramscope/vramscope/gpus"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
	simulated "github.com/vramscope/vramscope/simulate/check"
)

// budgetFlags are the flags of the budget command as they are given.
type budgetFlags struct {
	config, model, params string
	out                   outputFlags
	above                 aboveFlags
	devices               []string
	solve                 string
	vocabulary            int64
	noLadder, allLogits   bool
	plan, precisionGiven  bool
	check                 bool
	given                 func(flag string) bool
	redact                bool
	recipePaths           []string
	recipes               open.Recipes
	s                     budget.Setting
}

func newBudget() *cobra.Command {
	var f budgetFlags
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "What a model should take: bytes by category and phase, from its configuration",
		Long: `What a model should take, from its configuration and a training or serving setting:
bytes by category in each phase, whether it fits, and what to change first.

Give the model (--config, --model, --params, or --recipe with a framework's own file),
the setting (--batch, --seq, --precision, --optimizer, --checkpointing, --lora, ...),
how it lies on GPUs (--gpus with --fsdp or --zero, --tp, --pp, --ep, --cp), and a --gpu to fit.
--framework names who trains, and takes that framework's usual settings where no flag says
otherwise: sharding, loss, optimizer. Notes name them; --checkpointing stays as you say.
--solve finds the largest batch or sequence that fits, --plan the settings that do.`,
		Example: `  vramscope budget --params 70B --lora 16 --framework torchtune --checkpointing full --gpus 8 --gpu "A100 40GB"
  vramscope budget --config config.json --batch 4 --seq 4096 --gpu "H100 80GB"
  vramscope budget --params 8B --inference --context 32768 --gpu 24GiB
  vramscope budget --config config.json --checkpointing full --solve batch --gpu A100-80
  vramscope budget --recipe train.yaml --gpus 8 --gpu "H100 80GB"
  vramscope budget --params 70B --plan --gpu "H100 80GB" --gpus 8 --seq 4096`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return redactError(cmd, args, runBudget(cmd, &f))
		},
	}
	fl := cmd.Flags()
	f.out.flags(cmd, "print the peak only")
	f.above.flags(cmd, "the budget")
	fl.BoolVar(&f.redact, "redact", false, redactHelp)
	maxMemoryFlag(cmd, new(string))
	fl.StringArrayVar(&f.devices, "gpu", nil, "a device's `NAME` or size: \"H100 80GB\", 24GiB, all (repeatable)")
	fl.StringVar(&f.solve, "solve", "",
		"find the largest batch or seq, or the fewest gpus, that fits --gpu; with --plan, the longest seq")
	fl.Int64Var(&f.vocabulary, "vocab", 0, "what another vocabulary of `N` words would change")
	fl.BoolVar(&f.noLadder, "no-ladder", false, "leave the list of measures out")
	fl.BoolVar(&f.check, "check", false,
		"run the model's own code on a simulated GPU, too, and tell both figures (full training on one GPU)")
	fl.BoolVar(&f.plan, "plan", false,
		"search precision, sharding, checkpointing and batch for what fits --gpu, on --gpus of them")
	modelFlags(cmd, &f)
	fl.StringArrayVar(&f.recipePaths, "recipe", nil, recipe.Help)
	recipe.SettingFlags(cmd.Flags(), &f.s)
	fl.BoolVar(&f.allLogits, "all-logits", false, recipe.AllLogitsHelp)
	for _, name := range []string{"no-ladder", "all-logits"} { // used by few, as are the keys of --set
		_ = fl.MarkHidden(name) // it is there
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + "\nKeys of --set KEY=VALUE, each of which is a flag, too:\n" + recipe.Keys())
	return cmd
}

// modelFlags are the flags that name a model.
func modelFlags(cmd *cobra.Command, f *budgetFlags) {
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "a Transformers `config.json`, or a folder or UNet of Stable Diffusion XL")
	fl.StringVar(&f.model, "model", "", "a checkpoint: `FILE`.safetensors, its index, or .pt (headers only; a config.json "+
		"beside it is used)")
	fl.StringVar(&f.params, "params", "", "a number of parameters like 8B, for a Llama-like decoder")
}

func runBudget(cmd *cobra.Command, f *budgetFlags) error {
	debug.SetGCPercent(400) // a short run that makes many small things
	if err := f.out.check(); err != nil {
		return err
	}
	d := &budgetDocument{Tool: "vramscope " + versionString(), Title: f.above.title}
	var err error
	if d.Given, err = f.above.parse(f.redact); err != nil {
		return err
	}
	if err := f.recipes.Read(f.recipePaths, cmd.InOrStdin()); err != nil {
		return err
	}
	given := cmd.Flags().Changed("precision")
	if _, err := f.recipes.Apply(cmd.Flags(), &f.s); err != nil {
		return err
	}
	c, notes, err := f.load(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if f.config+f.model != "" {
		f.recipes.Doubt(c)
	}
	if f.model+f.params == "" { // else a checkpoint or a size tells what is there
		c = f.recipes.Program(c, cmd.Flags(), &f.s, given || f.config == "")
	}
	f.recipes.Packed(c, cmd.Flags(), &f.s)
	notes = slices.Concat(f.usual(cmd), notes, c.Bounded(&f.s, cmd.Flags().Changed("seq")))
	if err := f.setting(cmd); err != nil {
		return err
	}
	f.packedAsSaid(c, given)
	if given { // what is asked for wins over what the files say
		c = c.Unpacked()
	}
	f.precisionGiven, f.given = cmd.Flags().Changed("precision"), cmd.Flags().Changed
	if d.Document, notes, err = f.checked(c, notes); err != nil {
		return err
	}
	for i := range d.Plans {
		d.Plans[i].Command = f.command(d.Plans[i].Flags)
	}
	f.redactNotes(d, notes)
	f.recipes.Plain = f.redact
	d.Recipes = f.recipes.Documents()
	d.Notes = slices.Insert(d.Notes, 0, append(f.recipes.Said(), notes...)...)
	return budgetFormats.write(cmd, &f.out, d)
}

// checked is the answer, with what the model's own code takes before the notes, where that is asked for.
func (f *budgetFlags) checked(c *budget.Config, notes []string) (*budget.Document, []string, error) {
	d, err := f.answer(c)
	switch {
	case err != nil && len(f.recipePaths) > 0:
		return nil, nil, fmt.Errorf("the setting of %s: %w", strings.Join(f.recipePaths, " and "), err)
	case err != nil || !f.check:
		return d, notes, err
	case f.plan || len(f.devices) > 1:
		return nil, nil, errors.New("--check runs one setting on one --gpu: no --plan, and no second --gpu")
	}
	said, err := simulated.Budget(f.config, c, &f.s, cmp.Or(append(f.devices, "")[0], "H100 80GB"), d, f.redact)
	return d, append([]string{said}, notes...), err
}

// redactNotes hides names of the user's in what stands above and in notes, with --redact.
func (f *budgetFlags) redactNotes(d *budgetDocument, notes []string) {
	if !f.redact {
		return
	}
	r := f.above.redactor()
	open.RedactAbove(r, &d.Title, d.Given)
	for i := range notes {
		notes[i] = r.Error(notes[i], open.BesideCheckpoint(f.model))
	}
}

// command is the one that makes a plan's budget; with --redact, files have no names.
func (f *budgetFlags) command(flags string) string {
	words := []string{"vramscope", "budget"}
	add := func(name, value string, file bool) {
		if value != "" && file && f.redact {
			value = "FILE"
		}
		if value != "" {
			words = append(words, name, view.ShellWord(value))
		}
	}
	add("--config", f.config, true)
	add("--model", f.model, true)
	add("--params", f.params, false)
	for _, path := range f.recipePaths {
		add("--recipe", path, true)
	}
	for _, name := range f.devices {
		add("--gpu", name, false)
	}
	return strings.Join(append(words, flags), " ")
}

// usual sets what the framework that is named does unasked, and says so.
func (f *budgetFlags) usual(cmd *cobra.Command) []string {
	if len(f.recipePaths) > 0 || f.plan {
		return nil
	}
	said := recipe.Usual(cmd.Flags(), &f.s)
	if said == "" {
		return nil
	}
	return []string{fmt.Sprintf("taken for %s, as no flag says otherwise: %s", cmp.Or(f.s.Framework, "DeepSpeed"), said)}
}

// packedAsSaid leaves it to the configuration how weights are packed, where files tell no more than the bits.
func (f *budgetFlags) packedAsSaid(c *budget.Config, given bool) {
	if p := f.s.Precision; !given && c.IsPacked() && (p == "int4" || p == "int8") {
		f.s.Precision = "bf16"
	}
}

// load finds the configuration: the file's, one beside the checkpoint, or one
// made for a size.
func (f *budgetFlags) load(stdin io.Reader) (c *budget.Config, notes []string, err error) {
	given := 0
	for _, s := range []string{f.config, f.model, f.params} {
		if s != "" {
			given++
		}
	}
	if given == 0 && len(f.recipes.Files) > 0 {
		c, err := f.recipes.Model()
		return c, nil, err
	}
	if given != 1 {
		return nil, nil, fmt.Errorf("give the model: one of --config FILE, --model FILE or --params 8B")
	}
	switch {
	case f.config == "-":
		c, err = open.ConfigFrom(stdin)
	case f.config != "":
		c, err = open.ReadConfig(f.config)
	case f.params != "":
		n, perr := budget.ParseParams(f.params)
		if perr != nil {
			return nil, nil, perr
		}
		c, err = budget.FromParams(n)
	default:
		return open.CheckpointConfig(f.model)
	}
	return c, nil, err
}

// setting completes the flags.
func (f *budgetFlags) setting(cmd *cobra.Command) error {
	s := &f.s
	for _, n := range []string{"batch", "seq", "decoder-seq", "accumulate", "gpus", "tp", "pp", "ep", "cp", "context"} {
		if v, _ := cmd.Flags().GetInt64(n); v < 1 && cmd.Flags().Changed(n) {
			return fmt.Errorf("--%s %d: at least 1", n, v)
		}
	}
	s.LastLogit = !f.allLogits
	if s.Engine != "" {
		s.Inference = true
		for n, v := range map[string]*int64{"batch": &s.Batch, "seq": &s.Sequence} {
			if !cmd.Flags().Changed(n) {
				*v = 0
			}
		}
	}
	if s.Inference && cmd.Flags().Changed("context") && !cmd.Flags().Changed("seq") {
		s.Sequence = 0 // the prompt fills the context
	}
	return nil
}

// answer works the document out.
func (f *budgetFlags) answer(c *budget.Config) (*budget.Document, error) {
	gs, err := gpus.Named(f.devices)
	if err != nil {
		return nil, fmt.Errorf("--gpu: %w", err)
	}
	if len(f.devices) > 0 && f.devices[0] != "all" {
		f.s.GPU = f.devices[0]
	}
	plans, least, err := f.plans(c, gs)
	if err != nil {
		return nil, err
	}
	if len(plans) > 0 {
		f.s = plans[0].Setting // the rest is about the best
	}
	solved, err := f.solved(c, gs[0], plans)
	if err != nil {
		return nil, err
	}
	b, err := budget.Compute(c, f.s)
	if err != nil {
		return nil, err
	}
	doc := budget.NewDocument(b)
	doc.Solved, doc.Plans = solved, plans
	note, band := search.Assumed(c, b, f.given)
	if note != "" {
		doc.Notes = append(doc.Notes, note)
	}
	if f.plan && len(plans) == 0 {
		note := "--plan: nothing that was searched fits " + gs[0].Name
		if least != nil {
			note += fmt.Sprintf("; %s takes the least, %s: %s", least.Way, units.Size(least.TotalDevice), least.Flags)
		}
		doc.Notes = append(doc.Notes, note)
	}
	fits, err := search.Fits(c, f.s, gs)
	if err != nil {
		return nil, err
	}
	doc.AddFits(fits, f.s.Inference)
	doc.Judge(b, fits, band)
	longest := func(fit budget.Fit) bool {
		return fit.HasSequence && fit.MaxSequence > 0 && fit.MaxSequence == b.Model.Positions
	}
	if f.solve == "seq" && f.s.Sequence == b.Model.Positions || slices.ContainsFunc(fits, longest) {
		doc.Notes = append(doc.Notes, fmt.Sprintf("sequences end at the model's %s learned positions, whatever memory is left",
			units.Count(int(b.Model.Positions))))
	}
	doc.Notes = append(doc.Notes, search.NoBfloat16(&f.s, f.devices, gs)...)
	if err := f.ladder(c, gs, doc); err != nil {
		return nil, err
	}
	return doc, f.otherVocabulary(c, b, doc)
}

// solved answers --solve, nil without it, and leaves the setting that it found: of a plan the first one's.
func (f *budgetFlags) solved(c *budget.Config, g gpus.GPU, plans []budget.Plan) (*budget.DocSolved, error) {
	switch {
	case f.solve == "":
		return nil, nil
	case len(f.devices) == 0:
		return nil, fmt.Errorf("--solve %s needs a --gpu to fit", f.solve)
	}
	d := &budget.DocSolved{What: f.solve, GPU: g.Name}
	if f.plan {
		if len(plans) > 0 {
			d.Value, d.WithMargin = plans[0].Sequence, plans[0].Sequence
		}
		return d, nil
	}
	n, s, err := search.Solve(c, f.s, f.solve, g)
	d.Value, f.s = n, s // so that the rest is about it
	if err == nil && n > 0 && f.solve != "gpus" && !s.Inference {
		d.WithMargin, err = search.Spared(c, s, f.solve, g)
	}
	return d, err
}

// plans answer --plan, nil without it.
func (f *budgetFlags) plans(c *budget.Config, gs []gpus.GPU) (best []budget.Plan, least *budget.Plan, err error) {
	switch {
	case !f.plan:
		return nil, nil, nil
	case len(f.devices) == 0:
		return nil, nil, fmt.Errorf("--plan needs a --gpu to fit")
	case f.s.Inference:
		return nil, nil, fmt.Errorf("--plan is of a training; for serving, --solve batch says how many requests fit: with "+
			"--precision bf16, int8 or int4, --tp %d and --context N", max(f.s.GPUs, f.s.TP, 1))
	case f.solve != "" && f.solve != "seq":
		return nil, nil, fmt.Errorf("--plan searches the batch, too: leave --solve out, or let it find the longest seq")
	}
	precisions := []string{"bf16-mixed", "bf16"}
	if f.precisionGiven {
		precisions = []string{f.s.Precision}
	}
	if f.solve == "seq" {
		best, err := search.Longest(c, f.s, gs[0], precisions)
		return best, nil, err
	}
	return search.Plans(c, f.s, gs[0], precisions)
}

func (f *budgetFlags) ladder(c *budget.Config, gs []gpus.GPU, doc *budget.Document) error {
	if f.noLadder {
		return nil
	}
	var target *gpus.GPU
	if len(f.devices) > 0 {
		target = &gs[0]
	}
	ms, err := search.Ladder(c, f.s, target)
	doc.Ladder = append(doc.Ladder, ms...)
	return err
}

func (f *budgetFlags) otherVocabulary(c *budget.Config, b *budget.Budget, doc *budget.Document) error {
	if f.vocabulary == 0 {
		return nil
	}
	other, err := budget.WithVocabulary(c, f.vocabulary)
	if err != nil {
		return err
	}
	n, err := budget.Compute(other, f.s)
	if err != nil {
		return err
	}
	doc.Vocabulary = &budget.DocVocabulary{Vocabulary: f.vocabulary, Parameters: n.Model.Parameters, PeakBytes: n.PeakBytes,
		Saves: b.PeakBytes - n.PeakBytes}
	return nil
}

// budgetDocument is a budget with what the user says of it.
type budgetDocument struct {
	*budget.Document
	Tool  string        `json:"tool"`
	Title string        `json:"title"`
	Given []report.Note `json:"given"` // "notes" are the budget's

	Recipes []recipe.Document `json:"recipes"`
}

var budgetFormats = formats[*budgetDocument]{
	sheet: func(d *budgetDocument, e view.Edition) *view.Sheet {
		s := view.Budget(d.Document, e)
		s.Title, s.Notes, s.Tool = d.Title, d.Given, d.Tool
		return s
	},
	json: func(w io.Writer, d *budgetDocument) error { return writeJSON(w, d) },
}
