// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	maxFile    = 16 << 20  // bytes of one file
	maxContent = 256 << 20 // bytes of all files that may hold objects of the tool
	maxFiles   = 200_000   // files that are looked at
	maxObjects = 100_000   // objects of one import
)

// Tool knows the objects of another tool.
type Tool struct {
	// Marks are texts of which every file with objects of the tool has one, such as "argoproj.io/".
	Marks []string
	// Also are texts of files with objects of others that the tool's objects refer to, such as "ConfigMap". Such a file
	// is left out silently if it cannot be read, because most of them are nothing of the tool.
	Also []string
	// Wants reports whether an object is one that the import reads.
	Wants func(o *unstructured.Unstructured) bool
}

// Read returns the objects of a tool in files, in folders with everything below them, and, for the path -, in the standard
// input. A file that names the tool and cannot be read has an entry of its own: it may be a template of something else.
func Read(ctx context.Context, tool Tool, paths []string, stdin io.Reader) (objects []Object, unread []Entry, err error) {
	r := &reader{tool: tool}
	for _, path := range paths {
		if path == "-" {
			if err := r.stream("standard input", stdin); err != nil {
				return nil, nil, err
			}
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path += string(filepath.Separator) // WalkDir follows no link, but the person named this one
		}
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return r.walk(path, name, entry)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return r.objects, r.unread, nil
}

// reader collects the objects of one import.
type reader struct {
	tool         Tool
	files, bytes int
	objects      []Object
	unread       []Entry
}

// walk reads a file that may hold objects. A file that the person named is read whatever its name is.
func (r *reader) walk(root, name string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		if entry.Name() == ".git" && name != root {
			return fs.SkipDir
		}
		return nil
	case !entry.Type().IsRegular() && name != root:
		return nil // a link leads to a file that is read by its own name, or out of the folder
	case name != root && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
		return nil
	}
	if r.files++; r.files > maxFiles {
		return fmt.Errorf("%s has more than %d files of YAML and JSON", root, maxFiles)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return r.stream(name, file)
}

// stream reads the documents of a file.
func (r *reader) stream(name string, from io.Reader) error {
	content, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	holds := func(mark string) bool { return bytes.Contains(content, []byte(mark)) }
	fail := r.fail
	if !slices.ContainsFunc(r.tool.Marks, holds) {
		if !slices.ContainsFunc(r.tool.Also, holds) {
			return nil
		}
		fail = func(string, string) {}
	}
	if len(content) > maxFile {
		fail(name, fmt.Sprintf("the file has more than %d MiB; split it, or read the objects from the cluster", maxFile>>20))
		return nil
	}
	if r.bytes += len(content); r.bytes > maxContent {
		return fmt.Errorf("the files have more than %d MiB together; import them in parts", maxContent>>20)
	}
	// One entry for each file is enough for a person to look at it.
	hasFailed := false
	failOnce := func(origin, reason string) {
		if bytes.Contains(content, []byte("{{")) {
			reason = "the file is a template; import what it renders to"
		}
		if !hasFailed {
			fail(origin, reason)
		}
		hasFailed = true
	}
	decoder := yamlv3.NewDecoder(bytes.NewReader(content))
	for {
		var node yamlv3.Node
		if err := decoder.Decode(&node); err != nil {
			if !errors.Is(err, io.EOF) {
				failOnce(name, "the file is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
			}
			return nil
		}
		if !isMapping(&node) {
			continue // a list of patches, for example, is not an object of the tool
		}
		origin := fmt.Sprintf("%s:%d", name, max(node.Content[0].Line, 1)) // of the object, not of the marker in front of it
		values, err := objectOf(&node)
		if err != nil {
			failOnce(origin, "Kubernetes does not read it: "+strings.TrimPrefix(err.Error(), "error converting YAML to JSON: yaml: "))
			continue
		}
		if err := r.take(&unstructured.Unstructured{Object: values}, origin); err != nil {
			return err
		}
	}
}

func isMapping(document *yamlv3.Node) bool {
	return len(document.Content) > 0 && document.Content[0].Kind == yamlv3.MappingNode
}

// fail notes that a file, or what begins at a line of it, cannot be read.
func (r *reader) fail(origin, reason string) {
	r.unread = append(r.unread, Entry{
		Object: Line(filepath.Base(origin)), Origin: Line(origin), Documents: []string{}, Notes: []Note{{Grade: Refused, Reason: Line(reason)}},
	})
}

// objectOf returns the values of a document as Kubernetes reads it, by way of JSON and as YAML 1.1: a value must be the one
// that the other tool has read.
func objectOf(node *yamlv3.Node) (values map[string]any, err error) {
	text, err := yamlv3.Marshal(node)
	if err == nil {
		err = yaml.Unmarshal(text, &values)
	}
	return values, err
}

// take keeps an object that the import reads, and those of a list.
func (r *reader) take(o *unstructured.Unstructured, origin string) error {
	if items, isList := o.Object["items"].([]any); isList && strings.HasSuffix(o.GetKind(), "List") {
		for _, item := range items {
			values, isObject := item.(map[string]any)
			if !isObject {
				continue
			}
			if err := r.take(&unstructured.Unstructured{Object: values}, origin); err != nil {
				return err
			}
		}
		return nil
	}
	if !r.tool.Wants(o) {
		return nil
	}
	if len(r.objects) == maxObjects {
		return fmt.Errorf("there are more than %d objects; import them in parts", maxObjects)
	}
	r.objects = append(r.objects, NewObject(o, Line(origin)))
	return nil
}
