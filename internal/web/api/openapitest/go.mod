module github.com/mix-basic/delayer/internal/web/api/openapitest

go 1.25.0

replace github.com/mix-basic/delayer => ../../../../

require (
	github.com/getkin/kin-openapi v0.152.0
	github.com/mix-basic/delayer v0.0.0
)

require (
	github.com/go-openapi/jsonpointer v0.22.5 // indirect
	github.com/go-openapi/swag/jsonname v0.25.5 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/gorilla/mux v1.8.0 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	golang.org/x/text v0.14.0 // indirect
)
