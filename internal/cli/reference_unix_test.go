//go:build !windows

package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/testing/shelltest"
)

var update = flag.Bool("update", false, "write docs/commands.md anew from what the help says now")

// The reference of commands is what the help pages say. After a change of the help, run the test with -update.
func TestCommandReference(t *testing.T) {
	for language, text := range map[string]struct {
		file, title, other, intro, daemon, common, codes, period, colon string
	}{
		"en": {"commands.md", "Commands", "[中文](commands.zh-CN.md)",
			"What `delayer help` says, on one page. A test compares it with the program.", "The daemon", "Options of all commands", "Exit codes", ".", ": "},
		"zh": {"commands.zh-CN.md", "命令", "[English](commands.md)",
			"`delayer help` 的内容，集中在一页上。有测试将它与程序比较。", "守护进程", "所有命令都有的选项", "退出码", "。", "："},
	} {
		w := readWords(language)
		r := reference{w, text.period, text.colon}
		page := fmt.Sprintf("# %s\n\n%s\n\n%s\n", text.title, text.other, text.intro)
		page += fmt.Sprintf("\n## %s\n\n```text\n%s```\n\n%s", text.daemon, originalUsage, r.options(w.pages["daemon"].options))
		page += fmt.Sprintf("\n## %s\n\n%s\n%s\n", text.common, r.options(w.pages["common"].options), markdown(w.text("durations")))
		for _, g := range w.groups {
			page += "\n## " + strings.TrimRight(g.title, ":：") + "\n"
			for _, name := range g.names {
				if c, _ := findCommand(strings.Fields(name)); c != nil {
					page += r.command(c)
				}
			}
		}
		page += "\n## " + text.codes + "\n\n" + r.codes(w.exitCodes(nil))
		file := "../../docs/" + text.file
		if *update {
			shelltest.Write(t, file, page)
		}
		if existing, err := os.ReadFile(file); err != nil || string(existing) != page {
			t.Errorf("docs/%s is not what the help says (%v): go test ./internal/cli -run TestCommandReference -update", text.file, err)
		}
	}
}

// reference writes help texts as Markdown.
type reference struct {
	*words
	period, colon string
}

// command returns the section of a command.
func (r reference) command(c *command) string {
	p := r.pages[c.name]
	section := fmt.Sprintf("\n### delayer %s\n\n`delayer %s`\n\n%s%s\n", c.name, c.synopsis(), capital(markdown(p.summary)), r.period)
	for _, paragraph := range strings.Split(strings.TrimSpace(p.text), "\n\n") {
		if paragraph != "" {
			section += "\n" + markdown(paragraph) + "\n"
		}
	}
	if len(p.options) > 0 {
		section += "\n" + r.options(p.options)
	}
	if len(p.examples) > 0 {
		section += "\n```text\n" + strings.Join(p.examples, "\n") + "\n```\n"
	}
	if r.pages["exit codes of "+c.name] != nil {
		section += "\n" + r.say("exit codes") + "\n\n" + r.codes(r.exitCodes(c))
	}
	return section
}

func (r reference) options(options []option) (list string) {
	for _, o := range options {
		list += fmt.Sprintf("- `%s`%s%s\n", o.flags, r.colon, markdown(strings.Join(o.text, "\n")))
	}
	return list
}

func (r reference) codes(codes []exitCode) (list string) {
	for _, c := range codes {
		list += fmt.Sprintf("- %d%s%s\n", c.code, r.colon, markdown(c.meaning))
	}
	return list
}

func capital(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:]
}

// markdown returns lines as one, with characters escaped that Markdown would take for its own.
func markdown(lines string) (text string) {
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		line = strings.TrimSpace(line)
		last, _ := utf8.DecodeLastRuneInString(text)
		first, _ := utf8.DecodeRuneInString(line)
		if text != "" && !wide(last) && !wide(first) || unicode.Is(unicode.Han, last) && first < 128 || last < 128 && unicode.Is(unicode.Han, first) && text != "" {
			text += " "
		}
		text += line
	}
	return strings.NewReplacer("*", `\*`, "<", `\<`, "[", `\[`).Replace(text)
}

// wide reports whether r is a Chinese character or punctuation mark, next to which a line needs no space.
func wide(r rune) bool {
	return unicode.Is(unicode.Han, r) || r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef
}
