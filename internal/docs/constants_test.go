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
	"sync"
	"testing"
	"time"
)

const (
	configuration, limits, http, metrics, scaling = "docs/configuration.md", "docs/limits.md", "docs/http.md", "docs/metrics.md", "docs/scaling.md"
	configurationZh, httpZh, metricsZh, scalingZh = "docs/configuration.zh-CN.md", "docs/http.zh-CN.md", "docs/metrics.zh-CN.md", "docs/scaling.zh-CN.md"
	wire, benchmarks                              = "docs/wire-format.md", "bench/tables.md"
	install, installZh, high, highZh              = "docs/install.md", "docs/install.zh-CN.md", "docs/availability.md", "docs/availability.zh-CN.md"
	own                                           = "internal/store/keys.md"
	help, helpZh                                  = "internal/cli/help/en.txt", "internal/cli/help/zh.txt"
)

// documented are numbers of the code, and where documents, help texts and samples have them.
var documented = []struct {
	names, values string   // of constants that the same texts have
	said          []string // a document, and what it says
}{
	{"internal/store.MaxDelay", "876000h0m0s", []string{limits, "delay | 0 to 100 years", http, "from 0s to 100 years", httpZh, "from 0s to 100 years"}},
	{"internal/store.DefaultLifetime", "168h0m0s", []string{limits, "7 days by default", wire, "which is 604,800 s (7\ndays) by default", "docs/migrating.md", "kept for 7 days", "docs/migrating.zh-CN.md", "保存 7 天"}},
	{"internal/store.MaxLease", "24h0m0s", []string{limits, "1 ms to 24 h", help, "how long a crashed worker's jobs stay reserved, up to\n    24h; by default as the job says, or 30s", help, "how long a consumer that names no lease reserves the\n    job, up to 24h; 30s if not given", helpZh, "最长 24h；不写为 30s"}},
	{"internal/store.MaxReplicasTimeout", "10s", []string{limits, "1 to 100 replicas, 1 ms to 10 s", help, "how long to wait for them, up to 10s; 1s if not given", helpZh, "最多等多久，最长 10s；不写为 1s"}},
	{"internal/store.MaxGroup", "1048576", []string{limits, "body of a group; its key | 1 MiB", "docs/go.md", "in order, up to 1 MiB", "docs/go.zh-CN.md", "最多 1 MiB"}},
	{"internal/store.MaxReplicas", "100", []string{limits, "1 to 100 replicas"}},
	{"internal/store.MaxGroupKey", "256", []string{limits, "its key | 1 MiB; 256 bytes"}},
	{"internal/store.MaxNote internal/store.MaxTag internal/store.MaxScheduleName", "1000 250 200", []string{limits, "note of a pause; tag of a limit; name of a schedule | 1,000; 250; 200 bytes"}},
	{"internal/store.MaxConcurrency internal/store.MaxRate", "1000000 1000000", []string{limits, "1 to 1,000,000; one a day to 1,000,000 a second"}},
	{"internal/cron.MinEvery internal/cron.MaxEvery", "10ms 87600h0m0s", []string{limits, "interval of a schedule | 10 ms to 10 years"}},
	{"client.defaultTimeout", "3s", []string{limits, "timeouts of a connection | 3 s by default"}},
	{"client.defaultMaxActive", "32", []string{limits, "connections of a Client | 32", benchmarks, "gets 32 connections, as many as Delayer's client opens by default"}},
	{"internal/store.DefaultMaxAttempts", "25", []string{limits, "to 2,147,483,647; 25 by default", help, "attempts of a job without a maximum of its own; 25 if\n    not given", helpZh, "最多尝试多少次；不写为 25", "docs/go.md", "after 25 attempts, about a day", "docs/go.zh-CN.md", "25 次尝试（大约一天）之后", "docs/http.md", "25 if absent", "docs/http.zh-CN.md", "不写为 25", "internal/web/api/openapi.yaml", "default 25, which 0 means too"}},
	{"client/worker.defaultConcurrency", "10", []string{limits, "10 by default, at most 10,000", help, "up to 250; 10 if not given", helpZh, "最多 250；不写为 10"}},
	{"client/worker.maxConcurrency", "10000", []string{limits, "10 by default, at most 10,000"}},
	{"client/worker.defaultGrace", "10s", []string{limits, "time to stop | 10 s by default", help, "gives running programs\n10 s. Then it ends them", helpZh, "给正在运行的程序 10 秒，然后终止"}},
	{"internal/store.ShortestLease", "100ms", []string{limits, "below 100 ms it counts as 100 ms"}},
	{"internal/store.DefaultLease", "30s", []string{limits, "30 s by default", help, "or 30s. Programs may run\n    longer", helpZh, "或 30s。程序可以运行更久"}},
	{"internal/cli.maxConcurrency", "250", []string{limits, "`delayer worker` at most 250", help, "jobs at a time, up to 250", helpZh, "同时处理多少个任务，最多 250"}},
	{"internal/runner.maxKept", "2048", []string{help, "The last 2 KiB that the program wrote to standard error", helpZh, "程序写到标准错误的最后 2 KiB", "docs/php.md", "the last 2 KiB of what PHP wrote to", "docs/php.zh-CN.md", "最后 2 KiB"}},
	{"internal/runner.exitDataError", "65", []string{help, "65, it becomes a\ndead letter", helpZh, "65 表示成为死信", "docs/php.md", "exit(65);  // a dead letter", "docs/php.zh-CN.md", "exit(65);"}},
	{"internal/exit.Usage internal/exit.Redis internal/exit.Running", "2 3 4", []string{"docs/systemd/delayer.service", "RestartPreventExitStatus=2 3 4", install, "except with the codes 2, 3 and 4", installZh, "退出码 2、3、4 除外", "docs/migrating.md", "`RestartPreventExitStatus=2 3 4`", "docs/migrating.zh-CN.md", "`RestartPreventExitStatus=2 3 4`"}},
	{"internal/exit.Failed", "6", []string{"docs/guarantees.md", "ends it at once, with code 6"}},
	{"internal/exit.Output", "5", []string{"docs/guarantees.md", "and they exit with 5"}},
	{"internal/runner.startedLater", "5s", []string{help, "again 5 s later,\nand the worker pauses for 1 to 15 s", helpZh, "任务 5 秒后重新投递，worker 休息 1 到 15 秒"}},
	{"internal/runner.killAfter", "500ms", []string{help, "gets SIGTERM and half a second later SIGKILL", helpZh, "会收到 SIGTERM，\n半秒后连同它启动的一切收到 SIGKILL"}},
	{"internal/cli.popLease", "30s", []string{"docs/guarantees.md", "is redelivered after 30 s", help, "if the command is killed, after 30 s", helpZh, "30 秒之后重新就绪"}},
	{"internal/exit.SameSignal", "1s", []string{configuration, "A second one, more than a second later, ends it at once", configurationZh, "一秒之后的第二个信号"}},
	{"internal/daemon.stopWait", "4.3s", []string{configuration, "stop the daemon, within 5 s", configurationZh, "不超过 5 秒"}},
	{"internal/daemon.httpIdle internal/daemon.httpIdleTimeout", "8 10s", []string{limits, "8 of them, or `max_idle`, stay open for 10 s"}},
	{"internal/web.MaxConns internal/web.reserved", "10000 100", []string{limits, "connections | 10,000, of which authenticated clients may use 9,900", http, "9,900 connections are busy", httpZh, "9,900 个"}}, // MaxConns less this is 9,900
	{"internal/web.MaxWaiting", "10000", []string{limits, "waiting requests | 10,000", http, "10,000 may wait", httpZh, "最多 10,000 个请求同时等待"}},
	{"internal/web.headerTimeout", "5s", []string{limits, "time to send a header; the whole request; to read the response | 5 s; 30 s; a minute"}},
	{"internal/web.exchangeTimeout", "30s", []string{limits, "| 5 s; 30 s; a minute", http, "the request was not sent within 30 s", httpZh, "没有在 30 秒内发完"}},
	{"internal/web.maxHeader", "12288", []string{limits, "dashboard | 16 KiB;"}}, // and 4 KiB that net/http adds
	{"internal/web.freeGuesses internal/web.guessTime internal/web.guessDelay", "10 1m0s 1s", []string{limits, "ten a minute, then each response takes a second", http, "After ten wrong tokens or passwords in a minute from one address, each further response takes a second", httpZh, "出示十次错误的 token 或密码后，每次响应都要等一秒"}},
	{"internal/web.stopWait internal/web.stopMore", "1s 2s", []string{limits, "others have a second; responses being written up to 3 s"}},
	{"internal/web/api.maxBatch", "1000", []string{limits, "`/v1` | 1,000", http, "takes up to 1,000 such jobs", httpZh, "最多 1000 个这样的任务", http, "up to 1,000 jobs;", httpZh, "| 最多 1000 个任务；"}},
	{"internal/web/api.keyWindow", "24h0m0s", []string{limits, "remembered for 24 h", http, "A key is remembered for 24 h", httpZh, "key 保留 24 小时", "internal/web/api/openapi.yaml", "A push of a key counts once in 24 h"}},
	{"internal/web/api.maxKey", "255", []string{limits, "1 to 255 characters", http, "up to 255 characters", httpZh, "最长 255 个字符"}},
	{"internal/web/delayqueue.maxDelay", "2147483647", []string{http, "`delay` is from 1 to 2147483647", httpZh, "`delay` 从 1 到 2147483647"}},
	{"internal/web/delayqueue.maxTTR", "86400", []string{http, "`ttr` from 1 to 86400", httpZh, "`ttr` 从 1 到 86400"}},
	{"internal/web/delayqueue.maxTopics", "256", []string{limits, "topics of one `/pop` | 256", "docs/migrating.md", "a /pop names up to 256\n  topics", "docs/migrating.zh-CN.md", "一次 /pop 最多 256 个主题"}},
	{"internal/web/delayqueue.defaultPollTimeout", "2m58s", []string{limits, "178 s by default", http, "178 s by default", httpZh, "默认 178 秒", "docs/migrating.md", "178 s in both", "docs/migrating.zh-CN.md", "都是 178 秒"}},
	{"internal/web/delayqueue.defaultMaxBody", "1048576", []string{limits, "`max_body`, 1 MiB by default", http, "1 MiB by default", httpZh, "默认 1 MiB"}},
	{"internal/web/dashboard.maxForm", "4194304", []string{limits, "1 MiB by default; 4 MiB"}},
	{"internal/web/dashboard.pageSize", "50", []string{http, "50 per page", httpZh, "每页 50 个"}},
	{"internal/web/dashboard.patience", "2s", []string{http, "two seconds per page at most", httpZh, "每页最多两秒"}},
	{"internal/inspect.MostTopics", "10000", []string{limits, "the 10,000 of each partition that were used last", http, "the 10,000 of each partition that were used last are counted"}},
	{"internal/inspect.snapshotTimeout", "3s", []string{metrics, "If Redis does not respond within 3 s they are missing"}},
	{"internal/inspect.maxNames", "100000", []string{http, "among 100,000", httpZh, "在 100,000 个之内"}},
	{"internal/inspect.partitionPatience", "1.5s", []string{metrics, "delays a scrape by 1.5 s"}},
	{"internal/web/metrics.overdueTimeout", "700ms", []string{metrics, "Redis has not responded within 0.7 s", metricsZh, "Redis 在 0.7 秒内没有响应"}},
	{"internal/web/metrics.passSlack", "10s", []string{metrics, "for timer_interval and 10 s", metricsZh, "timer_interval 加 10 秒"}},
	{"internal/web/metrics.maxLabel", "256", []string{metrics, "A topic of more than 256 bytes is among the others", metricsZh, "超过 256 字节的主题归入其余"}},
	{"internal/store.MaxPop", "250", []string{limits, "stored or taken by one script | 250 jobs or about 1 MiB"}},
	{"internal/store.maxChecked", "250", []string{own, "250 in one\nscript, once a second or each 10 s"}},
	{"internal/batch.maxItems", "250", []string{limits, "stored or taken by one script | 250 jobs"}},
	{"internal/store.MaxID internal/store.MaxTopic", "4096 1024", []string{limits, "ID; topic | 4 KiB; 1 KiB", wire, "an ID above 4 KiB and a topic above 1 KiB are refused", "docs/migrating.md", "An ID has 4 KiB at most, a topic 1 KiB", "docs/migrating.zh-CN.md", "ID 最长 4 KiB，主题最长 1 KiB"}},
	{"internal/store.MaxHeaders", "4096", []string{limits, "headers of a job as JSON; their names | 4 KiB; 128 bytes", http, "[up to 4 KiB]", httpZh, "[最多 4 KiB]"}},
	{"internal/store.MaxBody", "536870912", []string{limits, "body | 512 MiB"}},
	{"internal/fleet.MaxPartitions", "1024", []string{limits, "partitions | 1 to 1,024", "delayer.conf", "1 to 1024, see docs/scaling.md", "docs/delayer.zh-CN.conf", "分区数，1 到 1024"}},
	{"internal/store.AnnouncedWithin", "1m0s", []string{wire, "if that is within 60 s and before all others"}},
	{"internal/store.WaitingFor", "1h0m0s", []string{wire, "and `PEXPIRE` of an hour"}},
	{"parts/call.lua.MOST_DEAD", "100", []string{wire, "if nobody has heard, up to 100 times in one call"}},
	{"internal/store.RenewEvery internal/store.aliveSlack", "10s 5s", []string{limits, "15 s and its `timer_interval` | it no longer counts as alive", own, "and every 10 s if nothing\nbut passes has happened"}},
	{"internal/store.staleAfter", "1m0s", []string{own, "One that has not been renewed for a minute", limits, "a minute, or twice its interval if that is longer | it counts as gone"}},
	{"internal/store.historySlots", "360", []string{own, "*n* modulo 360"}},
	{"internal/store.historyStep", "10s", []string{own, "a field for each ten seconds of the last hour"}},
	{"internal/store.soon", "30m0s", []string{own, "that was to wait for more than half an hour"}},
	{"sweep.lua.IDLE", "3600", []string{"docs/guarantees.md", "until an hour after its last use"}},
	{"parts/lease.lua.LENT", "100", []string{"docs/guarantees.md", "exceeds 100 times the lease", wire, "shorter than a hundred times the lease"}},
	{"parts/lease.lua.UNTIL_SEEN", "120000", []string{"docs/guarantees.md", "nor within two minutes of its expiry", wire, "a bucket lasts for\ntwo minutes at least"}},
	{"parts/lease.lua.CLOCK_SLACK", "500", []string{"docs/guarantees.md", "the push comes within half a second"}},
	{"parts/limit.lua.MADE_UP_FOR", "250000", []string{"docs/guarantees.md", "a quarter second's worth"}},
	{"group.lua.KNOWN_FOR", "60000", []string{own, "it expires a minute after that is due"}},
	{"parts/text.lua.TEXT_KEPT", "60000", []string{own, "it expires after a minute, and counts only if"}},
	{"internal/store.RetryAfter", "5s", []string{"docs/guarantees.md", "Jobs of a broken queue are retried every 5 s"}},
	{"internal/wait.slowCheck", "10s", []string{"docs/guarantees.md", "or up to 10 s for a Client that has long found nothing"}},
	{"internal/wait.mostChecked", "1000", []string{"docs/guarantees.md", "waits for more than 1,000 queues"}},
	{"internal/wait.pollEvery internal/wait.mostPolled", "50ms 5000", []string{"docs/access.md", "polls every 50 ms; with more than 250 topics, each within a second"}},
	{"internal/wait.RetryWindow", "3s", []string{limits, "tolerates an outage of | 3 s", high, "a waiting BPop tolerates 3 s of it", highZh, "等待中的 BPop 最多容忍 3 秒中断"}},
	{"internal/wait.MaxBatches", "4", []string{limits, "four for polls, and one to hear of jobs"}},
	{"internal/wait.shunFor", "5s", []string{high, "and this one every 5 s", highZh, "每 5 秒轮询一次该节点"}},
	{"internal/redisconn.RetryWindow", "3s", []string{"docs/guarantees.md", "whose slot moves are retried for 3 s", high, "Each call is retried for 3 s", highZh, "每次调用在 3 秒内重试"}},
	{"internal/redisconn.askWithin", "1s", []string{"delayer.conf", "the timeouts (up to 1 s) apply to them, too", "docs/delayer.zh-CN.conf", "各超时（最长 1 秒）"}},
	{"internal/redisconn.watchEvery", "1s", []string{high, "A failover is noticed within a second", highZh, "故障转移会在一秒内被发现"}},
	{"server.takeOverAfter", "50ms", []string{limits, "50 ms after a job is due | another server moves its jobs", install, "the other does its work 50 ms later", installZh, "50 毫秒后接替"}},
	{"server.lastTurn", "10", []string{own, "it polls a tenth in each of these seconds"}},
	{"server.sweepAfter", "1m0s", []string{"docs/guarantees.md", "within about a minute of becoming the first"}},
	{"server.retrySpacing", "100µs", []string{"docs/guarantees.md", "every 5 s, at most 10,000 a second"}},
	{"server.minBatch", "100", []string{"docs/guarantees.md", "A batch has at least 100 jobs"}},
	{"server.maxMissed", "100", []string{"docs/go.md", "the last 100", "docs/guarantees.md", "once it is more than a minute late", "delayer.conf", "all (the last 100)", "docs/delayer.zh-CN.conf", "all（最后 100 个）", "delayer.conf", "or all (the last 100)"}},
	{"list_schedules.lua.LISTED", "150000", []string{own, "A list is valid for 150 s", limits, "150 s | the schedules of its configuration file", configuration, "counts for another 150 s", configurationZh, "150 秒"}},
	{"server.skipAfter", "1m0s", []string{"docs/go.md", "the last 100", "docs/guarantees.md", "once it is more than a minute late"}},
	{"server.occurrencesKept parts/schedule.lua.REMEMBERED", "10 10", []string{own, "the last ten occurrences", http, "the last ten and their lateness", httpZh, "最近十次及其延迟误差"}},
	{"server.repairAfter", "2s", []string{"docs/guarantees.md", "repair that within 2 s, or a minute", own, "every 2 s if there\nare schedules, else once a minute"}},
	{"server.remindAfter", "1m0s", []string{"docs/guarantees.md", "one a minute while it lasts"}},
	{"server.heartbeatEvery", "1s", []string{own, "An entry is written once a second at most"}},
}

// TestDocumentedConstants compares numbers in documents, help texts and samples with constants of the code, by package or script and name.
// If you change a constant, change the texts listed with it, in both languages.
func TestDocumentedConstants(t *testing.T) {
	all := constants(t)
	for _, c := range documented {
		values := strings.Fields(c.values)
		for i, name := range strings.Fields(c.names) {
			if got, ok := all[name]; !ok || got != values[i] {
				t.Errorf("%s is %q here, and %q in the code: change this, and what is said of it in %q", name, values[i], got, c.said)
			}
		}
		for i := 0; i < len(c.said); i += 2 {
			text, err := os.ReadFile(filepath.Join(project, c.said[i]))
			must(t, err)
			if !strings.Contains(unspaced(string(text)), unspaced(c.said[i+1])) {
				t.Errorf("%s does not say %q, which is %s, %s", c.said[i], c.said[i+1], c.names, c.values)
			}
		}
	}
}

// unspaced removes blanks and line breaks.
func unspaced(text string) string {
	return strings.Join(strings.Fields(text), "")
}

// constants returns the values of all constants in packages and scripts, durations in the form of time.Duration.
func constants(t *testing.T) map[string]string {
	t.Helper()
	all, err := readConstants()
	must(t, err)
	return all
}

var readConstants = sync.OnceValues(func() (map[string]string, error) {
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
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			folder := filepath.ToSlash(filepath.Dir(inProject(path)))
			folders[folder] = append(folders[folder], file)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	check := types.Config{Importer: times{}, IgnoreFuncBodies: true, Error: func(error) {}} // what else is imported is of no interest
	for folder, files_ := range folders {
		checked, _ := check.Check(folder, files, files_, nil)
		for _, name := range checked.Scope().Names() {
			if c, ok := checked.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() != constant.Unknown {
				all[folder+"."+name] = inWords(c)
			}
		}
	}
	return all, nil
})

func inWords(c *types.Const) string {
	if n, exact := constant.Int64Val(constant.ToInt(c.Val())); exact && c.Type().String() == "time.Duration" {
		return time.Duration(n).String()
	}
	return c.Val().ExactString()
}

// times imports as much of package time as constants need.
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

// scriptConstants adds the numeric constants of a script.
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
