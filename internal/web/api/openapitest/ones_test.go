package openapitest

import (
	"encoding/json"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
)

// checkOnes checks the described groups of fields of which exactly one, or at most one, may be
// present. JSON Schema's own keywords (oneOf, not) make client generators produce poor code.
func checkOnes(schema *openapi3.Schema, body string) error {
	var value any
	if schema == nil || body == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		return err
	}
	return checkValue(schema, value)
}

func checkValue(schema *openapi3.Schema, value any) error {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if err := checkValue(schema.Items.Value, element); err != nil {
				return err
			}
		}
	case map[string]any:
		for extension, least := range map[string]int{"x-exactly-one": 1, "x-at-most-one": 0} {
			groups, _ := schema.Extensions[extension].([]any)
			for _, group := range groups {
				n := 0
				for _, name := range group.([]any) {
					if _, is := value[name.(string)]; is {
						n++
					}
				}
				if n < least || n > 1 {
					return fmt.Errorf("%s: there are %d of %v in %v", extension, n, group, value)
				}
			}
		}
		for name, of := range schema.Properties {
			if field, is := value[name]; is && of.Value != nil {
				if err := checkValue(of.Value, field); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
