package logger

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMessagesAreOneLine(t *testing.T) {
	for message, want := range map[string]string{
		"plain <&>'\"":           `plain <&>'"`,
		"ünï €😀\u00a0":           "ünï €😀\u00a0",
		"a\nb\r\n\tc":            `a\nb\r\n\tc`,
		"\x00\x1b[31m\x7f":       `\x00\x1b[31m\x7f`,
		"\xff\xc3(":              `\xff\xc3(`,
		"\u0085\u2028\u2029":     `\u0085\u2028\u2029`,
		"\ufffd":                 "\ufffd",
		`App\Jobs\Close`:         `App\Jobs\Close`,
		`C:\dir\`:                `C:\dir\`,
		`C:\new \r \t \x \u`:     `C:\\new \\r \\t \\x \\u`,
		`\\`:                     `\\\`,
		"\\\n":                   `\\\n`,
		"\\\xff \\\u2028":        `\\\xff \\\u2028`,
		"\\é":                    "\\é",
		"x\n[error] forged line": `x\n[error] forged line`,
	} {
		var console writes
		l := open(t, Options{Console: &console})
		l.Info(message)
		l.Close()
		check(t, fmt.Sprintf("%q", message), console[0], "[info] "+stamp+want+"\n")
		check(t, "read back", unescape(t, want), message)
	}
}

// unescape restores a message from its line.
func unescape(t *testing.T, line string) string {
	t.Helper()
	var message []byte
	for line != "" {
		var n, v int
		switch {
		case len(line) == 1 || line[0] != '\\' || !strings.ContainsRune(`nrtxu\`, rune(line[1])):
			message, line = append(message, line[0]), line[1:]
			continue
		case line[1] == 'x':
			n, _ = fmt.Sscanf(line[2:], "%2x", &v)
			message, line = append(message, byte(v)), line[4:]
		case line[1] == 'u':
			n, _ = fmt.Sscanf(line[2:], "%4x", &v)
			message, line = append(message, string(rune(v))...), line[6:]
		default:
			n = 1
			message, line = append(message, strings.NewReplacer("n", "\n", "r", "\r", "t", "\t").Replace(line[1:2])...), line[2:]
		}
		if n != 1 {
			t.Fatalf("bad escape before %q", line)
		}
	}
	return string(message)
}

func logTo(t *testing.T, o Options, message string) {
	l := open(t, o)
	l.Info(message)
	l.Close()
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "a\nb", `\n`, "\\\n", "\xff", `\\x41`, "\u2028\u0085", "[error]", "é\\é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		var text, object writes
		logTo(t, Options{Console: &text}, message)
		line, ended := strings.CutSuffix(text[0], "\n")
		if len(text) != 1 || !ended || strings.ContainsAny(line, "\n\r\v\f\u0085\u2028\u2029") {
			t.Errorf("%q is not one line: %q", message, text)
		}
		check(t, "read back", unescape(t, strings.TrimPrefix(line, "[info] "+stamp)), message)

		logTo(t, Options{Console: &object, JSON: true}, message)
		var got struct{ Message string }
		err := json.Unmarshal([]byte(object[0]), &got)
		if want := string([]rune(message)); err != nil || got.Message != want {
			t.Errorf("JSON %q: %q, %v; want %q", object, got.Message, err, want)
		}
		if len(object) != 1 || strings.Count(object[0], "\n") != 1 || !strings.HasSuffix(object[0], "}\n") {
			t.Errorf("%q is not one line: %q", message, object)
		}
	})
}

func TestJSON(t *testing.T) {
	var console writes
	l := open(t, Options{Console: &console, JSON: true})
	l.Info("Topic: <a&b>, \"x\"\n\xff")
	l.Error(`C:\new`)
	l.Close()
	console.expect(t,
		`{"time":"2018-10-21T11:24:04.005+02:00","level":"info","message":"Topic: <a&b>, \"x\"\n\ufffd"}`+"\n",
		`{"time":"2018-10-21T11:24:04.005+02:00","level":"error","message":"C:\\new"}`+"\n",
	)
}

// idList has IDs as a server passes them.
type idList []string

func (l idList) LogValue() slog.Value { return slog.AnyValue([]string(l)) }

func (l idList) Bytes() (list [][]byte) {
	for _, id := range l {
		list = append(list, []byte(id))
	}
	return list
}

// sameIDs has IDs that cost nothing to pass.
type sameIDs [][]byte

func (ids sameIDs) LogValue() slog.Value { return slog.AnyValue("unused") }

func (ids sameIDs) Bytes() [][]byte { return ids }

// Messages about jobs are lines like the original's, with fields of their own in JSON.
func TestJobs(t *testing.T) {
	dir := t.TempDir()
	texts, objects := map[string]string{}, map[string]string{}
	for _, json := range []bool{false, true} {
		access, errorLog := filepath.Join(dir, fmt.Sprint(json, "a")), filepath.Join(dir, fmt.Sprint(json, "e"))
		l := open(t, Options{AccessLog: access, ErrorLog: errorLog, JSON: json})
		log := slog.New(l.Handler())
		log.Info("Job is ready", "topic", "a\nb", "ids", idList{"id1", "id\\", "n"})
		log.Info("Job is ready", "topic", "<\xff>", "ids", idList{"id1", "\xfe"})
		log.Error("dropped", "ids", idList{"id1"})
		log.Log(t.Context(), slog.LevelInfo+1, "over")
		into := texts
		if json {
			into = objects
		}
		into["access"], into["errors"] = read(t, access), read(t, errorLog)
	}
	check(t, "access log", texts["access"], "[info] "+stamp+`Job is ready, Topic: a\nb, IDs: [id1,id\,n]`+"\n"+
		"[info] "+stamp+`Job is ready, Topic: <\xff>, IDs: [id1,\xfe]`+"\n")
	check(t, "error log", texts["errors"], "[error] "+stamp+"dropped, IDs: [id1]\n[info] "+stamp+"over\n")
	const head = `{"time":"2018-10-21T11:24:04.005+02:00","level":`
	check(t, "access objects", objects["access"], head+`"info","message":"Job is ready","topic":"a\nb","ids":["id1","id\\","n"]}`+"\n"+
		head+`"info","message":"Job is ready","topic_base64":"PP8+","ids_base64":["aWQx","/g=="]}`+"\n")
	check(t, "error objects", objects["errors"], head+`"error","message":"dropped","ids":["id1"]}`+"\n"+
		head+`"info","message":"over"}`+"\n")
}

// All kinds of attributes follow the message.
func TestHandler(t *testing.T) {
	for json, want := range map[bool]writes{
		false: {"[error] " + stamp + "m, id: 7, g.wait: 2s, g.h.error: a\\nb, g.h.topic: x\\xff, g.h.i.ids: [1 2]\n"},
		true: {`{"time":"2018-10-21T11:24:04.005+02:00","level":"error","message":"m","id":7,"g.wait":2000000000,` +
			`"g.h.error":"a\nb","g.h.topic_base64":"eP8=","g.h.i.ids":["1","2"]}` + "\n"},
	} {
		var console writes
		l := open(t, Options{Console: &console, JSON: json})
		log := slog.New(l.Handler()).With("id", 7).WithGroup("g").With("wait", 2*time.Second)
		log.With("unused", 1) // does not change log
		log.WithGroup("h").Warn("m", "error", errors.New("a\nb"), slog.Attr{}, "topic", "x\xff", slog.Group("i", "ids", []string{"1", "2"}))
		log.Debug("d")
		l.Close()
		if !slices.Equal(console, want) {
			t.Errorf("got %q\nwant %q", console, want)
		}
	}
}
