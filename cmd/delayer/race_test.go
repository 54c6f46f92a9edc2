//go:build race

package main

// The binary under test is built with the race detector if the tests are.
const raceDetector = true
