package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// partitionPatience bounds the wait for one of several partitions, so that time is left for the others.
const partitionPatience = 1500 * time.Millisecond

// failures say why partitions cannot be read, by number; nil for those that can.
type failures []error

// gather reads a part from each partition that has not failed yet: see fleet.Each; the parts of the others are zero. It fails if all have failed.
func gather[T any](ctx context.Context, o *Inspector, failed failures, read func(ctx context.Context, i int, s *store.Store) (T, error)) ([]T, error) {
	parts := make([]T, len(failed))
	copy(failed, fleet.Each(o.fleet.Stores, func(i int) error {
		if failed[i] != nil {
			return failed[i]
		}
		return o.patiently(ctx, func(ctx context.Context) error {
			part, err := read(ctx, i, o.fleet.Stores[i])
			if err == nil {
				parts[i] = part
			}
			return err
		})
	}))
	return parts, failed.all()
}

// none returns the failures before anything was read.
func (o *Inspector) none() failures { return make(failures, len(o.fleet.Stores)) }

// patiently bounds the time for a partition if there are others.
func (o *Inspector) patiently(ctx context.Context, read func(context.Context) error) error {
	if len(o.fleet.Stores) == 1 {
		return inTime(ctx, read(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, partitionPatience, errImpatient)
	defer cancel()
	return inTime(ctx, read(ctx))
}

var errImpatient = fmt.Errorf("no response within %v: %w", partitionPatience, context.DeadlineExceeded)

// inTime returns err, or ctx's error if err only says that ctx has ended.
func inTime(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			<-ctx.Done() // its timer may fire slightly later than the connection's
		}
		return cmp.Or(context.Cause(ctx), err)
	}
	return err
}

// all returns why nothing can be read; nil if any partition can.
func (f failures) all() error {
	if slices.Contains(f, nil) {
		return nil
	}
	return f.any()
}

// away are the failures of partitions that do not answer. One with a broken key has others that can be read.
func (f failures) away() failures {
	away := slices.Clone(f)
	for i, err := range f {
		if store.KindOf(err) != store.NoAnswer {
			away[i] = nil
		}
	}
	return away
}

// any says which partitions cannot be read, and why; nil if all can.
func (f failures) any() error {
	var joined error
	for _, one := range f.causes() {
		err := one.Err
		if one.Where != "" {
			err = fmt.Errorf("%s: %w", one.Where, err)
		}
		if joined != nil {
			err = fmt.Errorf("%w; %w", joined, err)
		}
		joined = err
	}
	return joined
}

// numbers are the partitions that cannot be read.
func (f failures) numbers() (numbers []int) {
	for i, err := range f {
		if err != nil {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// Failure is why one or several partitions cannot be read.
type Failure struct {
	Where string // their names; empty if there is only one partition
	Err   error
}

// causes returns the failures, each reason once.
func (f failures) causes() (all []Failure) {
	numbers := map[string][]string{} // by reason
	for i, err := range f {
		if err == nil {
			continue
		}
		if numbers[err.Error()] == nil {
			all = append(all, Failure{Err: err})
		}
		numbers[err.Error()] = append(numbers[err.Error()], strconv.Itoa(i))
	}
	for i, one := range all {
		switch where := numbers[one.Err.Error()]; {
		case len(f) == 1:
		case len(where) == 1:
			all[i].Where = "partition " + where[0]
		default:
			all[i].Where = "partitions " + strings.Join(where, ", ")
		}
	}
	return all
}
