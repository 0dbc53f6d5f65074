// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	"github.com/leatdev/leat/internal/reason"
)

// Groups that the roles of people in a cluster are bound to.
const (
	groupAdmins    = "leat:admins"
	groupOperators = "leat:operators"
	groupViewers   = "leat:viewers"
)

// checkGroups refuses callers whose groups may not make a request that is not for the API server.
// The API server would decide about the others itself.
func (t target) checkGroups(groups []string) *refusal {
	switch {
	case t.isAgentCall():
		return t.checkAgentCall(groups)
	case t.isServiceCall():
		return t.checkServiceCall(groups)
	}
	return nil
}

// checkAgentCall refuses callers that may reach the cluster, but may not make this call to its
// agent. The agent reads and acts with its own rights. So a call that shows more than names and
// health, or that changes something, needs an operator.
func (t target) checkAgentCall(groups []string) *refusal {
	switch t.path {
	case agentv1connect.AgentServiceGetInventoryProcedure, agentv1connect.AgentServiceWatchEventsProcedure:
		return requireGroup(groups, "make this call", groupAdmins, groupOperators, groupViewers)
	case agentv1connect.AgentServiceDiffProcedure, agentv1connect.AgentServiceReconcileProcedure:
		return requireGroup(groups, "make this call", groupAdmins, groupOperators)
	}
	return refuse(http.StatusNotFound, reason.Unimplemented, "this version of the hub does not know such a call to an agent")
}

// checkServiceCall refuses callers that may reach the cluster, but no service in it. The agent
// connects to the service under its own identity, so the cluster's RBAC does not decide. This check
// does, and then the list that the agent has in its cluster.
func (t target) checkServiceCall(groups []string) *refusal {
	if _, ok := parseService(t.path); !ok {
		return refuseField("the path does not name a service; write /services/{namespace}/{service}:{port}/…, or https:{service}:{port} for TLS, " +
			"without escapes and with a port's number")
	}
	return requireGroup(groups, "reach services", groupAdmins, groupOperators)
}

// requireGroup refuses a caller that is in none of the allowed groups.
func requireGroup(groups []string, action string, allowed ...string) *refusal {
	if slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(allowed, group) }) {
		return nil
	}
	return refuseForbidden("only members of " + strings.Join(allowed, ", ") + " may " + action + "; ask an administrator for a binding")
}
