//go:build !linux

package server

func newTimer() timer { return newGoTimer() }
