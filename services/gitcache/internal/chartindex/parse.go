// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"context"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse reads an index. The error is a *FormatError, a *TooManyError, the source's, or the
// context's cause.
func Parse(ctx context.Context, s Source, p Params) (*Index, error) {
	if s.Size > MaxBytes {
		return nil, &FormatError{Why: fmt.Sprintf("has %d bytes; at most %d are read", s.Size, MaxBytes)}
	}
	c := newCollector(p)
	isObject, err := beginsWithBrace(s)
	if err != nil {
		return nil, err
	}
	parse := parseCut
	if isObject {
		parse = parseJSON
	}
	err = parse(s, c, func() error { return context.Cause(ctx) })
	if uncut, ok := err.(*uncutError); ok { //nolint:errorlint // only the two parsers make it, and bare
		if s.Size > maxWhole {
			return nil, &FormatError{Why: fmt.Sprintf("%s; an index of more than %d bytes has to be JSON, or YAML as `helm repo index` writes it", uncut.why, maxWhole)}
		}
		c = newCollector(p)
		err = parseWhole(s, c)
	}
	if err != nil {
		return nil, err
	}
	return c.index(), nil
}

// beginsWithBrace reports whether the text begins as JSON objects do.
func beginsWithBrace(s Source) (bool, error) {
	head := make([]byte, 512)
	n, err := s.ReadAt(head, 0)
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is bare
		return false, fmt.Errorf("read index: %w", err)
	}
	text := strings.TrimLeft(strings.TrimPrefix(string(head[:n]), byteOrderMark), " \t\r\n")
	return strings.HasPrefix(text, "{"), nil
}

// parseWhole decodes an index of YAML in one piece.
func parseWhole(s Source, c *collector) error {
	text, err := io.ReadAll(io.NewSectionReader(s, 0, s.Size))
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	// The entries stay nodes: a value of the wrong type then spoils nothing but its entry.
	var top struct {
		APIVersion string               `yaml:"apiVersion"`
		Entries    map[string]yaml.Node `yaml:"entries"`
	}
	if err := decode(text, &top); err != nil {
		return err
	}
	if err := checkAPIVersion(top.APIVersion); err != nil {
		return err
	}
	for name, list := range top.Entries {
		if err := addNode(c, name, "", &list); err != nil {
			return err
		}
	}
	return nil
}
