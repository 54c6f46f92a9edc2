package config

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

const fileName = "delayer.conf"

// Search looks for delayer.conf in the current directory, the executable's
// folder, the delayer folder of os.UserConfigDir, /etc/delayer and /etc, and
// returns the first that exists. An empty path means that there is none. tried
// is every place looked at, in order, the path found included.
//
// A file that is seen but can't be read is found: Load then says what is wrong
// with it, where going on to the next place would hide that. One in a folder that
// can't be entered is not: a service often runs with somebody else's home.
func Search() (path string, tried []string) { return search(places()) }

func search(places []string) (path string, tried []string) {
	for _, place := range places {
		if slices.ContainsFunc(tried, func(t string) bool { return absolute(t) == absolute(place) }) {
			continue
		}
		tried = append(tried, place)
		if _, err := os.Stat(place); err == nil {
			return place, tried
		}
	}
	return "", tried
}

func places() []string {
	places := []string{fileName}
	if executable, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(executable), fileName))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(dir, "delayer", fileName))
	}
	if runtime.GOOS != "windows" {
		places = append(places, "/etc/delayer/"+fileName, "/etc/"+fileName)
	}
	return places
}
