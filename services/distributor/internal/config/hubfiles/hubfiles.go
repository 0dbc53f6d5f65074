// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hubfiles reads configuration from folders and environment variables that the operator of
// the hub has opened to it.
//
// Nothing outside a folder is read, whatever links are in it. An entry is of one state: of a volume
// of Kubernetes, which replaces a folder behind its files, that folder is opened once; any other
// folder is read until two readings agree.
package hubfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
)

const (
	// contentKey is the key of a file that is neither a folder nor JSON.
	contentKey = "content"
	// attempts is how often a folder is read until two readings agree.
	attempts = 6
	// Prefix begins the names of the environment variables that may be read.
	Prefix = "LEAT_CONFIG_"
	// separator separates a path and a key in the name of a variable.
	separator = "__"
	// stateLink is the link in a volume of Kubernetes that leads to the folder of its files' current
	// state. Kubernetes replaces the link when the state changes, and then removes the former folder.
	stateLink = "..data"
)

// Folder reads the files of a folder.
type Folder struct{ dir string }

var _ configs.Backend = (*Folder)(nil)

// OpenFolder returns the files of a folder, which may appear later.
func OpenFolder(dir string) *Folder { return &Folder{dir: dir} }

// Check implements configs.Backend.
func (f *Folder) Check(context.Context) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return errors.New("the folder of the hub's operator cannot be opened")
	}
	return root.Close()
}

// Close implements configs.Backend.
func (f *Folder) Close() error { return nil }

// Read implements configs.Backend.
func (f *Folder) Read(ctx context.Context, place string) (configs.Entry, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return configs.Entry{}, errors.New("the folder of the hub's operator cannot be opened")
	}
	defer func() { _ = root.Close() }() // it was only read
	var last map[string]secret.Text
	for range attempts {
		if err := ctx.Err(); err != nil {
			return configs.Entry{}, err
		}
		fields, err := fieldsAt(root, place)
		switch {
		case errors.Is(err, errChanging):
			continue
		case err != nil:
			return configs.Entry{}, err
		case last != nil && maps.Equal(last, fields):
			return configs.Entry{Fields: fields}, nil
		}
		last = fields
	}
	return configs.Entry{}, errChanging
}

// errChanging means that there is no state of which all files could be read.
var errChanging = errors.New("the files change while they are read")

// fieldsAt reads a folder or a file.
func fieldsAt(root *os.Root, place string) (map[string]secret.Text, error) {
	info, err := root.Stat(place)
	if err != nil {
		return nil, answerOf(err)
	}
	if info.IsDir() {
		return fieldsOf(root, place)
	}
	content, err := readFile(root, place, configs.MaxEntryBytes)
	if err != nil {
		return nil, err
	}
	if path.Ext(place) == ".json" {
		return configs.FieldsOfJSON(content)
	}
	return map[string]secret.Text{contentKey: secret.Text(content)}, nil
}

// fieldsOf reads the files of a folder, or of the current state of a volume of Kubernetes. The error
// is errChanging if another state took its place meanwhile.
func fieldsOf(root *os.Root, place string) (map[string]secret.Text, error) {
	link := path.Join(place, stateLink)
	state, err := root.OpenRoot(link)
	if errors.Is(err, fs.ErrNotExist) {
		return fieldsIn(root, place)
	}
	if err != nil {
		return nil, answerOf(err)
	}
	defer func() { _ = state.Close() }() // it was only read
	fields, err := fieldsIn(state, ".")
	was, wasErr := state.Stat(".")
	is, isErr := root.Stat(link)
	if wasErr != nil || isErr != nil || !os.SameFile(was, is) {
		return nil, errChanging
	}
	return fields, err
}

// fieldsIn reads the files of a folder. Names that begin with a dot are not keys: Kubernetes keeps
// what a volume's files lead to under such names.
func fieldsIn(root *os.Root, place string) (map[string]secret.Text, error) {
	folder, err := root.Open(place)
	if err != nil {
		return nil, answerOf(err)
	}
	defer func() { _ = folder.Close() }() // it was only read
	names, err := folder.Readdirnames(2 * configs.MaxFields)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New("the folder cannot be listed")
	}
	if len(names) >= 2*configs.MaxFields {
		return nil, fmt.Errorf("the folder has too many files; at most %d are allowed", configs.MaxFields)
	}
	fields, left := map[string]secret.Text{}, configs.MaxEntryBytes
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		info, err := root.Stat(path.Join(place, name))
		if err != nil {
			return nil, answerOf(err)
		}
		if info.IsDir() {
			continue
		}
		content, err := readFile(root, path.Join(place, name), left)
		if err != nil {
			return nil, err
		}
		fields[name], left = secret.Text(content), left-len(content)
	}
	return fields, nil
}

// readFile reads a regular file. Opening does not wait for the other end of a pipe.
func readFile(root *os.Root, place string, limit int) ([]byte, error) {
	file, err := root.OpenFile(place, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, answerOf(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, &configs.DeniedError{Detail: "it is not a regular file"}
	}
	content, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, errors.New("the file cannot be read")
	}
	if len(content) > limit {
		return nil, fmt.Errorf("the files have more than %d bytes together", configs.MaxEntryBytes)
	}
	return content, nil
}

// answerOf maps an error of the file system to an answer or a failure. It does not repeat where a
// link leads.
func answerOf(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &configs.NotFoundError{}
	case errors.Is(err, fs.ErrPermission):
		return &configs.DeniedError{Detail: "the hub may not read the file"}
	case strings.Contains(err.Error(), "escapes"):
		return &configs.DeniedError{Detail: "a link leads out of the folder"}
	}
	return errors.New("the file cannot be read")
}

// Environment reads environment variables.
type Environment struct{ variables []string }

var _ configs.Backend = (*Environment)(nil)

// NewEnvironment returns the variables, each as NAME=VALUE, whose names begin with Prefix.
func NewEnvironment(variables []string) *Environment {
	var own []string
	for _, variable := range variables {
		if strings.HasPrefix(variable, Prefix) {
			own = append(own, variable)
		}
	}
	return &Environment{variables: own}
}

// group is a path of variables: no other path leads to the same names.
var group = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Read implements configs.Backend.
func (e *Environment) Read(_ context.Context, place string) (configs.Entry, error) {
	if !group.MatchString(place) {
		return configs.Entry{}, &configs.NotFoundError{Detail: "a path of variables is one word of small letters, digits and single -"}
	}
	prefix := Prefix + strings.ToUpper(strings.ReplaceAll(place, "-", "_")) + separator
	fields := map[string]secret.Text{}
	for _, variable := range e.variables {
		name, value, _ := strings.Cut(variable, "=")
		if key, ok := strings.CutPrefix(name, prefix); ok && key != "" {
			fields[key] = secret.Text(value)
		}
	}
	if len(fields) == 0 {
		return configs.Entry{}, &configs.NotFoundError{Detail: "no variable begins with " + prefix}
	}
	return configs.Entry{Fields: fields}, nil
}

// Check implements configs.Backend.
func (e *Environment) Check(context.Context) error { return nil }

// Close implements configs.Backend.
func (e *Environment) Close() error { return nil }
