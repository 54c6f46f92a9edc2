package daemon

import (
	"cmp"
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
	"github.com/mix-basic/delayer/internal/exit"
)

// CheckConfiguration implements --check-config: it tests all of a start but Redis, and changes nothing. It returns what is to be printed,
// also with an error, which warnings may explain.
func CheckConfiguration(o Options) (text string, err error) {
	found, err := FindConfiguration(o)
	if err != nil {
		return "", err
	}
	var warnings strings.Builder
	found.PrintWarnings(&warnings)
	c := found.Config
	notes := ownPaths(&c.Delayer)
	_, wrongFile := poolOptions(c.Redis)
	_, wrongPair := serverTLS("http", c.HTTP.TLSCert, c.HTTP.TLSKey, nil)
	inUse, cannotListen := tryListen(c.HTTP)
	if err := errors.Join(wrongFile, wrongPair, tryPaths(c.Delayer), cannotListen); err != nil {
		return warnings.String(), exit.With(exit.Usage, err)
	}
	if pid := runningInstance(c.Delayer.PID); pid > 0 {
		notes = append(notes, fmt.Sprintf("Note: the service is running, PID: %d", pid))
	} else if inUse != nil {
		notes = append(notes, fmt.Sprintf("Note: %v", inUse))
	}
	notes = append(notes, fmt.Sprintf("%s: the configuration is good\n", cmp.Or(o.Configuration, found.from)))
	return warnings.String() + strings.Join(notes, "\n"), nil
}

// WrongPaths returns the errors of the files that a start can't write.
func (c Configuration) WrongPaths() error {
	ownPaths(&c.Delayer)
	return tryPaths(c.Delayer)
}

func tryPaths(d config.Delayer) error {
	return errors.Join(named("delayer.pid", tryPIDFile(d.PID)),
		named("delayer.access_log", tryFile(d.AccessLog)), named("delayer.error_log", tryFile(d.ErrorLog)))
}

func named(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// tryListen listens briefly. An address in use is no mistake in the configuration.
func tryListen(h config.HTTP) (inUse, err error) {
	if h.Listen == "" {
		return nil, nil
	}
	l, err := listenTCP(h.Listen)
	if err == nil {
		return nil, l.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return err, nil
	}
	return nil, err
}

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
