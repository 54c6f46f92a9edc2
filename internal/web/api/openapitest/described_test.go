package openapitest

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/mix-basic/delayer/internal/web/api"
)

// description returns the parsed openapi.yaml.
func description(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../openapi.yaml")
	if err == nil {
		err = doc.Validate(t.Context(), openapi3.EnableExamplesValidation())
	}
	check(t, err)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Fatalf("it is OpenAPI %s", doc.OpenAPI)
	}
	return doc
}

// The description lists exactly the existing routes, their parameters and the fields of their
// bodies.
func TestRequestsAreDescribed(t *testing.T) {
	doc := description(t)
	described := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+path] = true
		}
	}
	for _, route := range api.Routes {
		name := route.Method + " " + route.Path
		if !described[name] {
			t.Errorf("%s is not described", name)
			continue
		}
		delete(described, name)
		item := doc.Paths.Value(route.Path)
		operation := item.GetOperation(route.Method)
		var parameters, headers []string
		for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
			if p.Value.In == openapi3.ParameterInHeader {
				headers = append(headers, p.Value.Name)
			} else {
				parameters = append(parameters, p.Value.Name)
			}
		}
		if name == "POST /v1/jobs" {
			expectSame(t, name+": headers", headers, []string{api.IdempotencyKey})
		} else {
			expectSame(t, name+": headers", headers, nil)
		}
		var known []string
		for _, p := range route.Query {
			known = append(known, p.Name)
		}
		for _, value := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(route.Path, -1) {
			known = append(known, value[1])
		}
		expectSame(t, name+": parameters", parameters, known)
		switch body := operation.RequestBody; {
		case body == nil:
			if route.Body != nil {
				t.Errorf("%s: the body is not described", name)
			}
		case !body.Value.Required:
			t.Errorf("%s: the body is not required", name)
		default:
			expectFields(t, name, body.Value.Content["application/json"].Schema.Value, route.Body)
		}
	}
	for name := range described {
		t.Errorf("%s is described, but does not exist", name)
	}
}

// expectFields compares the properties of a schema with the known fields.
func expectFields(t *testing.T, name string, schema *openapi3.Schema, fields api.Fields) {
	t.Helper()
	expectSame(t, name+": fields", slices.Collect(maps.Keys(schema.Properties)), slices.Collect(maps.Keys(fields)))
	if more := schema.AdditionalProperties.Has; more == nil || *more {
		t.Errorf("%s: further fields are described as allowed", name)
	}
	var must []string
	for field, of := range fields {
		if of.Required {
			must = append(must, field)
		}
	}
	described := slices.Clone(schema.Required)
	exactlyOne, _ := schema.Extensions["x-exactly-one"].([]any)
	for _, twins := range exactlyOne {
		for _, name := range twins.([]any) {
			described = append(described, name.(string))
		}
	}
	expectSame(t, name+": required fields", described, must)
	for field, of := range fields {
		if property := schema.Properties[field]; of.Elements != nil && property != nil {
			expectFields(t, name+"/"+field, property.Value.Items.Value, of.Elements)
		}
	}
}

func expectSame(t *testing.T, what string, described, known []string) {
	t.Helper()
	slices.Sort(described)
	known = slices.Sorted(slices.Values(known))
	if !slices.Equal(described, known) {
		t.Errorf("%s: described are %q, known are %q", what, described, known)
	}
}

// Each type of problem is described, with an example unless it occurs only within a batch.
func TestProblemsAreDescribed(t *testing.T) {
	doc := description(t)
	var types []string
	for _, value := range doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		types = append(types, value.(string))
	}
	known := api.Problems()
	expectSame(t, "types of problems", types, known)
	var examples []string
	for _, response := range doc.Components.Responses {
		media := response.Value.Content["application/problem+json"]
		if media == nil {
			continue
		}
		for name, example := range media.Examples {
			kind := example.Value.Value.(map[string]any)["type"].(string)
			if "urn:delayer:problem:"+name != kind {
				t.Errorf("example %s is one of %s", name, kind)
			}
			examples = append(examples, kind)
		}
	}
	expectSame(t, "examples of problems", examples, slices.DeleteFunc(known, func(kind string) bool { return strings.HasSuffix(kind, ":not-stored") }))
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				for media, content := range response.Value.Content {
					if len(content.Examples) == 0 && media != "application/yaml" {
						t.Errorf("%s %s: %s has no example", method, path, status)
					}
				}
			}
		}
	}
}
