// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hubsecrets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leatdev/leat/internal/kit/durable"
)

const (
	// madeFile lists the sources that were made.
	madeFile = "authority/made"
	// temporary is the pattern of the names of files that are not complete.
	temporary = ".new-*"
)

// folder is the folder of a run, which holds its lock. Paths are those below it.
type folder struct {
	dir    string
	groups map[string]int
	fault  func(Step, string) error
	lock   io.Closer
	made   map[string]bool // the sources that a run before this one has made
	result Result
}

// openFolder creates the readers' folders, locks them, and removes the files that a killed run has
// left under temporary names.
func openFolder(p Params) (*folder, error) {
	f := &folder{dir: p.Dir, groups: p.Groups, fault: p.Fault, made: map[string]bool{}}
	if f.fault == nil {
		f.fault = func(Step, string) error { return nil }
	}
	for _, reader := range Readers {
		if err := os.MkdirAll(f.path(reader), 0o700); err != nil {
			return nil, f.failure(reader, err)
		}
		if err := f.settle(reader); err != nil {
			return nil, err
		}
	}
	var err error
	if f.lock, err = durable.Lock(f.path("authority/.lock")); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, f.failure("authority", err)
	}
	if err := f.clean(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *folder) clean() error {
	for _, reader := range Readers {
		left, err := filepath.Glob(filepath.Join(f.path(reader), temporary))
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.Remove(path); err != nil {
				return f.failure(reader, err)
			}
		}
	}
	list, _, err := f.read(madeFile)
	for name := range strings.Lines(list) {
		f.made[strings.TrimSpace(name)] = true
	}
	return err
}

func (f *folder) close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// read returns the content of a file without line ends at its end, as services read it. found is
// false if there is no such file.
func (f *folder) read(name string) (content string, found bool, err error) {
	text, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, f.failure(name, err)
	}
	return strings.TrimRight(string(text), "\r\n"), true, nil
}

// keep makes a file hold a content. One that holds it only gets its mode and its group.
func (f *folder) keep(name, content string) error {
	now, found, err := f.read(name)
	if err != nil {
		return err
	}
	if found && now == content {
		return f.settle(name)
	}
	return f.write(name, content)
}

// write makes a file, or replaces it, for its reader.
func (f *folder) write(name, content string) error {
	if err := f.fault(StepWrite, name); err != nil {
		return f.failure(name, err)
	}
	err := durable.Replace(f.path(name), temporary, func(file *os.File) error {
		_, err := fmt.Fprintln(file, strings.TrimRight(content, "\r\n"))
		return errors.Join(err, f.give(file.Name(), readerOf(name)), f.fault(StepName, name))
	})
	if err == nil {
		err = durable.SyncDir(filepath.Dir(f.path(name)))
	}
	if err != nil {
		return f.failure(name, err)
	}
	f.result.Written = append(f.result.Written, name)
	return nil
}

// settle gives a file or a folder that exists its mode and its group. An operator may have copied it
// here.
func (f *folder) settle(name string) error {
	if err := f.give(f.path(name), readerOf(name)); err != nil {
		return f.failure(name, err)
	}
	return nil
}

// give lets the group of a reader read a file, or enter a folder, that this process owns. A process
// needs no privilege to give its own files to a group of which it is a member.
func (f *folder) give(path, reader string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o400)
	if info.IsDir() {
		mode = 0o700
	}
	if group, ok := f.groups[reader]; ok {
		if err := os.Chown(path, -1, group); err != nil {
			return fmt.Errorf("%w: %d: %w", ErrGroup, group, err)
		}
		mode |= (mode & 0o500) >> 3 // the group may do what the owner may, except write
	}
	return os.Chmod(path, mode)
}

func readerOf(name string) string {
	reader, _, _ := strings.Cut(name, "/")
	return reader
}

// failure returns the error of a file.
func (f *folder) failure(name string, err error) error {
	kind := error(nil)
	switch {
	case errors.Is(err, ErrGroup), errors.Is(err, ErrDamaged), errors.Is(err, ErrLost):
	case errors.Is(err, durable.ErrLocked):
		err = ErrBusy
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = ErrFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = ErrNotPermitted
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok && kind != nil {
		err = path.Err // the path is named already
	}
	if kind != nil {
		err = fmt.Errorf("%w: %w", kind, err)
	}
	return &FileError{Path: f.path(name), Err: err}
}
