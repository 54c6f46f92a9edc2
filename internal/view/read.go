package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

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
