// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ErrInconsistent is the error of a record that does not lead to the state it is undone from: the
// state is older than the record, or one of them was changed by other means.
var ErrInconsistent = errors.New("an audit record does not match the state after it")

// ObjectName names an object as records do.
type ObjectName struct{ Kind, Name string }

// Past is some objects of the catalog as they were at one moment: the labels, annotations and spec of
// each, without secrets. It begins as the present. Undoing the records since then, the newest first,
// leads back to an earlier moment. A field that shows a part of a secret, such as a proxy's URL, keeps
// the value of the present, because records do not have it. A Past is for one goroutine.
type Past struct {
	kinds   []string
	objects map[ObjectName]map[string]string
	lacking map[ObjectName]bool
}

// NewPast returns a Past of objects of the kinds, without any. Records of other kinds change nothing.
func NewPast(kinds ...string) *Past {
	return &Past{kinds: kinds, objects: map[ObjectName]map[string]string{}, lacking: map[ObjectName]bool{}}
}

// Put adds an object of the present by its document, as Params.Describe returns it.
func (p *Past) Put(name ObjectName, document []byte) error {
	values, err := valuesOf(document)
	if err != nil {
		return err
	}
	for path := range values {
		if strings.HasPrefix(path, secretsPrefix) {
			delete(values, path) // records have no value of it
		}
	}
	p.objects[name] = values
	return nil
}

// Names returns the names of the objects of a kind, sorted.
func (p *Past) Names(kind string) []string {
	var names []string
	for name := range p.objects {
		if name.Kind == kind {
			names = append(names, name.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Document returns the document of an object; nil if there was none.
func (p *Past) Document(name ObjectName) ([]byte, error) {
	values, ok := p.objects[name]
	if !ok {
		return nil, nil
	}
	return documentOf(values)
}

// IsLacking reports whether the object had fields at that moment of which no record tells.
func (p *Past) IsLacking(name ObjectName) bool { return p.lacking[name] }

// Undo takes the change of a record back. Records of refused calls, and of verbs that change no
// document, change nothing. An error that matches ErrInconsistent leaves the Past unusable.
func (p *Past) Undo(e Entry) error {
	if e.Outcome != OutcomeOK || !slices.Contains(p.kinds, e.Kind) {
		return nil
	}
	name := ObjectName{e.Kind, e.Name}
	_, exists := p.objects[name]
	switch e.Verb {
	case catalog.VerbCreate:
		if !exists {
			return fmt.Errorf("%w: %s %s was created and is not there", ErrInconsistent, e.Kind, e.Name)
		}
		delete(p.objects, name)
		delete(p.lacking, name)
		return nil
	case catalog.VerbDelete:
		if exists {
			return fmt.Errorf("%w: %s %s was deleted and is there", ErrInconsistent, e.Kind, e.Name)
		}
		p.objects[name] = map[string]string{}
	case catalog.VerbUpdate:
		if !exists {
			return fmt.Errorf("%w: %s %s was updated and is not there", ErrInconsistent, e.Kind, e.Name)
		}
	default:
		return nil
	}
	if e.Omitted > 0 {
		p.lacking[name] = true
	}
	return p.undoFields(name, e)
}

func (p *Past) undoFields(name ObjectName, e Entry) error {
	values := p.objects[name]
	for _, f := range e.Changes {
		if f.Secret {
			continue
		}
		if isCut(json.RawMessage(f.Path)) {
			p.lacking[name] = true
			continue
		}
		if now, has := values[f.Path]; has != (f.New != nil) || now != string(f.New) && !isCut(f.New) {
			if !p.lacking[name] {
				return fmt.Errorf("%w: %s of %s %s has another value", ErrInconsistent, f.Path, e.Kind, e.Name)
			}
		}
		if f.Old == nil {
			delete(values, f.Path)
		} else {
			values[f.Path] = string(f.Old)
		}
	}
	return nil
}

// Redo makes the change of a record again. It does not compare the record with the state before.
func (p *Past) Redo(e Entry) {
	name := ObjectName{e.Kind, e.Name}
	values, exists := p.objects[name]
	switch {
	case e.Outcome != OutcomeOK, !slices.Contains(p.kinds, e.Kind):
		return
	case e.Verb == catalog.VerbDelete:
		delete(p.objects, name)
		return
	case e.Verb == catalog.VerbCreate, e.Verb == catalog.VerbUpdate && !exists:
		values = map[string]string{}
		p.objects[name] = values
		p.lacking[name] = e.Verb == catalog.VerbUpdate
	case e.Verb != catalog.VerbUpdate:
		return
	}
	p.lacking[name] = p.lacking[name] || e.Omitted > 0
	for _, f := range e.Changes {
		switch {
		case f.Secret:
		case f.New == nil:
			delete(values, f.Path)
		default:
			values[f.Path] = string(f.New)
		}
	}
}

// isCut reports whether a value may be one that a record has only the beginning of.
func isCut(value json.RawMessage) bool { return bytes.Contains(value, []byte("…(cut: ")) }

// node is a value with its children.
type node struct {
	value  json.RawMessage
	fields map[string]*node
	items  map[int]*node
}

// documentOf is the inverse of valuesOf.
func documentOf(values map[string]string) ([]byte, error) {
	root := &node{}
	for path, value := range values {
		at := root
		for rest := path; rest != ""; {
			step, after, err := nextStep(rest)
			if err != nil {
				return nil, fmt.Errorf("path %.200q of an audit record: %w", path, err)
			}
			at, rest = at.below(step), after
		}
		at.value = json.RawMessage(value)
	}
	return root.encode()
}

// step is one part of a path: a key, or an index of a list.
type step struct {
	key    string
	index  int
	isItem bool
}

// nextStep returns the first part of a path, and the rest.
func nextStep(path string) (s step, rest string, err error) {
	switch {
	case strings.HasPrefix(path, `["`):
		decoder := json.NewDecoder(strings.NewReader(path[1:]))
		if err := decoder.Decode(&s.key); err != nil {
			return s, "", err
		}
		rest, ok := strings.CutPrefix(path[1+decoder.InputOffset():], "]")
		if !ok {
			return s, "", errors.New("want ] after a key")
		}
		return s, rest, nil
	case strings.HasPrefix(path, "["):
		number, rest, ok := strings.Cut(path[1:], "]")
		if s.index, err = strconv.Atoi(number); err != nil || !ok || s.index < 0 {
			return s, "", errors.New("want an index between brackets")
		}
		s.isItem = true
		return s, rest, nil
	}
	path = strings.TrimPrefix(path, ".")
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	if end == 0 {
		return s, "", errors.New("want a key")
	}
	s.key = path[:end]
	return s, path[end:], nil
}

func (n *node) below(s step) *node {
	next := &node{}
	if s.isItem {
		if n.items == nil {
			n.items = map[int]*node{}
		}
		if known, ok := n.items[s.index]; ok {
			return known
		}
		n.items[s.index] = next
		return next
	}
	if n.fields == nil {
		n.fields = map[string]*node{}
	}
	if known, ok := n.fields[s.key]; ok {
		return known
	}
	n.fields[s.key] = next
	return next
}

// encode returns the JSON of the node. An item that no record tells of leaves no hole in its list.
func (n *node) encode() ([]byte, error) {
	switch {
	case n.items != nil:
		list := make([]json.RawMessage, 0, len(n.items))
		for _, i := range slices.Sorted(maps.Keys(n.items)) {
			item, err := n.items[i].encode()
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return json.Marshal(list)
	case n.fields != nil || n.value == nil:
		fields := make(map[string]json.RawMessage, len(n.fields))
		for key, field := range n.fields {
			text, err := field.encode()
			if err != nil {
				return nil, err
			}
			fields[key] = text
		}
		return json.Marshal(fields)
	}
	return n.value, nil
}
