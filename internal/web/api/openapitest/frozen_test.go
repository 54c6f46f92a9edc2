package openapitest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var update = flag.Bool("update", false, "write testdata/frozen.txt anew")

// testdata/frozen.txt records the operations of /v1, their parameters, and the fields of requests and answers.
// More may be added; a change or a removal breaks somebody's program. After a deliberate change:
// go test -C internal/web/api/openapitest -run TestFrozen -update .
func TestFrozen(t *testing.T) {
	const file = "testdata/frozen.txt"
	now := frozen(description(t))
	if *update {
		check(t, os.WriteFile(file, []byte(now), 0o644))
	}
	before, err := os.ReadFile(file)
	check(t, err)
	if string(before) == now {
		return
	}
	old, new := strings.Split(string(before), "\n"), strings.Split(now, "\n")
	for _, line := range old {
		if !slices.Contains(new, line) {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range new {
		if !slices.Contains(old, line) {
			t.Errorf("new: %s", line)
		}
	}
	t.Errorf("%s has changed", file)
}

// frozen returns a line for each parameter, body, answer and field.
func frozen(doc *openapi3.T) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			at := method + " " + path
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				add("%s parameter %s in %s: %s%s", at, p.Value.Name, p.Value.In, kindOf(p.Value.Schema), required(p.Value.Required))
			}
			if op.RequestBody != nil {
				for kind, content := range op.RequestBody.Value.Content {
					add("%s takes %s: %s", at, kind, kindOf(content.Schema))
				}
			}
			for status, answer := range op.Responses.Map() {
				add("%s answers %s", at, status)
				for kind, content := range answer.Value.Content {
					add("%s answers %s %s: %s", at, status, kind, kindOf(content.Schema))
				}
			}
		}
	}
	for name, schema := range doc.Components.Schemas {
		for _, part := range append(openapi3.SchemaRefs{schema}, schema.Value.AllOf...) {
			for field, of := range part.Value.Properties {
				add("%s.%s: %s%s", name, field, kindOf(of), required(slices.Contains(part.Value.Required, field)))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

func required(is bool) string {
	if is {
		return ", required"
	}
	return ""
}

// kindOf returns a schema's name or, without a name, its type, the fields of an object, and the values of an
// enumeration.
func kindOf(s *openapi3.SchemaRef) string {
	switch {
	case s == nil:
		return "any"
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	}
	text := strings.Join(s.Value.Type.Slice(), "|")
	if s.Value.Items != nil {
		text += " of " + kindOf(s.Value.Items)
	}
	if len(s.Value.Enum) > 0 {
		text += fmt.Sprint(" ", s.Value.Enum)
	}
	for _, one := range slices.Concat(s.Value.OneOf, s.Value.AnyOf, s.Value.AllOf) {
		text += " " + kindOf(one)
	}
	if s.Ref == "" && len(s.Value.Properties) > 0 {
		var fields []string
		for field, of := range s.Value.Properties {
			fields = append(fields, field+": "+kindOf(of))
		}
		slices.Sort(fields)
		text += " {" + strings.Join(fields, ", ") + "}"
	}
	return text
}
