// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package show prints objects of the fleet for people, as tables, and for programs, as JSON or
// YAML.
//
// A kind of object has a file of its own, with its table and the lines below the row of a single
// object, and a line in kinds. Code that kinds have in common is in cells.go and grid.go, and names
// no kind.
package show

import (
	"io"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// Objects prints objects of one kind in the given format, with times relative to now.
func Objects(w io.Writer, format Format, style Style, now time.Time, kind string, objects []*fleetv1.Document) error {
	switch format {
	case JSON:
		return document.WriteJSONList(w, objects)
	case YAML:
		return document.WriteYAML(w, objects...)
	default:
		return NewTable(style, kind).Print(w, now, objects)
	}
}

// Object prints one object.
func Object(w io.Writer, format Format, style Style, now time.Time, object *fleetv1.Document) error {
	switch format {
	case JSON:
		return document.WriteJSON(w, object)
	case YAML:
		return document.WriteYAML(w, object)
	default:
	}
	name, _ := document.Identify(object)
	k := kindOf(name)
	text := newGrid(style, k.columns...).render([][]cell{k.cells(object, now)})
	if k.detail != nil {
		text += k.detail(style, now, object)
	}
	_, err := io.WriteString(w, text+author(now, object))
	return err
}

// author returns who last changed an object, and why, or "" if the hub does not name them.
func author(now time.Time, document *fleetv1.Document) string {
	message := fleetdoc.Object(document)
	if message == nil {
		return ""
	}
	object, ok := message.Interface().(interface{ GetMetadata() *typev1.Metadata })
	if !ok || object.GetMetadata().GetUpdatedBy() == "" {
		return ""
	}
	m := object.GetMetadata()
	text := "\nLast changed by " + strings.TrimPrefix(m.GetUpdatedBy(), "user:") + " " + ago(m.GetUpdateTime(), now).text
	if m.GetReason() != "" {
		text += ": " + oneLine(m.GetReason())
	}
	return text + "\n"
}
