package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// outcome returns the error of a method that is called with zero arguments, or its panic. tells reports whether the
// method returns an error.
func outcome(method reflect.Value, ctx context.Context) (err error, tells bool) {
	defer func() {
		if value := recover(); value != nil {
			err, tells = fmt.Errorf("panic: %v", value), true
		}
	}()
	args := make([]reflect.Value, 0, method.Type().NumIn())
	for i := range method.Type().NumIn() {
		arg := reflect.Zero(method.Type().In(i))
		switch {
		case method.Type().IsVariadic() && i == method.Type().NumIn()-1:
			continue
		case i == 0 && ctx != nil && arg.Type() == reflect.TypeFor[context.Context]():
			arg = reflect.ValueOf(ctx)
		}
		args = append(args, arg)
	}
	results := method.Call(args)
	for _, r := range results {
		switch value := r.Interface().(type) {
		case error:
			return value, true
		case iter.Seq2[client.JobInfo, error]:
			for _, err = range value {
			}
			return err, true
		}
		tells = tells || r.Type() == reflect.TypeFor[error]()
	}
	return nil, tells
}

// Each call returns ErrInvalid on a nil or zero Client or Delivery, on Schedules of one, and for zero arguments. The test calls all methods,
// so it covers future ones.
func TestNothingToCall(t *testing.T) {
	pool := &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		t.Error("Redis was asked")
		return nil, errors.New("no Redis")
	}}
	for name, c := range map[string]struct {
		on    any
		close bool // Close works nevertheless
	}{
		"nil Client":         {on: (*client.Client)(nil)},
		"zero Client":        {on: new(client.Client)},
		"nil Delivery":       {on: (*client.Delivery)(nil)},
		"zero Delivery":      {on: new(client.Delivery)},
		"Delivery of nil":    {on: (*client.Client)(nil).Delivery("t", "a", 1)},
		"Delivery of zero":   {on: new(client.Client).Delivery("t", "a", 1)},
		"Schedules of nil":   {on: (*client.Client)(nil).Schedules()},
		"Schedules of zero":  {on: new(client.Client).Schedules()},
		"zero Schedules":     {on: new(client.Schedules)},
		"Client, of nothing": {clienttest.On(pool), true},
	} {
		value := reflect.ValueOf(c.on)
		for i := range value.NumMethod() {
			method := value.Type().Method(i).Name
			if file, _ := runtime.FuncForPC(value.Type().Method(i).Func.Pointer()).FileLine(0); strings.HasSuffix(file, "_test.go") {
				continue
			}
			err, tells := outcome(value.Method(i), nil)
			switch {
			case method == "Close" && c.close:
				if err != nil {
					t.Errorf("%s: Close: %v", name, err)
				}
			case tells && !errors.Is(err, client.ErrInvalid) && !(name == "Client, of nothing" && errors.Is(err, client.ErrClosed)):
				t.Errorf("%s: %s: %v, want ErrInvalid", name, method, err)
			case err != nil && !strings.HasPrefix(err.Error(), "delayer: "):
				t.Errorf("%s: %s: %v, want one with the operation in front", name, method, err)
			}
		}
	}
}
