// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads documents from files, from the .yaml, .yml and .json files directly inside
// directories, and from stdin for "-". It reports the problems of all files together. An object
// that is described twice is a problem.
func Load(paths []string, stdin io.Reader) ([]*Document, error) {
	var documents []*Document
	var problems Problems
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := load(file, stdin)
			var wrong Problems
			if errors.As(err, &wrong) {
				problems = append(problems, wrong...)
			} else if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
		}
	}
	problems = append(problems, repeated(documents)...)
	if len(problems) > 0 {
		return nil, problems
	}
	return documents, nil
}

func load(file string, stdin io.Reader) ([]*Document, error) {
	if file == "-" {
		return Parse("stdin", stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	return Parse(file, f)
}

// expand returns path, or the document files in it if it is a directory.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(entry.Name()))) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read documents: %s holds no .yaml, .yml or .json file", path)
	}
	return files, nil
}

func repeated(documents []*Document) Problems {
	var problems Problems
	first := make(map[string]*Document, len(documents))
	for _, d := range documents {
		if before, again := first[d.ID()]; again {
			problems = append(problems, Problem{
				Position: d.Start, Field: "metadata.name",
				Message: fmt.Sprintf("%s is described twice; first at %s", d.ID(), before.Start),
			})
			continue
		}
		first[d.ID()] = d
	}
	return problems
}
