package logger_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mix-basic/delayer/logger"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "delayer")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	log, err := logger.Open(logger.Options{AccessLog: filepath.Join(dir, "logs", "access.log")})
	if err != nil {
		panic(err)
	}
	log.Info("Job is ready, Topic: a\nb, IDs: [id1,id2]")
	log.Close()

	line, _ := os.ReadFile(filepath.Join(dir, "logs", "access.log"))
	fmt.Printf("%s… %s", line[:len("[info]")], line[len("[info] 2006/01/02 15:04:05 "):])
	// Output: [info]… Job is ready, Topic: a\nb, IDs: [id1,id2]
}
