// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// accessRequest returns the view of a request for access. What its author wrote comes last: a
// message is cut at its end.
func (o AllObservations) accessRequest(request *catalog.AccessRequest) notify.Seen {
	seen, spec := seenOf(request), request.Spec
	seen.Event.Named, seen.Class = request.Name, notify.Opened
	wanted := fmt.Sprintf("%s asks for %s in %s for %s", spec.Requester, spec.Access.Role, scopeText(spec.Access), spec.Duration)
	switch state := request.StateAt(catalog.Now()); state {
	case catalog.RequestOpen:
		seen.Event.Message = fmt.Sprintf("%s. To approve it, run leat access approve %s. Reason: %s", wanted, request.Name, spec.Reason)
	case catalog.RequestApproved, catalog.RequestDenied:
		seen.Class, seen.Event.Reason = notify.Ended, strings.ToUpper(string(state))
		seen.Event.Message = fmt.Sprintf("%s: %s by %s", wanted, state, spec.End.By)
		if spec.End.Word != "" {
			seen.Event.Message += ": " + spec.End.Word
		}
	case catalog.RequestWithdrawn, catalog.RequestLapsed:
		seen.Class, seen.Event.Reason = notify.Ended, strings.ToUpper(string(state))
		seen.Event.Message = wanted
	}
	return seen
}

// scopeNames bounds the names of each kind in a text.
const scopeNames = 3

// scopeText returns a scope for people.
func scopeText(s catalog.AccessBindingSpec) string {
	var parts []string
	add := func(what string, isAll bool, names []string) {
		switch {
		case isAll:
			parts = append(parts, "all "+what)
		case len(names) > scopeNames:
			parts = append(parts, fmt.Sprintf("%d %s", len(names), what))
		case len(names) > 0:
			parts = append(parts, what+" "+strings.Join(names, ", "))
		}
	}
	add("projects", s.Projects.All, s.Projects.Names)
	add("clusters", s.Clusters.All, displayed(s.Clusters.Names))
	if s.Clusters.Labels != nil {
		parts = append(parts, "clusters by labels")
	}
	add("services", false, displayed(s.Services))
	add("repositories", false, displayed(s.Repositories))
	return strings.Join(parts, " and ")
}

func displayed(paths []string) []string {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = objectname.Display(path)
	}
	return names
}
