// Package leaks finds what a program keeps beyond its use: lists that grow, retained
// autograd graphs, gradients that are zeroed instead of freed, outputs that outlive their
// step. It reads a finished classification and changes nothing of it.
//
// leak.go holds Find and the kinds; loop.go the steps that all searches look at; growth.go
// what every step leaves behind, which retained_graph.go divides into graphs and lists;
// call_sites.go and sites.go the lines to name. The other files are each about one kind.
package leaks
