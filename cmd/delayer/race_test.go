//go:build race

package main

// The binary under test gets the race detector when the tests have it.
const raceDetector = true
