// Package view describes what operators see as JSON objects: jobs, topics, pauses, schedules, servers and so on. /v1 and
// the command line show the same objects.
package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// Object is a JSON object that keeps the order of its members.
type Object []Member

// Member is a name and its value.
type Member struct {
	Name  string
	Value any
}

// Of makes an Object of names and values in turn, see Put.
func Of(pairs ...any) (o Object) {
	o.Put(pairs...)
	return o
}

// Put adds names and values in turn. Times have microseconds, like Redis's clock, and are left out if zero. Durations become
// seconds. Negative values mean unknown or endless and become null. A text that is not UTF-8 is added as base64 under
// name + "_base64".
func (o *Object) Put(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		o.put(pairs[i].(string), pairs[i+1])
	}
}

func (o *Object) put(name string, value any) {
	unknown := false
	switch v := value.(type) {
	case string:
		if !utf8.ValidString(v) {
			name, value = name+"_base64", []byte(v)
		}
	case time.Time:
		if v.IsZero() {
			return
		}
		value = v.UTC().Truncate(time.Microsecond)
	case time.Duration:
		value, unknown = v.Seconds(), v < 0
	case int:
		unknown = v < 0
	case int64:
		unknown = v < 0
	}
	if unknown {
		value = nil
	}
	*o = append(*o, Member{name, value})
}

// PutIfAny adds a value unless it is zero.
func (o *Object) PutIfAny(name string, value any) {
	if !reflect.ValueOf(value).IsZero() {
		o.Put(name, value)
	}
}

// Headers adds a job's headers, if it has any.
func (o *Object) Headers(headers map[string]string) {
	if len(headers) > 0 {
		o.Put("headers", headers)
	}
}

// Get returns the value of a name, also if it is given as base64, and nil if there is none.
func (o Object) Get(name string) any {
	for _, m := range o {
		if m.Name == name || m.Name == name+"_base64" {
			return m.Value
		}
	}
	return nil
}

// TextOf returns the text of that name, also if it is given as base64.
func (o Object) TextOf(name string) string {
	switch text := o.Get(name).(type) {
	case string:
		return text
	case []byte:
		return string(text)
	}
	return ""
}

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), m.Name...), '"', ':')
		b = append(b, bytes.TrimSuffix(Encode(m.Value), []byte("\n"))...)
	}
	return append(b, '}'), nil
}

// Encode returns v as a line of JSON.
func Encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // v consists of texts, numbers, times and lists only
	}
	return b.Bytes()
}

// Read reads a JSON object in the order of its members. Members named …_base64 become bytes, numbers json.Number, and lists []any.
func Read(text []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readValue(d)
	o, is := v.(Object)
	if err == nil && !is {
		err = errors.New("it is no object")
	}
	return o, err
}

func readValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := Object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := readValue(d)
			if err != nil {
				return nil, err
			}
			member := Member{Name: fmt.Sprint(name), Value: value}
			if text, is := value.(string); is && strings.HasSuffix(member.Name, "_base64") {
				if member.Value, err = base64.StdEncoding.DecodeString(text); err != nil {
					return nil, err
				}
			}
			o = append(o, member)
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := readValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}
