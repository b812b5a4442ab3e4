// Package phases says what a program was doing at each event of a recording – setup,
// forward, backward, optimizer – and where each of its steps begins. It knows nothing
// of categories: those are claimed later, by package rules.
//
// Gather reads what stacks show by themselves (stacks.go, stack_marks.go) and Follow
// makes a Program of it (program.go).
//
// Phases (phases.go) come from the hints of stacks and from annotated ranges
// (annotations.go; optimizer_in_backward.go where the optimizer steps within backward).
// Where there are no stacks, a backward pass is seen by its root gradient: one scalar
// that lives as long as the pass, while saved tensors are freed in the opposite order of
// their birth (root_gradients*.go, phases_without_stacks.go).
//
// Steps (steps.go) end with the last of their optimizers (alternating_optimizers.go),
// else with their backward pass. Loops that only run forward are cut where a batch is
// loaded or where what happens once per pass recurs (recurring_passes.go), which the
// layers of one pass do, too (layers_or_passes.go). So are validations in programs
// that train (untrained_passes.go).
package phases
