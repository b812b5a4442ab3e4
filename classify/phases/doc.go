// Package phases says what a program was doing at each event of a recording – setup, forward, backward, optimizer – and where
// each of its steps begins. It knows nothing of categories: those are claimed later, by package rules.
//
// Gather reads what stacks show by themselves (frames.go). Follow asks the signals of registry.go, each a file
// with its papers that is named after its id, and join.go is the one place where what they find meets, as a Program (program.go,
// runs.go). It remembers for each run of events which signal it rests on.
package phases
