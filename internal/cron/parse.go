package cron

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
)

// Bounds of @every.
const (
	MinEvery = 10 * time.Millisecond
	MaxEvery = 10 * 365 * 24 * time.Hour
)

var short = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// field describes what one of the five fields may contain.
type field struct {
	name     string
	from, to int
	names    []string // names of from and the following numbers
	also     string   // what else it may contain
}

var fields = [5]field{
	{"minute", 0, 59, nil, ""},
	{"hour", 0, 23, nil, ""},
	{"day of the month", 1, 31, nil, ", L, LW or a working day such as 15W"},
	{"month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec"), ""},
	{"day of the week", 0, 7, strings.Fields("sun mon tue wed thu fri sat"), ", the last such as 5L, or the second such as 5#2"},
}

// Parse reads a spec:
//
//	minute hour day-of-month month day-of-week
//	@every 1h30m
//	@yearly (@annually), @monthly, @weekly, @daily (@midnight), @hourly
//
// A field is a list of numbers, ranges (1-5), and steps (*/10, 8-18/2, 5/15), or * (for days ? as well); months and weekdays have names
// (jan, mon), and 0 and 7 are both Sunday. A day of the month may be L, the last, 15W, the working day next to the 15th, or LW; a day of
// the week 5#2, the second Friday, or 5L, the last. An error names the field, the wrong part and its position.
func Parse(text string) (*Spec, error) {
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		return parseEvery(text, strings.TrimSpace(rest))
	}
	if strings.HasPrefix(text, "@") {
		long, ok := short[text]
		if !ok {
			return nil, fmt.Errorf("%q: want @every and a duration, @hourly, @daily, @weekly, @monthly or @yearly", text)
		}
		return Parse(long)
	}
	s := &Spec{fixed: true}
	places := word.FindAllStringIndex(text, -1)
	if len(places) != len(fields) {
		return nil, fmt.Errorf("%q: it has %d fields, want 5: minute, hour, day of the month, month, day of the week", text, len(places))
	}
	for i, at := range places {
		p := parser{fields[i], text, part{text[at[0]:at[1]], at[0]}}
		if err := p.parse(s, i); err != nil {
			return nil, err
		}
	}
	if s.match(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q: there is no such day", text)
	}
	return s, nil
}

func parseEvery(text, every string) (*Spec, error) {
	d, err := duration.Parse(every)
	p := parser{field{name: "the duration"}, text, part{every, strings.LastIndex(text, every)}}
	switch {
	case err != nil:
		return nil, p.wrong(p.part, "want one such as 90s or 1h30m")
	case d < MinEvery || d > MaxEvery:
		return nil, p.wrong(p.part, fmt.Sprintf("want %s at least, and %s at most", duration.Format(MinEvery), duration.Format(MaxEvery)))
	}
	return &Spec{every: d}, nil
}

// part is a part of a text with its position.
type part struct {
	text string
	at   int
}

var word = regexp.MustCompile(`[^ \t]+`)

// parser reads one field.
type parser struct {
	field
	spec string
	part
}

func (p parser) parse(s *Spec, place int) error {
	star := strings.ContainsAny(p.text, "*?") // anywhere, so the order of a list does not matter
	numbers := [...]*bits{&s.minutes, &s.hours, &s.days.inMonth, &s.months, &s.days.inWeek}[place]
	at := p.at
	for item := range strings.SplitSeq(p.text, ",") {
		item := part{item, at}
		at += len(item.text) + 1
		var some bits
		special, err := p.parseSpecial(&s.days, place, item)
		if !special {
			some, err = p.parseItem(item, place == 2 || place == 4)
		}
		if err != nil {
			return err
		}
		*numbers |= some
	}
	s.days.inWeek |= s.days.inWeek >> 7 // 7 is Sunday too
	switch place {
	case 0, 1:
		s.fixed = s.fixed && !star
	case 2:
		s.days.anyDay = star
	case 4:
		s.days.anyWeekday = star
	}
	return nil
}

// parseSpecial reads items that only days can have: L, LW, 15W, 5L, 5#2.
func (p parser) parseSpecial(d *days, place int, item part) (special bool, err error) {
	ofMonth, ofWeek, upper := place == 2, place == 4, strings.ToUpper(item.text)
	number, nth, hasNth := strings.Cut(item.text, "#")
	switch {
	case ofMonth && upper == "L":
		d.last = true
	case ofMonth && upper == "LW":
		d.lastWork = true
	case ofMonth && strings.HasSuffix(upper, "W"):
		n, err := p.numberBefore(item)
		d.nearest |= 1 << n
		return true, err
	case ofWeek && hasNth:
		n, err := p.number(part{number, item.at})
		if err == nil && (len(nth) != 1 || nth < "1" || nth > "5") {
			err = p.wrong(part{nth, item.at + len(number) + 1}, "want 1 to 5 after #")
		}
		if err != nil {
			return true, err
		}
		d.nth[nth[0]-'0'] |= 1 << (n % 7)
	case ofWeek && strings.HasSuffix(upper, "L"):
		n, err := p.numberBefore(item)
		d.lasts |= 1 << (n % 7)
		return true, err
	default:
		return false, nil
	}
	return true, nil
}

// numberBefore reads the number before the letter at the end of an item: 15W, 5L.
func (p parser) numberBefore(item part) (int, error) {
	end := len(item.text) - 1
	if end == 0 {
		return 0, p.wrong(item, fmt.Sprintf("want a day before it, as in 5%s", item.text))
	}
	return p.number(part{item.text[:end], item.at})
}

// parseItem reads a number, a range or all, with an optional step.
func (p parser) parseItem(item part, isDay bool) (some bits, err error) {
	text, stepText, hasStep := strings.Cut(item.text, "/")
	from, to, isRange := strings.Cut(text, "-")
	first, last, step := p.from, p.to, 1
	switch {
	case text == "*" || text == "?" && isDay:
	case isRange:
		if first, err = p.number(part{from, item.at}); err == nil {
			last, err = p.number(part{to, item.at + len(from) + 1})
		}
		if err == nil && first > last {
			err = p.wrong(part{text, item.at}, fmt.Sprintf("the range ends before it begins: want two, such as %s-%d,%d-%s", from, p.to, p.from, to))
		}
	case hasStep:
		first, err = p.number(part{text, item.at})
	default:
		if first, err = p.number(item); err != nil {
			err = fmt.Errorf("%w%s", err, p.also)
		}
		last = first
	}
	if err == nil && hasStep {
		step, err = strconv.Atoi(stepText)
		if err != nil || step < 1 || step > p.to {
			err = p.wrong(part{stepText, item.at + len(text) + 1}, fmt.Sprintf("want a step from 1 to %d", p.to))
		}
	}
	if err != nil {
		return 0, err
	}
	for n := first; n <= last; n += step {
		some |= 1 << n
	}
	return some, nil
}

func (p parser) number(item part) (int, error) {
	for i, name := range p.names {
		if strings.EqualFold(item.text, name) {
			return p.from + i, nil
		}
	}
	n, err := strconv.Atoi(item.text)
	if err != nil || n < p.from || n > p.to || len(item.text) > 2 || item.text[0] == '+' {
		want := fmt.Sprintf("want %d to %d", p.from, p.to)
		if p.names != nil {
			want += fmt.Sprintf(", or %s to %s", p.names[0], p.names[len(p.names)-1])
		}
		return 0, p.wrong(item, want)
	}
	return n, nil
}

func (p parser) wrong(item part, want string) error {
	return fmt.Errorf("%q, %s, %q at character %d: %s", p.spec, p.name, item.text, item.at+1, want)
}
