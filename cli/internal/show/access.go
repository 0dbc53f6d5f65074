// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// Access prints what a caller may do in a cluster, and why.
func Access(w io.Writer, format Format, style Style, now time.Time, review *fleetv1.ReviewAccessResponse) error {
	switch format {
	case JSON:
		return document.WriteJSONItem(w, review)
	case YAML:
		return document.WriteYAMLItem(w, review)
	default:
	}
	answer := style.Bad("no")
	if review.GetAllowed() {
		answer = style.Good("yes")
	}
	text := fmt.Sprintf("%s: %s\n", answer, oneLine(review.GetReason()))
	rows := make([][]cell, len(review.GetReasons()))
	for i, r := range review.GetReasons() {
		binding := cmp.Or(r.GetBinding(), "(leat:admins)")
		rows[i] = []cell{plain(binding), role(r.GetRole(), r.GetRoleName()), list(r.GetSubjects()), list(r.GetGroups()), rules(r.GetRules()), ends(r.GetExpireTime(), now)}
	}
	if len(rows) > 0 {
		text += "\n" + newGrid(style, "BINDING", "ROLE", "SUBJECTS", "GROUPS THERE", "RULES", "ENDS").render(rows)
	}
	if held := permissions(review.GetPermissions()); held != "" {
		text += "\nIn the hub, and in calls to the agent:\n" + held
	}
	_, err := io.WriteString(w, text)
	return err
}

// permissions returns permissions by resource, one a line.
func permissions(held []*optionsv1.Permission) string {
	verbs := map[string][]string{}
	for _, p := range held {
		verbs[p.GetResource()] = append(verbs[p.GetResource()], p.GetVerb())
	}
	var text strings.Builder
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		fmt.Fprintf(&text, "  %s: %s\n", oneLine(resource), oneLine(strings.Join(verbs[resource], ", ")))
	}
	return text.String()
}
