// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/internal/contract/document"
)

// Format is an output format.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats returns all formats, for messages.
func Formats() []string { return []string{string(Table), string(JSON), string(YAML)} }

// String, Set and Type make a Format a flag.
func (f *Format) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *Format) Set(text string) error {
	switch Format(text) {
	case Table, JSON, YAML:
		*f = Format(text)
		return nil
	default:
		return fmt.Errorf("want one of %s%s", strings.Join(Formats(), ", "), document.Suggest(text, Formats()))
	}
}

// Type implements pflag.Value.
func (f *Format) Type() string { return strings.Join(Formats(), "|") }

// items prints messages that are not documents: as JSON or YAML, or as rows.
func items[M proto.Message](w io.Writer, format Format, rows *grid, messages []M, cells func(M) []cell) error {
	switch format {
	case JSON:
		return document.WriteJSONItems(w, messages)
	case YAML:
		return document.WriteYAMLItems(w, messages)
	default:
	}
	table := make([][]cell, len(messages))
	for i, message := range messages {
		table[i] = cells(message)
	}
	return rows.write(w, table)
}
