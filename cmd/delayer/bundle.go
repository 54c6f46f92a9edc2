package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/doctor"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

const (
	partWait   = 5 * time.Second // for each part of a bundle; all are read at the same time
	mostOfPart = 4 << 20         // bytes of each file
)

// part is a file of a bundle. Its text is masked after everything has been read, because the mask knows all topics and
// addresses only then.
type part struct {
	name  string
	text  func(m *mask) string // nil: nothing could be read
	err   error                // the reason why it is missing or incomplete
	known []string             // harmless names for the mask
}

func beginBundle(f *flagSet) action {
	var bodies bool
	f.toggle("with-bodies", &bodies)
	return func(ctx context.Context, c *call) (reply, error) { return c.bundle(ctx, c.arguments[0], bodies) }
}

// bundle writes what somebody who helps needs to know into a new zip file. Every desktop opens a zip without another
// program, and one file of it can be read without unpacking the rest.
func (c *call) bundle(ctx context.Context, path string, bodies bool) (reply, error) {
	found, err := findConfiguration(c.options)
	if err != nil {
		return reply{}, err
	}
	if _, err := os.Lstat(path); err == nil {
		return reply{}, fail(exitUsage, fmt.Errorf("bundle: %s exists: want the name of a new file", path))
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".delayer-bundle-") // only for this user
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {       // the name is random
		err = fmt.Errorf("bundle: no file can be made in %s: %w", filepath.Dir(path), failed.Err)
	}
	if err != nil {
		return reply{}, fail(exitUsage, err)
	}
	defer os.Remove(file.Name()) // fails after a rename
	defer file.Close()
	parts := c.readParts(ctx, found)
	if ctx.Err() != nil {
		return reply{}, ctx.Err()
	}
	m := newMask(found.config, bodies)
	for _, p := range parts {
		m.know(p.known...)
	}
	text, missing := zipped(m, parts)
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = renameToNew(file.Name(), path)
	}
	if err != nil {
		return reply{}, fail(exitOutput, fmt.Errorf("bundle: %w", err))
	}
	line := fmt.Sprintf("wrote %s, %d bytes", path, len(text))
	if len(missing) > 0 {
		line += "\nnot or not wholly read: " + strings.Join(missing, ", ") + "; README.txt in it has the reasons"
	}
	return reply{text: line, json: view.Of("file", path, "bytes", len(text), "not_read", missing)}, nil
}

// renameToNew renames a file to a name that must not exist.
func renameToNew(from, to string) error {
	reserved, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(reserved.Close(), os.Rename(from, to))
	if err != nil {
		os.Remove(to)
	}
	return err
}

// readParts reads everything. What takes longer than partWait is missing.
func (c *call) readParts(ctx context.Context, found configuration) []part {
	quiet := *c
	quiet.arguments, quiet.json = nil, false
	readers := map[string]func(context.Context) []part{
		"doctor": func(ctx context.Context) []part { return []part{quiet.doctorPart(ctx, found)} },
		"redis":  quiet.nodeParts,
		"logs":   func(context.Context) []part { return logParts(found.config.Delayer) },
	}
	for name, run := range map[string]action{
		"stats": beginStats(newFlagSet(nil)), "topics": beginTopics(newFlagSet(nil)),
		"servers": runServers, "partitions": runPartitions, "config": runConfig,
	} {
		readers[name] = func(ctx context.Context) []part {
			r, err := run(ctx, &quiet)
			return []part{replyPart(name, r, err)}
		}
	}
	results := make(chan []part, len(readers))
	for name, read := range readers {
		go func() { results <- inPartWait(ctx, name, read) }()
	}
	var parts []part
	for range readers {
		parts = append(parts, <-results...)
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return parts
}

// inPartWait reads parts, and does not wait longer than partWait for what ignores its context.
func inPartWait(ctx context.Context, name string, read func(context.Context) []part) []part {
	ctx, cancel := context.WithTimeout(ctx, partWait)
	defer cancel()
	done := make(chan []part, 1)
	go func() { done <- read(ctx) }()
	select {
	case parts := <-done:
		return parts
	case <-endLater(ctx, time.Second).Done():
		return []part{{name: name, err: context.DeadlineExceeded}}
	}
}

// replyPart is the reply of a command as JSON.
func replyPart(name string, r reply, err error) part {
	p := part{name: name + ".json", err: err}
	o := r.json
	if r.rows != nil && err == nil {
		var list []view.Object
		for row, failed := range r.rows.list {
			list, p.err = append(list, row), cmp.Or(p.err, failed)
		}
		o = append(view.Of(r.rows.name, list), r.rows.more...)
	}
	if err != nil || o == nil {
		return p
	}
	if topics, is := o.Get("topics").([]view.Object); is { // a number in stats
		for _, t := range topics {
			p.known = append(p.known, textOf(t.Get("topic")))
		}
	}
	p.text = func(m *mask) string {
		var indented bytes.Buffer
		json.Indent(&indented, view.Encode(m.object(o)), "", "  ")
		return indented.String()
	}
	return p
}

// doctorPart is what delayer doctor prints.
func (c *call) doctorPart(ctx context.Context, found configuration) part {
	r, err := c.newDoctor(found).Examine(ctx, nil)
	return part{name: "doctor.txt", err: err, text: func(m *mask) string {
		list := make([]doctor.Finding, len(r.Findings))
		for i, f := range r.Findings {
			f.What, f.Evidence, f.Fix = m.text(f.What), m.text(f.Evidence), m.text(f.Fix)
			list[i] = f
		}
		r.Findings = list
		if err != nil {
			return findingsText(r) + "the examination ended early: " + m.errorText(err) + "\n"
		}
		return c.doctorText(r)
	}}
}

// zipped returns the archive, and the names of what is missing.
func zipped(m *mask, parts []part) (archive []byte, missing []string) {
	readme := fmt.Sprintf("What delayer bundle read at %s, with delayer %s (%s, %s/%s).\n", time.Now().Format(time.RFC3339), version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	readme += "Passwords and tokens are left out.\n"
	if !m.bodies {
		readme += "So are bodies and IDs of jobs, and whatever might be one: " + masked + " stands for them.\n"
	}
	missing = []string{}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, text string) {
		if len(text) > mostOfPart {
			text = text[:mostOfPart] + "\n(the rest is left out)\n"
		}
		w, _ := z.CreateHeader(&zip.FileHeader{Name: "delayer-bundle/" + name, Method: zip.Deflate, Modified: time.Now()})
		w.Write([]byte(text)) // a buffer takes everything
	}
	for _, p := range parts {
		if p.text != nil {
			add(p.name, p.text(m))
		}
		if p.err != nil {
			missing = append(missing, p.name)
			readme += fmt.Sprintf("not or not wholly read: %s: %s\n", p.name, m.reason(p.err))
		}
	}
	add("README.txt", readme)
	z.Close()
	return b.Bytes(), missing
}

// reason returns why something could not be read.
func (m *mask) reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", partWait)
	case store.Refused(err):
		return "Redis refuses: " + m.errorText(err)
	}
	return m.errorText(err)
}
