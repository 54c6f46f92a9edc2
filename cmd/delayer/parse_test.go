package main

import (
	"slices"
	"strings"
	"testing"
)

// Flags may stand before and after the arguments. Flags of all commands may also stand before the
// command.
func TestParse(t *testing.T) {
	type parsed struct {
		command, configuration, id string
		json                       bool
		arguments                  string
	}
	for line, want := range map[string]parsed{
		"":                                     {},
		"-c a":                                 {configuration: "a"},
		"--configuration=a":                    {configuration: "a"},
		"push t 5 b":                           {command: "push", arguments: "t 5 b"},
		"push --id 1 --json t 5 b":             {command: "push", arguments: "t 5 b", id: "1", json: true},
		"push t --id 1 5 b -json":              {command: "push", arguments: "t 5 b", id: "1", json: true},
		"push t 5 b --id 1 -c a":               {command: "push", arguments: "t 5 b", id: "1", configuration: "a"},
		"-c a push t 5 b":                      {command: "push", arguments: "t 5 b", configuration: "a"},
		"--json pop t":                         {command: "pop", arguments: "t", json: true},
		"-c a --json push --id 1 t 5 b":        {command: "push", arguments: "t 5 b", configuration: "a", id: "1", json: true},
		"push t 5 -- -b":                       {command: "push", arguments: "t 5 -b"},
		"push --json -- -t --id -c":            {command: "push", arguments: "-t --id -c", json: true},
		"push t 5 -":                           {command: "push", arguments: "t 5 -"},
		"bpop t":                               {command: "bpop", arguments: "t"},
		"bpop t 10":                            {command: "bpop", arguments: "t 10"},
		"remove 1 --configuration a --json":    {command: "remove", arguments: "1", configuration: "a", json: true},
		"--configuration a get --json=false 1": {command: "get", arguments: "1", configuration: "a"},
		"dead list t --json":                   {command: "dead list", arguments: "t", json: true},
		"-c a dead drop t 1":                   {command: "dead drop", arguments: "t 1", configuration: "a"},
		// Everything after a worker's program belongs to the program.
		"worker --json --topic t prog --json -c a": {command: "worker", arguments: "prog --json -c a", json: true},
		"worker --topic t -c a -- -prog --topic u": {command: "worker", arguments: "-prog --topic u", configuration: "a"},
	} {
		o, err := parse(strings.Fields(line))
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		got := parsed{configuration: o.configuration, id: o.given["id"], json: o.json, arguments: strings.Join(o.arguments, " ")}
		if o.command != nil {
			got.command = o.command.name
		}
		if got != want {
			t.Errorf("%q: got %+v, want %+v", line, got, want)
		}
	}
}

func TestParseKeepsArgumentsWhole(t *testing.T) {
	o, err := parse([]string{"push", "", "5", "a b\n--id 3"})
	if err != nil || !slices.Equal(o.arguments, []string{"", "5", "a b\n--id 3"}) {
		t.Fatalf("%q, %v", o.arguments, err)
	}
}
