// Package hops has the test that keeps the plain calls short. It counts the functions that one call passes through, and the files they
// are in, by Go's coverage counters, and fails where a call passes through more than allowed says. Run it by make hops.
//
// A function counts if any of its body ran, in whichever goroutine; a function literal counts with the function around it.
package hops

// count is how many functions a call passes through, and in how many files they are.
type count struct{ functions, files int }

// allowed has the most for each call that program calls makes: of a plain job, one partition, a warm connection. Whoever makes a plain
// call longer changes its row here and says why in the commit.
var allowed = map[string]count{
	"push": {44, 12},
	"pop":  {54, 14},
	"ack":  {38, 9},
	"wake": {53, 15},
	"pass": {91, 23}, // 88 in 22, and what a heartbeat adds now and then
}
