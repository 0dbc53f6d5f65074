// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"strings"
)

// List is a list of names as a comparable value. The empty string is the empty list. In JSON it is
// an array of strings.
type List string

// listEnd ends every element, so that a list of one empty name differs from the empty list.
const listEnd = "\n"

// NewList returns a list of the names, in their order. A line break within a name splits it; no
// name that [Definition.Validate] accepts has one.
func NewList(names []string) List {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name)
		b.WriteString(listEnd)
	}
	return List(b.String())
}

// Names returns the names, nil of an empty list.
func (l List) Names() []string {
	if l == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(l), listEnd), listEnd)
}

// MarshalJSON implements json.Marshaler.
func (l List) MarshalJSON() ([]byte, error) { return json.Marshal(l.Names()) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *List) UnmarshalJSON(data []byte) error {
	var names []string
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	*l = NewList(names)
	return nil
}
