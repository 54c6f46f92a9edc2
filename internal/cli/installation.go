package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mix-basic/delayer/internal/store"
)

// record is a line of an export of everything: a job, a dead letter, a schedule or an ID of Once, as store.Record has them, a limit or a pause.
type record struct {
	Kind   string          `json:"kind"`
	ID     text            `json:"id,omitzero"`
	At     time.Time       `json:"at,omitzero"`
	TTL    int64           `json:"ttl_ms,omitzero"` // 0: it is kept for ever
	Group  int64           `json:"group_ms,omitzero"`
	Fields map[string]text `json:"fields,omitzero"`

	Topic       text      `json:"topic,omitzero"`
	Concurrency int       `json:"concurrency,omitzero"`
	Rate        float64   `json:"rate,omitzero"`
	Burst       int       `json:"burst,omitzero"`
	Tag         text      `json:"tag,omitzero"`
	Until       time.Time `json:"until,omitzero"`
	Note        text      `json:"note,omitzero"`
}

const limitRecord, pauseRecord = "limit", "pause"

// text is any bytes. In JSON it is a string or, if it is not UTF-8, {"base64": "…"}.
type text string

type encodedText struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSONTo implements json.MarshalerTo.
func (t text) MarshalJSONTo(e *jsontext.Encoder) error {
	if utf8.ValidString(string(t)) {
		return e.WriteToken(jsontext.String(string(t)))
	}
	return json.MarshalEncode(e, encodedText{[]byte(t)})
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (t *text) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return json.UnmarshalDecode(d, (*string)(t))
	}
	var encoded encodedText
	err := json.UnmarshalDecode(d, &encoded)
	*t = text(encoded.Base64)
	return err
}

// exportAll prints everything as lines of JSON: limits and pauses first, so that they hold before there are jobs.
func (c *call) exportAll(ctx context.Context) error {
	f := c.fleet
	bar, n := newProgress(c.stderr), 0
	defer bar.end()
	put := func(r record) error {
		line, err := json.Marshal(r, json.Deterministic(true))
		if err == nil {
			err = c.write(ctx, string(line)+"\n")
		}
		n++
		bar.show(n, 0, fmt.Sprintf("exported %d", n))
		return err
	}
	limits, err := f.Stores[0].Limits(ctx)
	for _, topic := range slices.Sorted(maps.Keys(limits)) {
		if l := limits[topic]; err == nil {
			err = put(record{Kind: limitRecord, Topic: text(topic), Concurrency: l.Concurrency, Rate: l.Rate, Burst: l.Burst, Tag: text(l.Tag)})
		}
	}
	if err != nil {
		return err
	}
	pauses, err := f.Paused(ctx)
	for _, p := range pauses {
		if err == nil && !p.Since.IsZero() {
			err = put(record{Kind: pauseRecord, Topic: text(p.Topic), Until: p.Until, Note: text(p.Note)})
		}
	}
	if err != nil {
		return err
	}
	return f.EachRecord(ctx, func(r store.Record) error {
		fields := make(map[string]text, len(r.Fields))
		for name, value := range r.Fields {
			fields[name] = text(value)
		}
		return put(record{Kind: r.Kind, ID: text(r.ID), At: r.At, TTL: lifetime(r.TTL), Group: r.Group.Milliseconds(), Fields: fields})
	})
}

// lifetime is a time to live as a record has it: a job that ends within a millisecond is not kept for ever.
func lifetime(left time.Duration) int64 {
	if left < 0 {
		return 0
	}
	return max(left.Milliseconds(), 1)
}

// readRecord reads a line of an export of everything. It returns false for any other line, such as a job to push.
func readRecord(line []byte) (r record, is bool, err error) {
	err = json.Unmarshal(line, &r, json.RejectUnknownMembers(true))
	wrong := (*json.SemanticError)(nil)
	switch {
	case r.Kind == "" || errors.As(err, new(*jsontext.SyntacticError)):
		return record{}, false, nil
	case errors.As(err, &wrong):
		err = fmt.Errorf("%s: %w", strings.TrimPrefix(string(wrong.JSONPointer), "/"), cmp.Or(wrong.Err, fmt.Errorf("want no %s", wrong.JSONKind)))
	case err == nil:
		err = r.check()
	}
	return r, true, err
}

func (r *record) ofTopic() bool { return r.Kind == limitRecord || r.Kind == pauseRecord }

func (r *record) check() error {
	if r.ofTopic() {
		switch {
		case r.Topic == "" || len(r.Topic) > store.MaxTopic:
			return errors.New("topic: it is missing or too long")
		case r.Kind == limitRecord && r.limit() == (store.Limit{}):
			return errors.New("a limit without concurrency and rate")
		}
		return nil
	}
	stored := r.stored()
	return stored.Check()
}

func (r *record) limit() store.Limit {
	return store.Limit{Concurrency: r.Concurrency, Rate: r.Rate, Burst: r.Burst, Tag: string(r.Tag)}
}

func (r *record) stored() store.Record {
	s := store.Record{Kind: r.Kind, ID: string(r.ID), At: r.At, TTL: -1, Group: time.Duration(r.Group) * time.Millisecond, Fields: make(map[string]string, len(r.Fields))}
	if r.TTL > 0 {
		s.TTL = time.Duration(r.TTL) * time.Millisecond
	}
	for name, value := range r.Fields {
		s.Fields[name] = string(value)
	}
	return s
}
