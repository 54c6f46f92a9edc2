package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

const occurrenceFormat = "2006-01-02T15:04:05.999Z07:00"

func beginScheduleSet(f *flagSet) action {
	b := newFields()
	var headers map[string]string
	f.headers(&headers)
	f.texts(b, "zone", "missed", "overlap", "jitter", "lease")
	f.counts(b, "max-attempts")
	return func(ctx context.Context, c *call) (reply, error) {
		body, err := bodyOf(ctx, c.arguments[3])
		if err != nil {
			return reply{}, err
		}
		b.put("cron", "SPEC", c.arguments[1])
		b.put("topic", "TOPIC", c.arguments[2])
		b.put("body", "BODY", body)
		b.members.Headers(headers)
		o, err := c.ask(ctx, request{method: http.MethodPut, path: "/v1/schedules/{name}", body: b})
		if err != nil {
			return reply{}, err
		}
		zone, err := cron.Zone(b.members.TextOf("zone"))
		return reply{text: timeOf(o.Get("next")).In(zone).Format(occurrenceFormat), json: o}, err
	}
}

func beginScheduleNext(f *flagSet) action {
	var name string
	f.text("zone", &name)
	return func(_ context.Context, c *call) (reply, error) {
		const occurrences = 10
		spec, err := cron.Parse(c.arguments[0])
		if err != nil {
			return reply{}, exit.With(exit.Usage, err)
		}
		zone, err := cron.Zone(name)
		if err != nil {
			return reply{}, exit.With(exit.Usage, fmt.Errorf("--zone %q: want the name of a time zone, such as Europe/Berlin, or UTC", name))
		}
		var lines []string
		var list []time.Time
		at := time.Now().Truncate(time.Millisecond).In(zone)
		for range occurrences {
			if at = spec.Next(at); at.IsZero() {
				break
			}
			lines, list = append(lines, at.Format(occurrenceFormat)), append(list, at)
		}
		return reply{text: strings.Join(lines, "\n"), json: view.Of("next", list), safe: true}, nil
	}
}
