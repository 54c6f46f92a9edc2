// Package hops has the test that keeps plain calls short. With Go's coverage counters it counts the functions that one call passes
// through and their files, and fails if they exceed the table allowed. make hops runs it.
//
// A function counts if any part of it ran, in any goroutine. A function literal counts with the function around it.
package hops

// count is how many functions a call passes through, and in how many files.
type count struct{ functions, files int }

// allowed has the maximum for each call of program calls: a plain job on a warm connection. If you make a plain
// call longer, change its row and say why in the commit.
var allowed = map[string]count{
	"push": {43, 12},
	"pop":  {49, 13},
	"ack":  {36, 9},
	"wake": {49, 14},
	"pass": {85, 22}, // 82 in 21, and what a heartbeat adds now and then
}
