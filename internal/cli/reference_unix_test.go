//go:build !windows

package cli

import (
	"flag"
	"fmt"
	"os"
	"slices"
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
		file, title, other, intro, daemon, common, several, also, codes, period, colon string
	}{
		"en": {"commands.md", "Commands", "[中文](commands.zh-CN.md)",
			"What `delayer help` says, on one page. A test compares it with the program.", "The daemon", "Options of all commands", "Options of several commands", "Also", "Exit codes", ".", ": "},
		"zh": {"commands.zh-CN.md", "命令", "[English](commands.md)",
			"`delayer help` 的内容，集中在一页上。有测试将它与程序比较。", "守护进程", "所有命令都有的选项", "几个命令共有的选项", "还有", "退出码", "。", "："},
	} {
		w := readWords(language)
		r := reference{w, text.period, text.colon, text.also, sharedOptions(w)}
		page := fmt.Sprintf("# %s\n\n%s\n\n%s\n", text.title, text.other, text.intro)
		page += fmt.Sprintf("\n## %s\n\n```text\n%s```\n\n%s", text.daemon, originalUsage, r.options(w.pages["daemon"].options))
		page += fmt.Sprintf("\n## %s\n\n%s\n%s\n", text.common, r.options(w.pages["common"].options), markdown(w.text("durations")))
		page += fmt.Sprintf("\n## %s\n\n%s", text.several, r.options(r.shared))
		for _, g := range w.groups[:len(w.groups)-1] { // but not how to get help
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
	period, colon, also string
	shared              []option // have their text once, at the head of the page
}

// sharedOptions returns the options that several commands have with the same text; of a flag with several texts, the most frequent one.
func sharedOptions(w *words) (shared []option) {
	uses := map[string]int{}
	text := func(o option) string { return o.flags + strings.Join(o.text, "\n") }
	at := map[string]int{} // flags → index in shared
	for _, g := range w.groups {
		for _, name := range g.names {
			for _, o := range w.pages[name].options {
				uses[text(o)]++
				switch i, known := at[o.flags]; {
				case !known:
					at[o.flags] = len(shared)
					shared = append(shared, o)
				case uses[text(o)] > uses[text(shared[i])]:
					shared[i] = o
				}
			}
		}
	}
	return slices.DeleteFunc(shared, func(o option) bool { return uses[text(o)] < 2 })
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
	section += r.own(p.options)
	examples := slices.DeleteFunc(slices.Clone(p.examples), func(line string) bool { return line == p.examples[0]+" --json" })
	if len(examples) > 0 {
		section += "\n```text\n" + strings.Join(examples, "\n") + "\n```\n"
	}
	if r.pages["exit codes of "+c.name] != nil {
		section += "\n" + r.say("exit codes") + "\n\n" + r.codes(r.exitCodes(c))
	}
	return section
}

// own returns the options of a command: the names of shared ones, and the others with their texts.
func (r reference) own(options []option) (list string) {
	var own []option
	var names []string
	for _, o := range options {
		if slices.ContainsFunc(r.shared, func(s option) bool { return s.flags == o.flags && slices.Equal(s.text, o.text) }) {
			names = append(names, "`"+o.flags+"`")
		} else {
			own = append(own, o)
		}
	}
	if len(own) > 0 {
		list = "\n" + r.options(own)
	}
	if len(names) > 0 {
		list += fmt.Sprintf("\n%s%s%s%s\n", r.also, r.colon, strings.Join(names, ", "), r.period)
	}
	return list
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
