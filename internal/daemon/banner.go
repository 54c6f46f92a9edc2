package daemon

const logo = `    ____       __
   / __ \___  / /___ ___  _____  _____
  / / / / _ \/ / __ ` + "`" + `/ / / / _ \/ ___/
 / /_/ /  __/ / /_/ / /_/ /  __/ /
/_____/\___/_/\__,_/\__, /\___/_/
                   /____/
`

// banner returns the text that a start prints, with one line per note at its end.
func banner(version, searched string, notes []string) string {
	text := logo + "Service:\t\tdelayer\nVersion:\t\t" + version + "\n"
	if searched != "" {
		text += "Configuration:\t" + searched + "\n"
	}
	for _, note := range notes {
		text += note + "\n"
	}
	return text
}
