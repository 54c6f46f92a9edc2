module github.com/mix-basic/delayer/internal/history

go 1.25.0

replace github.com/mix-basic/delayer => ../..

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/mix-basic/delayer v0.0.0
)

require github.com/gomodule/redigo v1.9.3 // indirect
