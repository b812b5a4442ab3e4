// Package budget says what memory a model should take: bytes by category and
// phase, from a configuration and a training or serving setting.
//
//	c, err := budget.ReadConfig(file)
//	b, err := budget.Compute(c, budget.Setting{Batch: 4, Sequence: 2048})
//	fmt.Println(b.PeakBytes, b.PeakPhase, b.Phases)
//
// Nothing is guessed from a model's name. A configuration becomes a network of
// parameters and operations; the machine of the package autograd runs the step's operations
// on byte counts. What is read, of config.json and of checkpoints, is in the package
// modelfile; model families, the layers that they are made of, and a batch's way through them are in the package network, which
// asks of a setting what its Modes say; what a setting is made of is in the package settings, what optimizers keep in the
// package optimizers, and what a pipeline's rank does when in the package schedule. Files are ordered by prefix, each of which
// uses those before it:
//
//   - step_: the step of training that runs a network on a machine, from the batch to the last gradient; losses are in the
//     package losses.
//   - plan_: a setting's checks against a model, what it divides over ranks, GPUs, serving and pipelines. What follows from a
//     setting alone is its setup's, what a rank holds of a model its holding's, and what its step takes its plan's.
//
// Questions that need many budgets are answered by the package search.
//
// To add a model family, put its model_type and its class's defaults into
// modelfile/defaults.json. A decoder-only model is a line of network/decoders.txt, what its code does
// differently a function in network/decoder_quirks.go; anything else is a
// function in network/families.go's table. An encoder of images in front of a language model
// is a list of weights (families/weights.txt) and a row in network/sight.go. The parameters that Transformers counts in it go
// to testdata/odd_models.json, a measured step to testdata/measured.jsonl.
package budget
