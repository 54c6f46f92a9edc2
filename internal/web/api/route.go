package api

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// Route is an operation: a method and a path.
type Route struct {
	Method string
	Path   string      // with {id}, {topic} or {name} as placeholders
	Query  []Parameter // allowed parameters
	Body   Fields      // nil if there must be no body
	// serve handles a call. It returns a response, another value to be answered as JSON, or nil for success
	// without content.
	serve func(*call) (any, error)
}

// Query parameters.
var (
	dryRun  = flag("dry_run")
	cursor  = plain("cursor", "")
	wait    = plain("wait", "0")
	maxJobs = count("limit", defaultPage, inspect.MaxPage)
	pattern = sized("match", maxID, "a pattern, in which * stands for any text and ? for one character")
	match   = optional(pattern, "")

	anyState = oneOf("state", inspect.Ready, inspect.Reserved, inspect.Waiting)
	// most is how many jobs a request changes at most.
	most = count("limit", math.MaxInt32, math.MaxInt32)
	// manyJobs select jobs to change. The pattern is required: without one, all jobs might be meant by mistake.
	manyJobs       = []Parameter{pattern, optional(anyState, ""), most, dryRun}
	unlessReserved = flag("unless_reserved")
	// letters select dead letters to list.
	letters = []Parameter{optional(sized("reason", maxCause, "a reason"), ""), optional(sized("error", maxCause, "a part of an error"), ""),
		instant("after"), instant("before"), match, maxJobs, cursor}
)

// Fields used by several bodies.
var (
	delay       = period("delay", 0, store.MaxDelay)
	lease       = period("lease", time.Millisecond, store.MaxLease)
	maxAttempts = integer("max_attempts", 1, math.MaxInt32)

	newJob = join(text("id", maxID), required(text("topic", maxTopic), text("body", 0)), headers, delay, timestamp("due"), maxAttempts,
		lease, period("expire_after", time.Millisecond, store.MaxDelay),
		choice("if_exists", "replace", "refuse", "keep_earlier", "keep_later", "follow"),
		period("once", time.Millisecond, store.MaxDelay), period("debounce", time.Millisecond, store.MaxDelay),
		text("group", store.MaxGroupKey), integer("group_max", 1, math.MaxInt32),
		period("group_quiet", time.Millisecond, store.MaxDelay), period("group_longest", time.Millisecond, store.MaxDelay),
		integer("replicas", 1, store.MaxReplicas), period("replicas_timeout", time.Millisecond, store.MaxReplicasTimeout))

	// reference identifies a lease: a job's topic and token.
	reference = required(text("topic", maxTopic), integer("token", 1, math.MaxInt64))

	// deliveries are reserved jobs. They may be passed back as reserve returned them; other fields are
	// ignored.
	deliveries = required(list("deliveries", join(reference, required(text("id", maxID)),
		ignored("attempt", "max_attempts", "lease", "deadline", "late_by", "headers", "body", "body_base64"))))

	// selection selects dead letters of a topic.
	selection = join(texts("ids", maxBatch, maxID), text("reason", maxCause), text("error", maxCause), timestamp("after"), timestamp("before"), text("match", maxID), boolean("all"),
		integer("limit", 1, math.MaxInt32))
)

// Routes are all operations. openapi.yaml describes them, and a test compares the two.
var Routes = []Route{
	{"POST", "/v1/jobs", nil, newJob, (*call).push},
	{"POST", "/v1/jobs/batch", nil, required(list("jobs", newJob)), (*call).pushBatch},
	{"GET", "/v1/jobs", []Parameter{oneOf("state", inspect.Reserved, inspect.Waiting), match, maxJobs, cursor}, nil, (*call).browse},
	{"GET", "/v1/jobs/{id}", nil, nil, (*call).get},
	{"DELETE", "/v1/jobs/{id}", []Parameter{unlessReserved}, nil, (*call).remove},
	{"PATCH", "/v1/jobs/{id}", nil, required(delay), (*call).reschedule},

	{"POST", "/v1/reserve", []Parameter{wait}, join(required(texts("topics", maxTopics, maxTopic)), integer("max", 1, maxReserve), lease, integer("max_attempts", -1, math.MaxInt32)), (*call).reserve},
	{"POST", "/v1/ack", nil, deliveries, (*call).ackBatch},
	{"POST", "/v1/extend", nil, join(deliveries, required(lease)), (*call).extendBatch},
	{"POST", "/v1/jobs/{id}/ack", nil, reference, settle(ack)},
	{"POST", "/v1/jobs/{id}/retry", nil, join(reference, delay, line("error")), settle(retry)},
	{"POST", "/v1/jobs/{id}/release", nil, join(reference, delay), settle(release)},
	{"POST", "/v1/jobs/{id}/extend", nil, join(reference, required(lease)), settle(extend)},
	{"POST", "/v1/jobs/{id}/bury", nil, join(reference, line("error")), settle(bury)},

	{"GET", "/v1/topics", []Parameter{plain("contains", ""), count("limit", inspect.MaxPage, inspect.MaxPage), cursor}, nil, (*call).topics},
	{"GET", "/v1/topics/{topic}", nil, nil, (*call).oneTopic},
	{"GET", "/v1/topics/{topic}/jobs", []Parameter{anyState, match, maxJobs, cursor}, nil, (*call).browse},
	{"DELETE", "/v1/topics/{topic}/jobs", manyJobs, nil, (*call).removeMany},
	{"PATCH", "/v1/topics/{topic}/jobs", manyJobs, required(delay), (*call).rescheduleMany},
	{"POST", "/v1/topics/{topic}/pause", nil, join(period("for", time.Millisecond, store.MaxDelay), line("note"), boolean("unless_paused")), (*call).pause},
	{"POST", "/v1/topics/{topic}/throttle", nil, required(period("for", time.Millisecond, store.MaxDelay)), (*call).throttle},
	{"POST", "/v1/topics/{topic}/resume", nil, nil, (*call).resume},
	{"GET", "/v1/paused", nil, nil, (*call).paused},
	{"GET", "/v1/topics/{topic}/limit", nil, nil, (*call).limit},
	{"PUT", "/v1/topics/{topic}/limit", nil, limitFields, (*call).setLimit},
	{"DELETE", "/v1/topics/{topic}/limit", nil, nil, (*call).removeLimit},
	{"DELETE", "/v1/topics/{topic}/ready", []Parameter{most, dryRun}, nil, (*call).purge},
	{"GET", "/v1/forecast", []Parameter{spans}, nil, (*call).forecast},
	{"GET", "/v1/load", []Parameter{ofTopic, within}, nil, (*call).load},
	{"GET", "/v1/stats", []Parameter{withCounts}, nil, (*call).stats},
	{"GET", "/v1/servers", nil, nil, (*call).servers},
	{"GET", "/v1/partitions", nil, nil, (*call).partitions},

	{"GET", "/v1/schedules", nil, nil, (*call).schedules},
	{"PUT", "/v1/schedules/{name}", nil, newSchedule, (*call).setSchedule},
	{"PATCH", "/v1/schedules/{name}", nil, required(boolean("paused")), (*call).pauseSchedule},
	{"DELETE", "/v1/schedules/{name}", nil, nil, (*call).removeSchedule},
	{"POST", "/v1/schedules/{name}/run", nil, nil, (*call).runSchedule},

	{"GET", "/v1/dead/{topic}", letters, nil, (*call).dead},
	{"GET", "/v1/dead/{topic}/groups", []Parameter{count("limit", defaultLook, maxLook)}, nil, (*call).deadGroups},
	{"POST", "/v1/dead/{topic}/requeue", []Parameter{dryRun}, selection, (*call).requeue},
	{"POST", "/v1/dead/{topic}/drop", []Parameter{dryRun}, selection, (*call).drop},

	{"GET", "/v1/openapi.yaml", nil, nil, (*call).description},
}

// find returns the request's route and the values in its path.
func find(r *http.Request) (*Route, map[string]string, error) {
	var methods []string
	path := strings.Split(r.URL.EscapedPath(), "/")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range Routes {
		values, err := Routes[i].match(path)
		switch {
		case err != nil:
			return nil, nil, err
		case values == nil:
		case Routes[i].Method == method:
			return &Routes[i], values, nil
		default:
			methods = append(methods, Routes[i].Method)
			if Routes[i].Method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	if methods != nil {
		slices.Sort(methods)
		return nil, nil, &problem{kind: badMethod, allow: strings.Join(methods, ", ")}
	}
	return nil, nil, noRoute.problem("there is no such path; see /v1/openapi.yaml")
}

// match returns the values in the path, or nil if the path does not match.
func (r *Route) match(path []string) (map[string]string, error) {
	own := strings.Split(r.Path, "/")
	if len(path) != len(own) {
		return nil, nil
	}
	values := map[string]string{}
	for i, part := range own {
		name := strings.Trim(part, "{}")
		if name == part {
			if part != path[i] {
				return nil, nil
			}
			continue
		}
		value, _ := url.PathUnescape(path[i]) // cannot fail: the path comes from EscapedPath
		if value == "" {
			return nil, nil
		}
		if limit := limits[name]; len(value) > limit {
			return nil, invalid.parameter(name, "want 1 to %d bytes, percent-encoded", limit)
		}
		values[name] = value
	}
	return values, nil
}

// takes reports whether the route has the query parameter.
func (r *Route) takes(name string) bool {
	return slices.ContainsFunc(r.Query, func(p Parameter) bool { return p.Name == name })
}

// limits are the maximum sizes of path values in bytes.
var limits = map[string]int{"id": maxID, "topic": maxTopic, "name": store.MaxScheduleName}

// isDryRun reports whether the request only asks for a count.
func isDryRun(r *http.Request) bool {
	route, _, err := find(r)
	return err == nil && route.takes(dryRun.Name) && r.URL.Query().Get(dryRun.Name) == "true"
}
