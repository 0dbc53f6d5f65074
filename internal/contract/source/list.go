// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"fmt"
	"slices"
)

// List is a list of strings that can be compared, and so be part of a map's key. The zero List is
// empty. It is the list's JSON, and becomes a plain array where it is part of a document.
type List string

// NewList returns a List of the items.
func NewList(items []string) List {
	if len(items) == 0 {
		return ""
	}
	data, err := json.Marshal(items)
	if err != nil {
		return "" // strings always marshal
	}
	return List(data)
}

// Items returns the strings of the list; nil if it is empty.
func (l List) Items() []string {
	if l == "" {
		return nil
	}
	var items []string
	if json.Unmarshal([]byte(l), &items) != nil {
		return nil // NewList made it
	}
	return items
}

// MarshalJSON implements json.Marshaler.
func (l List) MarshalJSON() ([]byte, error) {
	if l == "" {
		return []byte("[]"), nil
	}
	return []byte(l), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *List) UnmarshalJSON(data []byte) error {
	var items []string
	if err := json.Unmarshal(data, &items); err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	*l = NewList(items)
	return nil
}

// paths returns the list with every path in its one spelling, rising, each once.
func (l List) paths() List {
	items := l.Items()
	for i, item := range items {
		items[i] = cleanFolder(item)
	}
	slices.Sort(items)
	return NewList(slices.Compact(items))
}
