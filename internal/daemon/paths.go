package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/config"
)

// ownPaths makes the shipped delayer.conf work for every user. Only root can write its paths. For other users it replaces
// them with the user's own paths, or with none. Paths that differ from the shipped ones stay. notes name the replaced
// paths.
func ownPaths(d *config.Delayer) (notes []string) {
	if os.Geteuid() == 0 {
		return nil
	}
	shipped := config.Default().Delayer
	for _, file := range []struct {
		name          string
		path, shipped *string
		places        []string
		try           func(path string) error
	}{
		{"PID file:\t", &d.PID, &shipped.PID, append(runtimeFolders(), stateFolders()...), tryPIDFile},
		{"Access log:\t", &d.AccessLog, &shipped.AccessLog, stateFolders(), tryFile},
		{"Error log:\t", &d.ErrorLog, &shipped.ErrorLog, stateFolders(), tryFile},
	} {
		if *file.path != *file.shipped {
			continue
		}
		why := file.try(*file.path)
		if why == nil {
			continue
		}
		place := "none"
		*file.path = ""
		for _, folder := range file.places {
			if path := filepath.Join(folder, filepath.Base(*file.shipped)); file.try(path) == nil {
				*file.path, place = path, path
				break
			}
		}
		notes = append(notes, fmt.Sprintf("%s%s (%v)", file.name, place, why))
	}
	return notes
}

// runtimeFolders returns folders for files that a reboot may delete: systemd's folder for the service, then the user's.
func runtimeFolders() []string {
	return append(serviceFolders("RUNTIME_DIRECTORY"), absoluteOnes(os.Getenv("XDG_RUNTIME_DIR"))...)
}

// stateFolders returns folders for persistent files: systemd's folder for the service's logs, then the user's.
func stateFolders() []string {
	folders := serviceFolders("LOGS_DIRECTORY")
	if runtime.GOOS == "windows" {
		local, _ := os.UserCacheDir()
		return append(folders, absoluteOnes(filepath.Join(local, "delayer"))...)
	}
	if state := absoluteOnes(os.Getenv("XDG_STATE_HOME")); len(state) > 0 {
		return append(folders, filepath.Join(state[0], "delayer"))
	}
	home, _ := os.UserHomeDir()
	return append(folders, absoluteOnes(filepath.Join(home, ".local", "state", "delayer"))...)
}

// serviceFolders returns the folders in a variable of systemd, which are separated by colons.
func serviceFolders(variable string) []string {
	return absoluteOnes(strings.Split(os.Getenv(variable), ":")...)
}

func absoluteOnes(folders ...string) []string {
	return slices.DeleteFunc(folders, func(folder string) bool { return !filepath.IsAbs(folder) })
}

// tryFile returns an error if the file could not be written, or created together with its folders. It changes nothing.
// An empty path stands for no file.
func tryFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return nil
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case err == nil:
		return tryAccess(path, false)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	folder := filepath.Dir(path)
	for info, err = os.Stat(folder); errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder); info, err = os.Stat(folder) {
		folder = filepath.Dir(folder)
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: folder, Err: syscall.ENOTDIR}
	}
	return tryAccess(folder, true)
}
