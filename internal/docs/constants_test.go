package docs

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Figures that documents, help texts and samples give are constants of the code: so many of these, by package and name, or by script and name.
// Whoever changes one finds here what is said of it, in both languages.
func TestDocumentedConstants(t *testing.T) {
	const (
		configuration, guarantees, http, metrics, scaling = "docs/configuration.md", "docs/guarantees.md", "docs/http.md", "docs/metrics.md", "docs/scaling.md"
		configurationZh, httpZh, metricsZh, scalingZh     = "docs/configuration.zh-CN.md", "docs/http.zh-CN.md", "docs/metrics.zh-CN.md", "docs/scaling.zh-CN.md"
		wire, benchmarks                                  = "docs/wire-format.md", "docs/benchmarks.md"
	)
	all := constants(t)
	for _, c := range []struct {
		name, value string
		said        []string // a document, and what it says
	}{
		{"client.MaxDelay", "876000h0m0s", []string{http, "from 0s to 100 years", httpZh, "from 0s to 100 years"}},
		{"internal/store.DefaultLifetime", "168h0m0s", []string{wire, "which is 604,800 s (7\ndays) by default", "docs/migrating.md", "kept for 7 days", "docs/migrating.zh-CN.md", "保存 7 天"}},
		{"internal/store.MaxLease", "24h0m0s", []string{"cmd/delayer/worker.go", "up to 24h;\n  if not given as the job says, or 30s", "cmd/delayer/commands.go", "and names none, up to 24h; 30s if not given"}},
		{"client.MaxReplicasTimeout", "10s", []string{"cmd/delayer/commands.go", "for how long to wait for them, up to 10s; 1s if not given"}},
		{"internal/store.MaxGroup", "1048576", []string{"docs/go.md", "in that order, up to 1 MiB", "docs/go.zh-CN.md", "最多 1 MiB", guarantees, "there is no room for the next one in 1 MiB"}},
		{"client.defaultTimeout", "3s", []string{guarantees, "as long as the connection's timeouts allow, 3 s by default"}},
		{"client.defaultMaxActive", "32", []string{benchmarks, "The 32 connections of the original's pool are as many as Delayer's client opens by itself"}},
		{"client/worker.defaultAttempts", "10", []string{"cmd/delayer/worker.go", "how often a job is tried that does not say so; 10 if not given", "docs/go.md", "again later, 10 times at most", "docs/go.zh-CN.md", "最多 10 次"}},
		{"client/worker.defaultConcurrency", "10", []string{"cmd/delayer/worker.go", "up to 250; 10 if not given"}},
		{"client/worker.defaultGrace", "10s", []string{"cmd/delayer/worker.go", "gives those under way 10 s before it ends them so"}},
		{"internal/store.ShortestLease", "100ms", []string{guarantees, "so what is shorter than\n  100 ms as the producer (`TTR`) or the worker's options say counts as that"}},
		{"internal/store.DefaultLease", "30s", []string{"cmd/delayer/worker.go", "or 30s; a program may run longer"}},
		{"cmd/delayer.maxConcurrency", "250", []string{"cmd/delayer/worker.go", "how many jobs are handled at a time, up to 250"}},
		{"cmd/delayer.maxKept", "2048", []string{"cmd/delayer/worker.go", "The last 2 KiB of what\nthe program wrote to standard error", "docs/php.md", "the last 2 KiB of what PHP wrote to", "docs/php.zh-CN.md", "最后 2 KiB"}},
		{"cmd/delayer.exitDataError", "65", []string{"cmd/delayer/worker.go", "65, it becomes a dead letter", "docs/php.md", "exit(65);  // a dead letter", "docs/php.zh-CN.md", "exit(65);"}},
		{"cmd/delayer.exitUsage", "2", []string{"docs/systemd/delayer.service", "RestartPreventExitStatus=2 3 4", configuration, "but for the codes 2, 3\nand 4", configurationZh, "退出码 2、3、4 除外", "docs/migrating.md", "`RestartPreventExitStatus=2 3 4`", "docs/migrating.zh-CN.md", "`RestartPreventExitStatus=2 3 4`"}},
		{"cmd/delayer.exitRedis", "3", nil},
		{"cmd/delayer.exitRunning", "4", nil},
		{"cmd/delayer.exitFailed", "6", []string{scaling, "and ends with exit code 6", scalingZh, "以退出码 6 结束", guarantees, "ends the daemon at once, with\ncode 6"}},
		{"cmd/delayer.exitOutput", "5", []string{guarantees, "as the next one, and end with 5"}},
		{"cmd/delayer.startedLater", "5s", []string{"cmd/delayer/worker.go", "again 5 s later, and the worker rests for 1 to 15 s"}},
		{"cmd/delayer.killAfter", "500ms", []string{"cmd/delayer/worker.go", "gets SIGTERM and, half a second\nlater, SIGKILL"}},
		{"cmd/delayer.popLease", "30s", []string{guarantees, "delivered again after 30 s, and the attempt counts", "cmd/delayer/pop.go", "if the command is killed, after 30 s"}},
		{"cmd/delayer.sameSignal", "1s", []string{configuration, "A second one, more than a second later, ends it at once", configurationZh, "一秒之后的第二个信号", guarantees, "A second signal more than a second after the first ends the daemon at once"}},
		{"cmd/delayer.stopWait", "4.3s", []string{configuration, "stop the daemon, within 5 s", configurationZh, "不超过 5 秒", guarantees, "## G8 Stopping takes 5 s at most"}},
		{"cmd/delayer.frontIdle", "8", []string{http, "it keeps\n8, or `max_idle` if that is more, for 10 s", httpZh, "空闲的保留 8 个（`max_idle` 更大时按 `max_idle`），保留 10 秒"}},
		{"cmd/delayer.frontIdleTimeout", "10s", nil},
		{"internal/web.MaxConns", "10000", []string{http, "There are 10,000 connections at most", httpZh, "最多同时有 10,000 个连接", guarantees, "There are 10,000 connections at most", http, "those that have shown it fill 9,900 at most", http, "9,900 connections are busy", httpZh, "9,900 个"}},
		{"internal/web.reserved", "100", nil}, // 1 of so many is not 9,900
		{"internal/web.MaxWaiting", "10000", []string{http, "10,000 may wait at a time", httpZh, "最多 10,000 个请求同时等待", guarantees, "10,000 requests wait at most"}},
		{"internal/web.headerTimeout", "5s", []string{http, "after 5 s without a request", httpZh, "5 秒没有请求也关闭", guarantees, "A\nclient has 5 s to send a header"}},
		{"internal/web.exchangeTimeout", "30s", []string{http, "the request was not sent within 30 s", httpZh, "没有在 30 秒内发完", guarantees, "30 s for all of its request, and a minute until it has read the\nanswer"}},
		{"internal/web.maxHeader", "12288", []string{guarantees, "Headers have 16 KiB at most"}}, // and 4 KiB that net/http adds
		{"internal/web.freeGuesses", "10", []string{http, "After ten wrong tokens or passwords a minute from an address, each further answer takes a second", httpZh, "出示十次错误的 token 或密码之后，每次回答都要等一秒"}},
		{"internal/web.guessTime", "1m0s", nil},
		{"internal/web.guessDelay", "1s", nil},
		{"internal/web.stopWait", "1s", []string{guarantees, "then they have up to\n3 s, as long as answers are being written. What else is under way has a second"}},
		{"internal/web.stopMore", "2s", nil},
		{"internal/web/api.maxBatch", "1000", []string{http, "takes up to 1,000 such jobs", httpZh, "最多 1000 个这样的任务", http, "| up to 1,000 jobs |", httpZh, "| 最多 1000 个任务 |"}},
		{"internal/web/api.keyWindow", "24h0m0s", []string{http, "A push of it counts once in 24 h", httpZh, "24 小时内", "internal/web/api/openapi.yaml", "A push of a key counts once in 24 h"}},
		{"internal/web/api.maxKey", "255", []string{http, "1 to 255 characters", httpZh, "1 到 255 个 ASCII 字符"}},
		{"internal/web/delayqueue.maxDelay", "2147483647", []string{http, "`delay` is from 1 to 2147483647", httpZh, "`delay` 从 1 到 2147483647"}},
		{"internal/web/delayqueue.maxTTR", "86400", []string{http, "`ttr` from 1 to 86400", httpZh, "`ttr` 从 1 到 86400"}},
		{"internal/web/delayqueue.maxTopics", "256", []string{"docs/migrating.md", "a /pop names up to 256\n  topics", "docs/migrating.zh-CN.md", "一次 /pop 最多 256 个主题"}},
		{"internal/web/delayqueue.defaultPollTimeout", "2m58s", []string{http, "178 s unless you set it", httpZh, "默认 178 秒", "docs/migrating.md", "178 s in both", "docs/migrating.zh-CN.md", "都是 178 秒"}},
		{"internal/web/delayqueue.defaultMaxBody", "1048576", []string{http, "1 MiB unless you set it", httpZh, "默认 1 MiB"}},
		{"internal/web/dashboard.maxForm", "4194304", []string{http, "A form of the dashboard: 4\n  MiB", httpZh, "管理页面的表单为 4 MiB"}},
		{"internal/web/dashboard.pageSize", "50", []string{http, "50 at a time, those with something first", httpZh, "每页 50 个"}},
		{"internal/web/dashboard.patience", "2s", []string{http, "for two seconds a page at\n  most", httpZh, "每页最多两秒"}},
		{"internal/inspect.MostTopics", "10000", []string{http, "the 10,000 of each partition that were used last are counted", guarantees, "by the 10,000 of each partition that were used"}},
		{"internal/inspect.snapshotTimeout", "3s", []string{metrics, "When Redis does\n  not answer within 3 s they are not there"}},
		{"internal/inspect.maxNames", "100000", []string{http, "among 100,000", httpZh, "在 100,000 个之内"}},
		{"internal/inspect.partitionPatience", "1.5s", []string{guarantees, "those of the partitions that answer within 1.5 s"}},
		{"internal/web/metrics.overdueTimeout", "700ms", []string{metrics, "Redis has not answered within 0.7 s", metricsZh, "Redis 在 0.7 秒内没有回答"}},
		{"internal/web/metrics.passSlack", "10s", []string{metrics, "for timer_interval and 10 s", metricsZh, "timer_interval 加 10 秒"}},
		{"internal/web/metrics.maxLabel", "256", []string{metrics, "One of more than 256 bytes is among the others", metricsZh, "超过 256 字节的主题归入其余"}},
		{"internal/store.MaxPop", "250", []string{guarantees, "so is a pop of up to 250 jobs", guarantees, "it is up to\n  250 jobs and about 1 MiB"}},
		{"internal/store.maxLook", "250", []string{guarantees, "once a second, 250 in one script", wire, "250 in one\nscript, once a second or each 10 s"}},
		{"internal/batch.maxItems", "250", []string{guarantees, "of up to 250 jobs or 1 MiB is one script"}},
		{"internal/store.MaxID", "4096", []string{guarantees, "refuses IDs above 4 KiB, topics above 1 KiB", wire, "an ID above 4 KiB and a topic above 1 KiB are refused", "docs/migrating.md", "An ID has 4 KiB at most, a topic 1 KiB", "docs/migrating.zh-CN.md", "ID 最长 4 KiB，主题最长 1 KiB"}},
		{"internal/store.MaxTopic", "1024", nil},
		{"internal/store.MaxBody", "536870912", []string{guarantees, "above the 512 MiB that Redis takes"}},
		{"internal/store.MaxPartitions", "1024", []string{"delayer.conf", "1 to 1024, see docs/scaling.md", configuration, "up to 1,024, the same in all programs", configurationZh, "最多 1,024"}},
		{"internal/store.AnnouncedWithin", "1m0s", []string{wire, "if that is within 60 s and before all others"}},
		{"internal/store.WaitingFor", "1h0m0s", []string{wire, "and `PEXPIRE` of an hour"}},
		{"parts/queue.lua.MOST_DEAD", "100", []string{wire, "if nobody has heard, up to 100 times"}},
		{"internal/store.RenewEvery", "10s", []string{wire, "and every 10 s if nothing\nbut passes has happened", guarantees, "A server that has not been heard of for 15 s and its timer_interval is preferred no more"}},
		{"internal/store.aliveSlack", "5s", nil},
		{"internal/store.staleAfter", "1m0s", []string{wire, "One that has not been renewed for a minute"}},
		{"internal/store.historySlots", "360", []string{guarantees, "360 fields", wire, "*n* modulo 360"}},
		{"internal/store.historyStep", "10s", []string{guarantees, "for each ten seconds of the last hour", wire, "a field for each ten seconds of the last hour"}},
		{"internal/store.knownFor", "10s", []string{guarantees, "A push enters its topic, once in 10 s"}},
		{"internal/store.soon", "30m0s", []string{wire, "that was to wait for more than half an hour"}},
		{"internal/store.migrateStep", "50", []string{scaling, "takes some 50 jobs a step", scalingZh, "每步约 50 个任务"}},
		{"internal/store.sweepTopics", "100", []string{guarantees, "looked after in steps of 100"}},
		{"parts/servers.lua.MAX_SERVERS", "250", []string{guarantees, "and read 250\nservers at most"}},
		{"sweep.lua.IDLE", "3600", []string{guarantees, "is forgotten an hour after its last use"}},
		{"parts/once.lua.OVER", "10", []string{guarantees, "takes out ten IDs at most whose time is over"}},
		{"parts/lease.lua.LENT", "100", []string{wire, "shorter than a hundred times the lease", guarantees, "more than a hundred times as long"}},
		{"parts/lease.lua.UNTIL_SEEN", "120000", []string{wire, "a bucket lasts for\ntwo minutes at least", guarantees, "kept for two minutes from then on at least"}},
		{"parts/lease.lua.CLOCK_SLACK", "500", []string{guarantees, "so does one that comes within half a second"}},
		{"parts/limit.lua.MADE_UP_FOR", "250000", []string{guarantees, "`Rate` × (t + ¼) + `Burst`"}},
		{"parts/limit.lua.LONGEST", "5000000", []string{guarantees, "away for more than 5 s because of a rate"}},
		{"parts/slots.lua.LOOKED_AT", "200", []string{guarantees, "whether the first 200 of the others have leases"}},
		{"take_slots.lua.PAGE", "200", []string{wire, "read the pool's leases, 200 entries each"}},
		{"due.lua.MAX_BYTES", "524288", []string{guarantees, "A batch has about 1 MiB of IDs at most"}}, // of fresh ones and of the backlog
		{"group.lua.LARGE", "16384", []string{guarantees, "Of a group from 16 KiB on there is one", guarantees, "groups above 16 KiB take Redis two to three times as long", configurationZh, "向 16 KiB 以上的组推送"}},
		{"group.lua.GROUP", "16384", []string{guarantees, "16 KiB for each group"}},
		{"group.lua.KNOWN_FOR", "60000", []string{wire, "it expires a minute after that is due"}},
		{"parts/text.lua.TEXT_KEPT", "60000", []string{wire, "it expires after a minute, and counts only if"}},
		{"internal/store.RetryAfter", "5s", []string{guarantees, "who reserves puts it off for\n5 s"}},
		{"internal/wait.checkEvery", "1s", []string{guarantees, "looks at all topics that its callers wait for once a second"}},
		{"internal/wait.calmAfter", "30s", []string{guarantees, "have found nothing for 30 s"}},
		{"internal/wait.slowCheck", "10s", []string{guarantees, "it looks each 10 s"}},
		{"internal/wait.checkAtOnce", "1000", []string{guarantees, "for more than 1,000 topics × partitions of a node looks each second at a tenth of those, or\n1,000 if that is more"}},
		{"internal/wait.pollEvery", "50ms", []string{guarantees, "a BPop that waits: by 50 ms, as it polls; of more than 250 topics by up to 1 s", configuration, "a waiting BPop asks every 50 ms", configurationZh, "等待中的 BPop 每 50 ms 查询一次", wire, "looks every 50 ms or, at more than 250 queues, at all of them within a second"}},
		{"internal/wait.PollAtOnce", "250", nil},
		{"internal/wait.lingerFor", "5s", []string{guarantees, "or has not waited for 5 s,\ntakes itself out"}},
		{"internal/wait.silence", "15s", []string{guarantees, "a Client's after 15 s, and given up after 3 s more"}},
		{"internal/store.pongWithin", "3s", nil},
		{"internal/wait.RetryWindow", "3s", []string{guarantees, "A BPop that waits\nbears 3 s of it", scaling, "a BPop that waits bears 3 s of it", scalingZh, "等待中的 BPop 能承受 3 秒"}},
		{"internal/wait.MaxBatches", "4", []string{guarantees, "shares four connections for what they take and to look, and one to hear of jobs"}},
		{"internal/wait.throttledFor", "10s", []string{guarantees, "A message that is lost costs 5 to 15 s"}}, // half of it to half more
		{"internal/wait.shunFor", "5s", []string{scaling, "but for a call every 5 s", scalingZh, "每 5 秒才有一次例外"}},
		{"internal/redisconn.RideOut", "3s", []string{guarantees, "or again for 3 s", scaling, "Each call is made again for 3 s", scalingZh, "每次调用在 3 秒内重试"}},
		{"internal/redisconn.askEvery", "100ms", []string{guarantees, "ten times a second at most"}},
		{"internal/redisconn.askWithin", "1s", []string{configuration, "the timeouts (up to 1 s) hold for them, too", configurationZh, "各超时（最长 1 秒）"}},
		{"internal/redisconn.watchEvery", "1s", []string{guarantees, "is asked once a second in case that it can't", scaling, "a failover is noticed within a second", scalingZh, "在一秒内而不是立刻被发现"}},
		{"internal/redisconn.KeptByNode", "1", []string{scaling, "keeps one connection to\neach, and one more while it waits", scalingZh, "只留一个连接，等待任务时再多一个"}},
		{"server.standInAfter", "50ms", []string{guarantees, "50 ms after they were due, 75 if", configuration, "each does the other's 50 ms later", configurationZh, "50 毫秒后代做", guarantees, "once in 25 to 50 ms"}},
		{"server.polledSleep", "1s", []string{guarantees, "by timer_interval at most, a second at most, as it polls that often"}},
		{"server.lastTurn", "10", []string{guarantees, "polls a tenth in each second, or one if there are fewer than ten", wire, "it polls a tenth in each of these seconds"}},
		{"server.silence", "5s", []string{guarantees, "A server's subscription is asked PING after 5 s of silence"}},
		{"server.shortSilence", "1s", []string{guarantees, "A PING a second shows whether its\nconnection for messages is alive"}},
		{"server.sweepAfter", "1m0s", []string{guarantees, "once a minute it looks at the next entries of all ready queues"}},
		{"server.topicsTurn", "2ms", []string{guarantees, "for 2 ms at a\ntime between two passes, and again a minute after all were"}},
		{"server.asideEvery", "5s", []string{guarantees, "a server sends it on within 5 s", scaling, "a server looks each 5 s", scalingZh, "服务端每 5 秒检查一次"}},
		{"internal/store.RetryAfter", "5s", []string{guarantees, "due 5 s\nlater", "docs/migrating.md", "they are tried again every 5s", "docs/migrating.zh-CN.md", "they are tried again every 5s"}},
		{"server.retrySpacing", "100µs", []string{guarantees, "at most 10,000 such jobs are tried a second"}},
		{"server.minBatch", "100", []string{guarantees, "a batch has 100 jobs at least"}},
		{"server.mostMissed", "100", []string{guarantees, "or to the last 100 (`all`)", configuration, "all, the last 100", configurationZh, "all，最后 100 个", "delayer.conf", "or all (the last 100)"}},
		{"server.skipAfter", "1m0s", []string{guarantees, "`skip`: none that is a minute late"}},
		{"server.remembered", "10", []string{wire, "the last ten moments", http, "its last ten and how late they were", httpZh, "最近十个时刻及其延误"}},
		{"parts/schedule.lua.REMEMBERED", "10", nil},
		{"server.mendAfter", "2s", []string{guarantees, "put it back within 2 s (within a minute", wire, "every 2 s if there\nare schedules, else once a minute"}},
		{"server.remindAfter", "1m0s", []string{guarantees, "one a minute while it lasts", "docs/migrating.md", "after each further minute"}},
		{"server.pausesEvery", "1s", []string{guarantees, "Each server looks once a second whether anything is paused"}},
		{"pause.lua.AT_ONCE", "1000", []string{guarantees, "No script moves more than 1,000 entries that others have put there"}},
		{"server.beatEvery", "1s", []string{wire, "An entry is written once a second at most"}},
		{"server.signOffWait", "1s", []string{guarantees, "A stop waits for the deletion for a second at most"}},
	} {
		if got, ok := all[c.name]; !ok || got != c.value {
			t.Errorf("%s is %q here, and %q in the code: change this, and what is said of it in %q", c.name, c.value, got, c.said)
		}
		for i := 0; i < len(c.said); i += 2 {
			text, err := os.ReadFile(filepath.Join(project, c.said[i]))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(unspaced(string(text)), unspaced(c.said[i+1])) {
				t.Errorf("%s does not say %q, which is %s, %s", c.said[i], c.said[i+1], c.name, c.value)
			}
		}
	}
}

// unspaced is a text without blanks and line breaks.
func unspaced(text string) string {
	return strings.Join(strings.Fields(text), "")
}

// constants are those of the packages and scripts, durations as time.Duration writes them.
func constants(t *testing.T) map[string]string {
	t.Helper()
	all, folders := map[string]string{}, map[string][]*ast.File{}
	files := token.NewFileSet()
	err := filepath.WalkDir(project, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules", "bench", "tools"}, entry.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".lua"):
			return scriptConstants(path, all)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			file, err := parser.ParseFile(files, path, nil, 0)
			folder := filepath.ToSlash(filepath.Dir(inProject(path)))
			folders[folder] = append(folders[folder], file)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check := types.Config{Importer: times{}, Error: func(error) {}} // what else is imported is of no interest
	for folder, files_ := range folders {
		checked, _ := check.Check(folder, files, files_, nil)
		for _, name := range checked.Scope().Names() {
			if c, ok := checked.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() != constant.Unknown {
				all[folder+"."+name] = inWords(c)
			}
		}
	}
	return all
}

func inWords(c *types.Const) string {
	if n, exact := constant.Int64Val(constant.ToInt(c.Val())); exact && c.Type().String() == "time.Duration" {
		return time.Duration(n).String()
	}
	return c.Val().ExactString()
}

// times imports package time, as far as constants need it.
type times struct{}

func (times) Import(path string) (*types.Package, error) {
	if path != "time" {
		return nil, fmt.Errorf("%s is not imported", path)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "time.go", `package time
type Duration int64
const (
	Nanosecond Duration = 1
	Microsecond = 1000 * Nanosecond
	Millisecond = 1000 * Microsecond
	Second = 1000 * Millisecond
	Minute = 60 * Second
	Hour = 60 * Minute
)`, 0)
	if err != nil {
		return nil, err
	}
	return (&types.Config{}).Check("time", files, []*ast.File{file}, nil)
}

var (
	scriptConstant = regexp.MustCompile(`(?m)^local ([A-Z_]+(?:, [A-Z_]+)*) = ([\d *,]+?) *(?:--.*)?$`)
	factor         = regexp.MustCompile(`\d+`)
)

// scriptConstants adds those of a script, which are numbers.
func scriptConstants(path string, all map[string]string) error {
	text, err := os.ReadFile(path)
	for _, found := range scriptConstant.FindAllStringSubmatch(string(text), -1) {
		names, values := strings.Split(found[1], ", "), strings.Split(found[2], ", ")
		for i, name := range names {
			product := 1
			for _, f := range factor.FindAllString(values[i], -1) {
				n, _ := strconv.Atoi(f)
				product *= n
			}
			all[strings.TrimPrefix(inProject(path), "internal/store/lua/")+"."+name] = strconv.Itoa(product)
		}
	}
	return err
}
