// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// accessRequestKind shows people's requests for access.
var accessRequestKind = kind{
	columns: []string{"NAME", "REQUESTER", "ROLE", "SCOPE", "RULES", "FOR", "STATE", "ENDS", "REASON"},
	cells:   accessRequestCells,
}

// accessRequestCells shows the end of the access that was given, and of an open request when it
// lapses.
func accessRequestCells(object *fleetv1.Document, now time.Time) []cell {
	r := object.GetAccessRequest()
	spec, status := r.GetSpec(), r.GetStatus()
	end := plain("")
	state := plain(document.EnumName(status.GetState()))
	switch status.GetState() { //nolint:exhaustive // the others give nothing
	case fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_OPEN:
		state.color, end = yellow, ends(status.GetLapseTime(), now)
	case fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED:
		state.color, end = green, ends(status.GetAccessExpireTime(), now)
	}
	return []cell{
		plain(r.GetMetadata().GetName()), plain(spec.GetRequester()), role(spec.GetRole(), spec.GetRoleName()), plain(requestedScope(spec)),
		rules(spec.GetRules()), plain(spec.GetDuration().AsDuration().String()), state, end, plain(spec.GetReason()),
	}
}

func requestedScope(spec *fleetv1.AccessRequestSpec) string {
	return scope(&fleetv1.AccessBindingSpec{
		Clusters: spec.GetClusters(), Projects: spec.GetProjects(), Services: spec.GetServices(), Repositories: spec.GetRepositories(),
	})
}

// RequestEnd returns what became of a request, in words.
func RequestEnd(request *fleetv1.AccessRequest) string {
	status := request.GetStatus()
	text := document.EnumName(status.GetState())
	switch status.GetState() { //nolint:exhaustive // the others have no more to show
	case fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED:
		text += " by " + status.GetDecidedBy() + ": accessbinding/" + status.GetBinding() + " ends at " +
			status.GetAccessExpireTime().AsTime().UTC().Format(time.RFC3339)
	case fleetv1.AccessRequestState_ACCESS_REQUEST_STATE_DENIED:
		text += " by " + status.GetDecidedBy()
		if status.GetWord() != "" {
			text += ": " + oneLine(status.GetWord())
		}
	}
	return text
}
