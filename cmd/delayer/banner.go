package main

import (
	"fmt"
	"strings"
)

const logo = `    ____       __
   / __ \___  / /___ ___  _____  _____
  / / / / _ \/ / __ ` + "`" + `/ / / / _ \/ ___/
 / /_/ /  __/ / /_/ / /_/ /  __/ /
/_____/\___/_/\__,_/\__, /\___/_/
                   /____/
`

// banner is what a start prints, with notes of one line each at its end.
func banner(searched string, notes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sService:\t\tdelayer\nVersion:\t\t%s\n", logo, version)
	if searched != "" {
		fmt.Fprintf(&b, "Configuration:\t%s\n", searched)
	}
	for _, note := range notes {
		fmt.Fprintln(&b, note)
	}
	return b.String()
}
