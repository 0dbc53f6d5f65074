// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package objecttree finds objects of Kubernetes in the results of languages that evaluate to one
// value: a result is an object, a list of them, or a map of either, at any depth.
package objecttree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/render"
)

// Documents returns one document for each object of a value in JSON, in the order of lists and of
// the sorted names of maps. A map is an object if it has a text apiVersion or a text kind. A null
// holds no object. Any other value is an *render.Error. Documents returns a *render.LimitError if
// the text, the objects or the depth exceed the limits.
//
// The path of a document is the file and the object's place, such as "main.jsonnet: web.pods[2]".
func Documents(file string, value []byte, limits render.Limits) ([]render.Document, error) {
	limits = limits.WithDefaults()
	if int64(len(value)) > limits.Text {
		return nil, &render.LimitError{
			Path: file, Limit: render.LimitText, Message: fmt.Sprintf("its result has more than %d MiB; split the service", limits.Text>>20),
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // no digit is lost on the way
	var root any
	if err := decoder.Decode(&root); err != nil {
		return nil, &render.Error{Path: file, Cause: fmt.Errorf("read result: %w", err)}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &render.Error{Path: file, Cause: errors.New("read result: more than one value")}
	}
	w := walk{file: file, limits: limits}
	if err := w.value(root, "", 0); err != nil {
		return nil, err
	}
	return w.documents, nil
}

// walk collects the objects of one result.
type walk struct {
	file      string
	limits    render.Limits
	documents []render.Document
}

func (w *walk) value(value any, place string, depth int) error {
	if depth > w.limits.Depth {
		return &render.LimitError{
			Path: w.path(place), Limit: render.LimitDepth, Message: fmt.Sprintf("maps and lists are nested more than %d deep", w.limits.Depth),
		}
	}
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		for i, item := range v {
			if err := w.value(item, fmt.Sprintf("%s[%d]", place, i), depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		if isObject(v) {
			return w.object(v, place)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := w.value(v[name], join(place, name), depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return &render.Error{Path: w.path(place), Cause: fmt.Errorf("is a %s, want an object of Kubernetes with apiVersion and kind, a list of them, "+
			"or a map of either; keep other values in fields that are not part of the result", kindOf(value))}
	}
}

func (w *walk) object(object map[string]any, place string) error {
	if len(w.documents) >= w.limits.Objects {
		return &render.LimitError{
			Path: w.file, Limit: render.LimitObjects, Message: fmt.Sprintf("makes more than %d objects; split the service", w.limits.Objects),
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		return &render.Error{Path: w.path(place), Cause: err}
	}
	w.documents = append(w.documents, render.Document{Path: w.path(place), Text: text.Bytes(), IsEncoded: true})
	return nil
}

func (w *walk) path(place string) string {
	if place == "" {
		return w.file
	}
	return w.file + ": " + place
}

func isObject(fields map[string]any) bool {
	_, hasKind := fields["kind"].(string)
	_, hasVersion := fields["apiVersion"].(string)
	return hasKind || hasVersion
}

// plainName matches names that need no quotes in a place.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// maxName bounds the characters of a name in a place: the names are content of others.
const maxName = 80

func join(place, name string) string {
	if !plainName.MatchString(name) || len(name) > maxName {
		return fmt.Sprintf("%s[%q]", place, strings.ToValidUTF8(name[:min(len(name), maxName)], "…"))
	}
	if place == "" {
		return name
	}
	return place + "." + name
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "boolean"
	default:
		return "number"
	}
}
