package server

import (
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// Logger is told what happened, one message a line. It must be safe for
// concurrent use. *logger.Logger is one. One that is a JobLogger too gets job IDs
// apart from the words.
type Logger interface {
	Info(message string)
	Error(message string)
}

// JobLogger is a Logger for logs that are read by programs, too.
type JobLogger interface {
	Logger
	// InfoJobs and ErrorJobs tell of jobs. Without a JobLogger the line is
	// "message, Topic: topic, IDs: [id1,id2]"; an empty topic is left out.
	InfoJobs(message, topic string, ids [][]byte)
	ErrorJobs(message, topic string, ids [][]byte)
	// Recovered tells that what an Error told of is over.
	Recovered(message string)
}

// jobLogger makes a JobLogger of any Logger; nil says nothing.
func jobLogger(l Logger) JobLogger {
	switch l := l.(type) {
	case nil:
		return lines{silent{}}
	case JobLogger:
		return l
	}
	return lines{l}
}

type silent struct{}

func (silent) Info(string)  {}
func (silent) Error(string) {}

// lines are a Logger that is told everything in words, as the original words it.
type lines struct{ Logger }

func (l lines) InfoJobs(message, topic string, ids [][]byte)  { l.Info(jobsLine(message, topic, ids)) }
func (l lines) ErrorJobs(message, topic string, ids [][]byte) { l.Error(jobsLine(message, topic, ids)) }
func (l lines) Recovered(message string)                      { l.Info(message) }

func jobsLine(message, topic string, ids [][]byte) string {
	size := len(message) + len(", Topic: ") + len(topic) + len(", IDs: []")
	for _, id := range ids {
		size += len(id) + 1
	}
	var line strings.Builder
	line.Grow(size)
	line.WriteString(message)
	if topic != "" {
		line.WriteString(", Topic: " + topic)
	}
	line.WriteString(", IDs: [")
	for i, id := range ids {
		if i > 0 {
			line.WriteByte(',')
		}
		line.Write(id)
	}
	line.WriteByte(']')
	return line.String()
}

// bytesOf are the IDs as a log takes them.
func bytesOf(ids store.IDs) [][]byte {
	list := make([][]byte, len(ids))
	for i, id := range ids {
		list[i] = id.([]byte)
	}
	return list
}
