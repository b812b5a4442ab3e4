// Package faults holds the tests that disturb the program while it works: stores that
// refuse, break off or fall silent, disks that are full, files that grow, shrink and
// vanish, the program itself killed, two of them at once. Each ends in the result of an
// undisturbed run, byte for byte, or in one clear error that names what is missing; and what
// an undisturbed run makes of it afterwards is the undisturbed result.
//
//	go test ./internal/faults
package faults
