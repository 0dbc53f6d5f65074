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

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/document"
)

func bindingCells(b *fleetv1.AccessBinding, now time.Time) []cell {
	spec := b.GetSpec()
	return []cell{
		plain(b.GetMetadata().GetName()), role(spec.GetRole(), spec.GetRoleName()), list(spec.GetUsers()), list(spec.GetGroups()),
		plain(scope(spec)), plain(fmt.Sprint(b.GetStatus().GetClusters())), rules(spec.GetRules()),
		ends(spec.GetExpireTime(), now),
	}
}

// role returns a built-in role, or the name of another one.
func role(r typev1.AccessRole, name string) cell {
	if r == typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED {
		return plain(name)
	}
	return plain(document.EnumName(r))
}

func roleCells(r *fleetv1.Role) []cell {
	spec := r.GetSpec()
	var parts []string
	for _, p := range spec.GetPermissions() {
		parts = append(parts, strings.Join(p.GetVerbs(), ",")+" of "+strings.Join(p.GetResources(), ","))
	}
	return []cell{
		plain(r.GetMetadata().GetName()), plain(strings.Join(parts, "; ")), role(spec.GetClusterRole(), ""), plain(spec.GetDescription()),
	}
}

// scope returns what a binding is about.
func scope(spec *fleetv1.AccessBindingSpec) string {
	if spec.GetHub() {
		return "hub"
	}
	var parts []string
	switch names := spec.GetProjects().GetNames(); {
	case spec.GetProjects().GetAll():
		parts = append(parts, "all projects")
	case len(names) > 0:
		parts = append(parts, "projects "+list(names).text)
	}
	if clusters := selection(spec.GetClusters()); clusters != "" {
		parts = append(parts, clusters)
	}
	if len(spec.GetServices()) > 0 {
		parts = append(parts, "services "+list(spec.GetServices()).text)
	}
	if len(spec.GetRepositories()) > 0 {
		parts = append(parts, "repositories "+list(spec.GetRepositories()).text)
	}
	return strings.Join(parts, "; ")
}

// maxListed is how many items of a list a table shows.
const maxListed = 3

func list(items []string) cell {
	if len(items) > maxListed {
		return plain(fmt.Sprintf("%s and %d more", strings.Join(items[:maxListed], ","), len(items)-maxListed))
	}
	return plain(strings.Join(items, ","))
}

func selection(s *fleetv1.ClusterSelection) string {
	if s.GetAll() {
		return "all"
	}
	var parts []string
	if len(s.GetNames()) > 0 {
		parts = append(parts, list(s.GetNames()).text)
	}
	for _, key := range slices.Sorted(maps.Keys(s.GetLabels().GetMatchLabels())) {
		parts = append(parts, key+"="+s.GetLabels().GetMatchLabels()[key])
	}
	for _, r := range s.GetLabels().GetMatchExpressions() {
		text := r.GetKey() + " " + strings.ReplaceAll(document.EnumName(r.GetOperator()), "_", " ")
		if len(r.GetValues()) > 0 {
			text += " " + strings.Join(r.GetValues(), "|")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// rules summarizes the rules of a binding.
func rules(rules []*typev1.AccessRule) cell {
	var parts []string
	for _, r := range rules {
		parts = append(parts, rule(r))
	}
	return plain(strings.Join(parts, "; "))
}

func rule(r *typev1.AccessRule) string {
	words := []string{"every verb"}
	if len(r.GetVerbs()) > 0 {
		words = []string{strings.Join(r.GetVerbs(), ",")}
	}
	if len(r.GetResources()) > 0 {
		words = append(words, "of "+strings.Join(r.GetResources(), ","))
	}
	if len(r.GetApiGroups()) > 0 {
		words = append(words, "in API groups "+strings.Join(r.GetApiGroups(), ","))
	}
	if len(r.GetNamespaces()) > 0 {
		words = append(words, "in namespaces "+strings.Join(r.GetNamespaces(), ","))
	}
	if len(r.GetNonResourcePaths()) > 0 {
		words = append(words, "at "+strings.Join(r.GetNonResourcePaths(), ","))
	}
	return strings.Join(words, " ")
}

func ends(at *timestamppb.Timestamp, now time.Time) cell {
	switch {
	case at == nil:
		return plain("never")
	case !now.IsZero() && at.AsTime().Before(now):
		return cell{"ended", red}
	}
	return plain(at.AsTime().UTC().Format(time.RFC3339))
}

// Tokens prints API tokens.
func Tokens(w io.Writer, format Format, style Style, now time.Time, tokens []*fleetv1.Token) error {
	return items(w, format, newRows(style, "ID", "USER", "LABEL", "LIMIT", "CREATED", "LAST USED", "FROM", "ENDS"), tokens, func(t *fleetv1.Token) []cell {
		return []cell{
			plain(t.GetId()), plain(t.GetUser()), plain(t.GetLabel()), plain(Limit(t.GetLimit())), ago(t.GetCreateTime(), now),
			ago(t.GetLastUsedTime(), now), plain(t.GetLastUsedAddress()), ends(t.GetExpireTime(), now),
		}
	})
}

// Limit describes what a token is limited to; empty for no limit.
func Limit(l *fleetv1.TokenLimit) string {
	if l == nil {
		return ""
	}
	where := scope(&fleetv1.AccessBindingSpec{
		Hub: l.GetHub(), Projects: l.GetProjects(), Clusters: l.GetClusters(), Services: l.GetServices(), Repositories: l.GetRepositories(),
	})
	what := l.GetRoleName()
	if l.GetRole() != typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED {
		what = document.EnumName(l.GetRole())
	}
	return strings.TrimSuffix(what+" in "+where, " in ")
}

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
		text += "\n" + newRows(style, "BINDING", "ROLE", "SUBJECTS", "GROUPS THERE", "RULES", "ENDS").render(rows)
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
