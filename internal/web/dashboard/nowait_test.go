package dashboard

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/web"
)

// TestNobodyWaitsForTheAnswer checks that a form is processed even if the browser leaves at once.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	f := start(t, web.Options{})
	send := func(path, form string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.site.URL, "http://"))
		check(t, err)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, len(form), form)
		conn.Close()
	}
	for n := range 50 {
		send("/ui/push", fmt.Sprintf("topic=t&id=%d&body=b&delay=1h", n))
	}
	eventually(t, "all jobs are stored", func() bool { return len(f.State().Buckets) == 50 })
	for n := range 50 {
		_, form, _ := strings.Cut(link("", "id", fmt.Sprint(n)), "?")
		send("/ui/act/remove", form)
	}
	eventually(t, "all jobs are removed", func() bool { return len(f.State().Buckets) == 0 })
}
