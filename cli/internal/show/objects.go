// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Differences prints what would be done to objects, each with its unified diff.
func Differences(w io.Writer, style Style, objects []*agentv1.ObjectDiff) error {
	var out strings.Builder
	for _, object := range objects {
		difference(&out, style, object)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func difference(out *strings.Builder, style Style, object *agentv1.ObjectDiff) {
	word := map[agentv1.DiffAction]string{
		agentv1.DiffAction_DIFF_ACTION_CREATE: "would be created", agentv1.DiffAction_DIFF_ACTION_UPDATE: "would be changed",
		agentv1.DiffAction_DIFF_ACTION_DELETE: "would be deleted", agentv1.DiffAction_DIFF_ACTION_REFUSE: style.Bad("could not be applied"),
	}[object.GetAction()]
	if word == "" {
		word = "would not change"
	}
	fmt.Fprintf(out, "# %s %s\n", objectName(object.GetRef()), word)
	if p := object.GetProblem(); p != nil {
		fmt.Fprintf(out, "# %s: %s\n", style.Bad(document.EnumName(p.GetReason())), strings.ReplaceAll(p.GetMessage(), "\n", " "))
	}
	for _, field := range object.GetFields() {
		if line := managed(field); line != "" {
			out.WriteString("# " + line + "\n")
		}
	}
	omitted(out, object.GetFieldsOmitted(), "would change")
	for _, field := range object.GetIgnored() {
		fmt.Fprintf(out, "# %s is ignored by %s%s\n", oneLine(field.GetPath()), oneLine(field.GetRule()), managers(field, "; managed by "))
	}
	omitted(out, object.GetIgnoredOmitted(), "are ignored")
	for line := range strings.Lines(object.GetUnified()) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "+++ "), strings.HasPrefix(text, "@@"):
			text = style.Faint(text)
		case strings.HasPrefix(text, "+"):
			text = style.Good(text)
		case strings.HasPrefix(text, "-"):
			text = style.Bad(text)
		}
		out.WriteString(text + "\n")
	}
	out.WriteByte('\n')
}

// managed returns who else manages a field that would change, or "".
func managed(field *agentv1.FieldDiff) string {
	by := managers(field, " is managed by ")
	if by == "" {
		return ""
	}
	if field.GetIsTaken() {
		by += "; the run takes it"
	}
	return oneLine(field.GetPath()) + by
}

// managers returns the managers of a field that are not Leat, behind a phrase, or "".
func managers(field *agentv1.FieldDiff, phrase string) string {
	var names []string
	for _, manager := range field.GetManagers() {
		if manager.GetName() == leatManager {
			continue
		}
		name := oneLine(manager.GetName())
		if manager.GetTime() != nil {
			name += " since " + manager.GetTime().AsTime().UTC().Format(time.RFC3339)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return phrase + strings.Join(names, ", ")
}

// leatManager is Leat's name among managers of fields.
const leatManager = "leat"

func omitted(out *strings.Builder, n int32, what string) {
	if n > 0 {
		fmt.Fprintf(out, "# %d more fields %s\n", n, what)
	}
}

// Inventory prints the objects of a service in the given format.
func Inventory(w io.Writer, format Format, style Style, objects []*typev1.ObjectStatus) error {
	rows := newGrid(style, "KIND", "NAMESPACE", "NAME", "HEALTH", "MESSAGE")
	return items(w, format, rows, objects, func(o *typev1.ObjectStatus) []cell {
		ref := o.GetRef()
		return []cell{
			plain(ref.GetKind()), plain(ref.GetNamespace()), plain(ref.GetName()), stateCell(o.GetHealth()), line(o.GetProblem().GetMessage()),
		}
	})
}

// Event returns an event in one line.
func Event(style Style, event *agentv1.WatchEventsResponse) string {
	parts := []string{style.Faint(event.GetTime().AsTime().Local().Format(time.TimeOnly)), stateCell(event.GetPhase()).text}
	if event.GetObject() != nil {
		parts = append(parts, objectName(event.GetObject()))
	}
	if event.GetMessage() != "" {
		parts = append(parts, strings.ReplaceAll(event.GetMessage(), "\n", " "))
	}
	return strings.Join(parts, "  ")
}
