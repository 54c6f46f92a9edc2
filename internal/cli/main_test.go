package cli

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	os.Setenv("LC_ALL", "C") // help is in English, however this machine is set
	os.Exit(m.Run())
}
