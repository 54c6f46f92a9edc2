package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
)

// foreignFlags are flags of other programs.
var foreignFlags = []string{"--cluster", "--cluster-pipeline", "--latency", "--default_lua_flags", "--purge", "--rdb"}

// Commands and flags named within a line of a document exist. TestShellSamples runs the samples.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	codeSpan, flagOf, words := regexp.MustCompile("`([^`\n]+)`"), regexp.MustCompile(`--[a-z][a-z_-]*`), regexp.MustCompile(`^delayer((?: [a-z]+)+)`)
	flags := flagOf.FindAllString(shelltest.Read(t, "help/en.txt"), -1)
	helped := map[string]bool{} // whether a help page exists
	hasHelp := func(command string) bool {
		if _, known := helped[command]; !known {
			_, err := readWords("en").pageOn(strings.Fields(command))
			helped[command] = err == nil
		}
		return helped[command]
	}
	count := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		redistest.Check(t, err)
		for _, page := range pages {
			if filepath.Base(page) == "CHANGELOG.md" {
				continue
			}
			for _, span := range codeSpan.FindAllStringSubmatch(shelltest.Read(t, page), -1) {
				if command := words.FindStringSubmatch(span[1]); command != nil {
					count++
					names := strings.Fields(command[1])
					if !hasHelp(names[0]) && !hasHelp(strings.Join(names[:min(2, len(names))], " ")) {
						t.Errorf("%s names %s: there is no such command", page, span[0])
					}
				}
				for _, flag := range flagOf.FindAllString(span[1], -1) {
					count++
					if !slices.Contains(flags, flag) && !slices.Contains(foreignFlags, flag) {
						t.Errorf("%s names %s in %s: no command has it", page, flag, span[0])
					}
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d are named", count)
	}
}
