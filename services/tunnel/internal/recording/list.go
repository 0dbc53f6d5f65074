// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"
)

const (
	// suffix ends the name of each recording's file; what precedes it is the id.
	suffix = ".cast"
	// maxID is more than any id has.
	maxID = 64
	// maxHeader is more than a first line has: a command is as long as the URI that it was in.
	maxHeader = 1 << 20
	// sweepInterval is how often old recordings are looked for.
	sweepInterval = 10 * time.Minute
)

// ErrNotFound means that there is no such recording.
var ErrNotFound = errors.New("there is no such recording")

// Entry is a recording that there is.
type Entry struct {
	Info

	// Began is when the session began, to the second.
	Began time.Time
	// Written is when the file was last written to: the last output of a session that is over.
	Written time.Time
	// Size is the size of the file, in bytes, as far as it has come.
	Size int64
}

// Filter chooses recordings. The zero value chooses all.
type Filter struct {
	Cluster string
	Subject string
	// From and Before bound when the session began: from the one on, and before the other. Zero is
	// no bound.
	From   time.Time
	Before time.Time
}

func (f Filter) chooses(e Entry) bool {
	return (f.Cluster == "" || f.Cluster == e.Cluster) && (f.Subject == "" || f.Subject == e.Subject) &&
		(f.From.IsZero() || !e.Began.Before(f.From)) && (f.Before.IsZero() || e.Began.Before(f.Before))
}

// ValidID reports whether an id can be a recording's. Such a one leads nowhere but to a file in the
// folder.
func ValidID(id string) bool {
	return id != "" && len(id) <= maxID && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// List returns the recordings of the folder that a filter chooses, in no order. It reads the first
// line of each file that can be one of them; other files are skipped.
func (s *Store) List(ctx context.Context, filter Filter) ([]Entry, error) {
	var found []Entry
	err := s.walk("list recordings", func(root *os.Root, id string, info fs.FileInfo) error {
		if info.ModTime().Before(filter.From) {
			return ctx.Err() // it was written to after it began
		}
		if e, ok := describe(root, id, info); ok && filter.chooses(e) {
			found = append(found, e)
		}
		return ctx.Err()
	})
	return found, err
}

// walk calls visit for each file of the folder that can be a recording by its name, until visit
// fails. It skips files that have gone meanwhile.
func (s *Store) walk(doing string, visit func(root *os.Root, id string, info fs.FileInfo) error) error {
	root, err := os.OpenRoot(s.params.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = root.Close() }()
	files, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	for _, file := range files {
		id, ok := strings.CutSuffix(file.Name(), suffix)
		info, err := file.Info()
		if !ok || !ValidID(id) || err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := visit(root, id, info); err != nil {
			return err
		}
	}
	return nil
}

// describe reads the first line of a recording.
func describe(root *os.Root, id string, info fs.FileInfo) (Entry, bool) {
	file, err := root.Open(id + suffix)
	if err != nil {
		return Entry{}, false
	}
	defer func() { _ = file.Close() }()
	line, err := bufio.NewReader(io.LimitReader(file, maxHeader)).ReadBytes('\n')
	var first header
	if err != nil || json.Unmarshal(line, &first) != nil || first.Leat.ID != id {
		return Entry{}, false
	}
	return Entry{Info: first.Leat, Began: time.Unix(first.Timestamp, 0).UTC(), Written: info.ModTime().UTC(), Size: info.Size()}, true
}

// Open returns a recording's file, which may still be written to. The caller closes it. It fails
// with [ErrNotFound] if the folder has no such recording.
func (s *Store) Open(id string) (io.ReadCloser, error) {
	if !ValidID(id) {
		return nil, ErrNotFound
	}
	file, err := os.OpenInRoot(s.params.Dir, id+suffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("open recording: %w", err)
	}
	return file, nil
}

// Run deletes recordings until ctx ends, once nothing was written to them for longer than the time
// they are kept. It returns at once where they are kept for ever.
func (s *Store) Run(ctx context.Context) {
	if s.params.KeepFor <= 0 {
		return
	}
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if deleted, err := s.Sweep(time.Now().Add(-s.params.KeepFor)); err != nil {
			s.params.Logger.WarnContext(ctx, "old recordings not deleted", slog.String("error", err.Error()))
		} else if deleted > 0 {
			s.params.Logger.InfoContext(ctx, "old recordings deleted", slog.Int("recordings", deleted))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep deletes recordings last written before since, except the recordings of sessions still
// active on this replica. It returns how many.
func (s *Store) Sweep(since time.Time) (deleted int, err error) {
	var failed []error
	err = s.walk("delete old recordings", func(root *os.Root, id string, info fs.FileInfo) error {
		if _, isRunning := s.running.Load(id); isRunning || !info.ModTime().Before(since) {
			return nil
		}
		if err := root.Remove(info.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("delete old recording: %w", err))
			return nil
		}
		deleted++
		return nil
	})
	return deleted, errors.Join(append(failed, err)...)
}
