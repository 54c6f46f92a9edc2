//go:build !windows

package main

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// With sentinels or a cluster, no configured address shows where Redis is: the banner and the dashboard show the servers that the
// daemon uses, and the current master.
func TestWhereRedisIs(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	master := redistest.Start(t)
	sentinel, away := redistest.StartSentinel(t, master, 1), redistest.Nobody(t)
	asked := "m, as sentinels " + away + ", " + sentinel.Addr + " say"
	cluster := redistest.StartCluster(t)
	nodes := strings.Join(cluster.Addrs(), ", ")
	for name, test := range map[string]struct {
		lines        []string
		banner, page string
	}{
		"sentinels": {
			[]string{"sentinel_master = m", "sentinels = " + away + ", " + sentinel.Addr},
			"Redis:\t\t" + asked + ": now at " + master.Addr + "\n",
			"Master m, found by sentinels " + away + ", " + sentinel.Addr + ": now at \u2068" + master.Addr + "\u2069",
		},
		"a cluster": {[]string{"partitions = 4", "cluster = " + nodes}, "Redis:\t\tcluster " + nodes + "\n", "Cluster, found through " + nodes},
		"no sentinel answers": {
			[]string{"sentinel_master = m", "sentinels = " + away}, "Redis:\t\tm, as sentinels " + away + " say\n", "",
		},
	} {
		s := newSite(t, redistest.Nobody(t), append(test.lines, "[http]", "listen = 127.0.0.1:0")...)
		p := s.start(t)
		url := urlOf(p)
		if banner := p.stdout.String(); !strings.Contains(banner, "\n"+test.banner) {
			t.Errorf("%s: %s, want %s", name, banner, test.banner)
		}
		if status, page := get(t, http.DefaultClient, url+"/"); !strings.Contains(html.UnescapeString(page), `<p id="where">`+test.page+`</p>`) && test.page != "" {
			t.Errorf("%s: the dashboard says %d, %s", name, status, page)
		}
	}
}
