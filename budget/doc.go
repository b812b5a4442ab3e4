// Package budget says what memory a model should take: bytes by category and
// phase, from a configuration and a training or serving setting.
//
//	c, err := budget.ReadConfig(file)
//	b, err := budget.Compute(c, budget.Setting{Batch: 4, Sequence: 2048})
//	fmt.Println(b.PeakBytes, b.PeakPhase, b.Phases)
//
// Nothing is guessed from a model's name. A configuration becomes a network of
// parameters and operations; a small machine runs the step's operations on byte
// counts and keeps the books that PyTorch's autograd keeps. What is read, of config.json
// and of checkpoints, is in the package modelfile. Files are ordered by prefix, each of
// which uses those before it:
//
//   - op_: the machine (op_machine.go): storages, their references and categories,
//     the tape of backward functions; the operations that allocate, save and free
//     what PyTorch's do; the step that runs a network on it; what the caching allocator
//     reserves for its requests (op_reserve.go).
//   - net_: model families and the layers that they are made of.
//   - plan_: a setting (fields.txt has what it is made of), its checks, what it divides over ranks, optimizers, GPUs,
//     serving, pipelines, and the questions that need many budgets (plan_solve.go,
//     plan_search.go).
//
// To add a model family, put its model_type and its class's defaults into
// modelfile/defaults.json. A decoder-only model is a line of decoders.txt, what its code does
// differently a function in net_decoder_quirks.go; anything else is a
// function in net_families.go's table. An encoder of images in front of a language model
// is a list of weights (families/weights.txt) and a row in net_sight.go. The parameters that Transformers counts in it go
// to testdata/odd_models.json, a measured step to testdata/measured.jsonl.
package budget
