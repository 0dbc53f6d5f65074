// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// Groups of roles that may reach services in a cluster.
const (
	groupAdmins    = "leat:admins"
	groupOperators = "leat:operators"
)

// permissionOf returns the permission that a call to the agent needs, by its option. The agent
// reads and acts with its own rights, so the hub alone decides who may have it do so. ok is false
// for a call that this version does not know.
func permissionOf(path string) (needs policy.Permission, ok bool) {
	method := agentv1.File_leat_agent_v1_agent_proto.Services().ByName("AgentService").Methods().
		ByName(protoreflect.Name(strings.TrimPrefix(path, agentService)))
	if method == nil {
		return policy.Permission{}, false
	}
	access, _ := permission.Of(method)
	return policy.Permission{Verb: access.Verb, Resource: access.Resource}, access.Verb != ""
}

// refusePermission refuses a caller without the permission.
func refusePermission(needs policy.Permission) *refusal {
	return refuseForbidden(fmt.Sprintf("you lack the permission %q for everything in this cluster; ask an administrator for a binding whose role has it",
		needs.Verb+" "+needs.Resource))
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
