package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/pushrule"
	"github.com/mix-basic/delayer/internal/view"
)

// policies maps the values of if_exists.
var policies = map[string]client.Policy{
	"replace":      client.Replace(),
	"refuse":       client.Refuse(),
	"keep_earlier": client.KeepEarlier(),
	"keep_later":   client.KeepLater(),
	"follow":       client.Follow(),
}

// newJobOf converts a new job for the client, unless its fields contradict each other.
func newJobOf(job values, at jsontext.Pointer) (client.Item, error) {
	has := func(part string) bool { return part == "follow" && job["if_exists"] == "follow" || job.has(part) }
	name := func(part string) string { return part }
	if part, why := pushrule.Check(has, name); part != "" {
		if part == "follow" {
			part = "if_exists"
		}
		return client.Item{}, invalid.field(at.AppendToken(part), "%s", why)
	}
	d := client.Item{
		Message: client.Message{ID: get[string](job, "id"), Topic: get[string](job, "topic"), Body: get[string](job, "body"), Headers: get[map[string]string](job, "headers")},
		Delay:   get[time.Duration](job, "delay"),
		At:      get[time.Time](job, "due"),
	}
	if job.has("debounce") {
		if why := pushrule.Debounce(get[time.Duration](job, "debounce"), d.Delay); why != "" {
			return client.Item{}, invalid.field(at.AppendToken("debounce"), "%s", why)
		}
	}
	d.Options = optionsOf(job)
	return d, nil
}

// jobOptionsOf returns the options that the fields of a job or a schedule give.
func jobOptionsOf(job values) client.JobOptions {
	return client.JobOptions{MaxAttempts: int(get[int64](job, "max_attempts")), Lease: get[time.Duration](job, "lease"), ExpireAfter: get[time.Duration](job, "expire_after")}
}

// optionsOf returns the options that the fields of a push give.
func optionsOf(job values) (all []client.PushOption) {
	all = append(all, jobOptionsOf(job))
	option := func(name string, o client.PushOption) {
		if job.has(name) {
			all = append(all, o)
		}
	}
	option("replicas", client.Replicas(int(get[int64](job, "replicas")), cmp.Or(get[time.Duration](job, "replicas_timeout"), time.Second)))
	option("if_exists", client.IfExists(policies[get[string](job, "if_exists")]))
	option("once", client.IfExists(client.Once(get[time.Duration](job, "once"))))
	option("group", client.Group{Key: get[string](job, "group"), Max: int(get[int64](job, "group_max")), Quiet: get[time.Duration](job, "group_quiet"), Longest: get[time.Duration](job, "group_longest")})
	option("debounce", client.IfExists(client.Debounce(get[time.Duration](job, "debounce"))))
	return all
}

// ReadJob reads a job in the form of POST /v1/jobs.
func ReadJob(raw []byte) (client.Item, error) {
	job, err := decode(raw, newJob)
	var read client.Item
	if err == nil {
		read, err = newJobOf(job, "")
	}
	if wrong := (*problem)(nil); errors.As(err, &wrong) {
		err = errors.New(strings.TrimPrefix(strings.TrimPrefix(string(wrong.Field), "/")+": "+wrong.Detail, ": "))
	}
	return read, err
}

func (c *call) push() (any, error) {
	keyed, err := c.withKey()
	if err != nil {
		return nil, err
	}
	job, err := newJobOf(c.body, "")
	if err != nil {
		return nil, err
	}
	if keyed {
		job.Options = append(job.Options, client.IfExists(client.OnceAs(get[time.Duration](c.body, "once"), contentOf(c.body))))
	}
	var pushed client.Result
	if job.At.IsZero() {
		pushed, err = c.client.Push(c.context(), job.Message, job.Delay, job.Options...)
	} else {
		pushed, err = c.client.PushAt(c.context(), job.Message, job.At, job.Options...)
	}
	if isStored(err) {
		c.Pushed(job.Topic, 1)
	}
	status := http.StatusCreated
	switch {
	case err == nil:
	case pushed.Outcome != client.OutcomeRefused:
		return nil, err
	case keyed && !errors.Is(err, client.ErrReused): // a repetition: answered like the first push
		status = http.StatusOK
	default:
		refused := problemOf(ofPush(c.body, err))
		refused.id = job.ID
		if keyed {
			refused.Parameter = IdempotencyKey
		}
		return nil, refused
	}
	made := responseOf(view.Of("id", pushed.ID, "outcome", pushed.Outcome))
	made.status = status
	made.header = map[string]string{"Location": "/v1/jobs/" + Escape(pushed.ID)}
	return made, nil
}

// ofPush returns the error of a push as its client sees it.
func ofPush(job values, err error) error {
	if job.has("once") && errors.Is(err, client.ErrExists) && !errors.Is(err, client.ErrReused) {
		return exists.problem("a job with this ID exists, or an earlier push of it counts; nothing was changed")
	}
	return err
}

// isStored reports whether a push stored its job, perhaps with too few replicas.
func isStored(err error) bool { return err == nil || errors.As(err, new(*client.ReplicasError)) }

// Escape escapes a value for a path, including dots, which could be taken for path steps.
func Escape(value string) string {
	escaped := url.PathEscape(value)
	if strings.Trim(escaped, ".") == "" {
		escaped = strings.ReplaceAll(escaped, ".", "%2E")
	}
	return escaped
}

func (c *call) get() (any, error) {
	job, err := c.client.Get(c.context(), c.id())
	return view.Job(job), err
}

func (c *call) remove() (any, error) {
	remove := c.client.Remove
	if get[bool](c.query, unlessReserved.Name) {
		remove = c.client.RemoveUnlessReserved
	}
	was, err := remove(c.context(), c.id())
	if err == nil && was == "" {
		err = client.ErrNotFound
	}
	return view.Of("was", was), err
}

func (c *call) reschedule() (any, error) {
	return nil, c.client.Reschedule(c.context(), c.id(), get[time.Duration](c.body, "delay"))
}

// IdempotencyKey is the header that makes a push without an ID safe to repeat.
const IdempotencyKey = "Idempotency-Key"

// Lifetime and maximum size of a key.
const (
	keyWindow = 24 * time.Hour
	maxKey    = 255
)

// withKey uses the request's key, if any, as the job's ID and makes its push count once.
func (c *call) withKey() (keyed bool, err error) {
	keys := c.r.Header.Values(IdempotencyKey)
	if len(keys) == 0 {
		return false, nil
	}
	key, ok := readKey(keys[0])
	switch {
	case len(keys) > 1:
		return false, badRequest.parameter(IdempotencyKey, "it is given %d times", len(keys))
	case !ok:
		return false, invalid.parameter(IdempotencyKey, `want 1 to %d characters of ASCII without " and \, in double quotes or not`, maxKey)
	case c.body.has("id"):
		return false, invalid.parameter(IdempotencyKey, "the job has an id: want one of the two, and once for a push of an ID that counts once")
	}
	c.body["id"] = "key:" + key
	if !c.body.has("once") {
		c.body["once"] = keyWindow
	}
	return true, nil
}

// readKey reads a key in double quotes, as the header's draft requires, or without them, as many clients send
// it.
func readKey(value string) (key string, ok bool) {
	if inner, quoted := strings.CutPrefix(value, `"`); quoted {
		if value, quoted = strings.CutSuffix(inner, `"`); !quoted {
			return "", false
		}
	}
	isOther := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	return value, value != "" && len(value) <= maxKey && !strings.ContainsFunc(value, isOther)
}

// contentOf returns a canonical text of what a push says about its job, so that equal pushes compare equal
// however they are written.
func contentOf(job values) string {
	said := maps.Clone(job)
	delete(said, "replicas")
	delete(said, "replicas_timeout")
	for name, value := range said {
		switch value := value.(type) {
		case string:
			said[name] = []byte(value) // a []byte, because it may not be UTF-8
		case time.Time:
			said[name] = value.UTC()
		}
	}
	text, _ := json.Marshal(said) // sorted by name; never fails with the types of our fields
	return string(text)
}
