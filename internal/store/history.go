package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

var historyScript = newScript("history")

const (
	// historyStep is the length of a Past, historySlots their number.
	historyStep  = 10 * time.Second
	historySlots = 360
)

// Past is the work of all servers in ten seconds of the last hour, as far as reported: servers report with each pass, at most once a
// second.
type Past struct {
	From, Until time.Time // by Redis's clock
	// Lateness covers the jobs that became ready; it has no Sum.
	Lateness Lateness
	// Acked is the number of jobs ever acknowledged by then; -1 if unknown.
	Acked int64
}

// MaxPastGap is the longest time between entries that belong together. Idle servers write less often than every ten seconds, too.
const MaxPastGap = time.Minute

// Moved returns how many jobs became ready per second.
func (p Past) Moved() float64 { return float64(p.Lateness.Jobs()) / p.Until.Sub(p.From).Seconds() }

// AckedSince returns how many jobs were acknowledged per second since the entry before; -1 if unknown.
func (p Past) AckedSince(before Past) float64 {
	since := p.Until.Sub(before.Until)
	if p.Acked < 0 || before.Acked < 0 || since > MaxPastGap {
		return -1
	}
	return max(float64(p.Acked-before.Acked), 0) / since.Seconds()
}

// History reads the last hour, the oldest entry first. It has no entries for times without a server, nor for the current ten seconds. Invalid
// entries are skipped.
func (s *Store) History(ctx context.Context) ([]Past, error) {
	return newCall(s, historyScript, arguments(0, s.keys.History()), historyOf).Do(ctx)
}

func historyOf(reply any) (all []Past, err error) {
	var now int64
	rest, err := scan(reply, &now)
	if err != nil {
		return nil, err
	}
	current := now / historyStep.Milliseconds()
	for _, entry := range rest {
		text, _ := entry.([]byte)
		if slot, past, ok := pastOf(string(text)); ok && slot < current && slot >= current-historySlots {
			all = append(all, past)
		}
	}
	slices.SortFunc(all, func(a, b Past) int { return cmp.Compare(a.From.Unix(), b.From.Unix()) })
	return all, nil
}

// pastOf reads an entry: "slot acked place:count,place:count,…".
func pastOf(text string) (slot int64, p Past, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return 0, Past{}, false
	}
	slot, err := strconv.ParseInt(parts[0], 10, 40)
	if err != nil || slot < 0 {
		return 0, Past{}, false
	}
	p.From = time.UnixMilli(slot * historyStep.Milliseconds())
	p.Until = p.From.Add(historyStep)
	if p.Acked, err = strconv.ParseInt(parts[1], 10, 64); err != nil || p.Acked < 0 {
		p.Acked = -1
	}
	if parts[2] == "" {
		return slot, p, true
	}
	for entry := range strings.SplitSeq(parts[2], ",") {
		place, count, _ := strings.Cut(entry, ":")
		i, err1 := strconv.Atoi(place)
		n, err2 := strconv.ParseInt(count, 10, 53)
		if err1 != nil || err2 != nil || i < 1 || i > len(p.Lateness.Counts) || n < 0 {
			return 0, Past{}, false
		}
		p.Lateness.Counts[i-1] = n
	}
	return slot, p, true
}
