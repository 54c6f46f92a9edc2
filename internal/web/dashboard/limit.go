package dashboard

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// fillLimit puts the limit into its form, unless that was just sent.
func (p *page) fillLimit(form url.Values, of store.Limit) {
	if p.r.PathValue("action") == "limit" {
		return
	}
	for _, name := range []string{"concurrency", "rate", "burst"} {
		form.Del(name)
	}
	if of.Concurrency > 0 {
		form.Set("concurrency", strconv.Itoa(of.Concurrency))
	}
	if of.Rate > 0 {
		form.Set("rate", duration.Rate(of.Rate))
		if of.Burst > 0 {
			form.Set("burst", strconv.Itoa(of.Burst))
		}
	}
	form.Set("tag", of.Tag)
}

// limit sets the limit that was typed in.
func (a *act) limit() (int, error) {
	concurrency, err := a.whole("concurrency")
	burst, wrongBurst := a.whole("burst")
	l := client.Limit{Concurrency: concurrency, Burst: burst, Tag: a.form.Get("tag")}
	if text := a.typed("rate"); text != "" {
		var wrongRate error
		if l.Rate, wrongRate = duration.ParseRate(text); wrongRate != nil {
			err = cmp.Or(err, error(&wrong{"wrong.rate", text, "rate"}))
		}
	}
	err = cmp.Or(err, wrongBurst)
	switch {
	case err != nil:
		return 0, err
	case l.Concurrency == 0 && l.Rate == 0:
		return 0, &wrong{"wrong.limit", visible(a.Topic), "concurrency"}
	case l.Burst > 0 && l.Rate == 0:
		return 0, &wrong{"wrong.burst_alone", a.typed("burst"), "burst"}
	}
	return oneUnless(a.client.SetLimit(a.ctx, a.Topic, l))
}

// LimitText is the limit in short, or – without a limit.
func (l language) LimitText(of store.Limit) string {
	var parts []string
	if of.Concurrency > 0 {
		parts = append(parts, l.T("limit.at_a_time", number(of.Concurrency)))
	}
	if of.Rate > 0 {
		parts = append(parts, l.RateText(of))
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}

func (l language) RateText(of store.Limit) string {
	text := duration.Rate(of.Rate)
	if of.Burst > 0 {
		text += ", " + l.T("limit.at_once", number(of.Burst))
	}
	return text
}

// slowedOf returns the paused and the limited topics: paused ones first, then those with most throttled jobs.
func slowedOf(s *state) (all []topicRow) {
	seen := map[string]bool{}
	for _, counts := range s.Topics {
		if t := rowOf(counts, s.Pauses); t.Pause != nil || t.IsLimited() {
			seen[t.Topic] = true
			all = append(all, t)
		}
	}
	for _, p := range s.Pauses {
		if !seen[p.Topic] { // a topic without jobs
			all = append(all, rowOf(inspect.TopicCounts{Topic: p.Topic}, s.Pauses))
		}
	}
	isPaused := func(t topicRow) int {
		if t.Pause != nil {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b topicRow) int {
		return cmp.Or(cmp.Compare(isPaused(b), isPaused(a)), cmp.Compare(b.Throttled, a.Throttled), strings.Compare(a.Topic, b.Topic))
	})
	return all
}
