// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"strings"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// The answers to people's requests to a cluster.
const (
	done = "yes"
	// byCluster is a refusal of the cluster's own: the hub passes the request on.
	byCluster = "cluster"
	byHub     = "no"
	hidden    = "hidden"
)

// clusterRequest is a request to a cluster, and what the three groups that roles give make of it in
// a cluster with the bindings of deploy/kubernetes/agent.yaml. Operators and editors are one group.
// TestRightsInClusters in test/tunnel reads the rows from docs/reference/rights.md, and has real
// people make each request of a real API server.
type clusterRequest struct {
	// request is the method and the path. NAMESPACE is any namespace; an object called none does not
	// exist, so that a request that is let through ends with 404.
	request string
	// asks holds the attributes that rules of bindings and RBAC compare.
	asks                    string
	viewer, operator, admin string
}

// clusterRequests are the requests of the table: each verb, and each resource and path that some
// role lacks or that leads out of the API server.
func clusterRequests() []clusterRequest {
	const pods = "/api/v1/namespaces/NAMESPACE/pods"
	return []clusterRequest{
		{"GET /version", "/version", done, done, done},
		{"GET /healthz", "/healthz", done, done, done},
		{"GET /livez", "/livez", done, done, done},
		{"GET /readyz", "/readyz", done, done, done},
		{"GET /api", "/api", done, done, done},
		{"GET /apis", "/apis", done, done, done},
		{"GET /openapi/v3", "/openapi/v3", done, done, done},
		{"GET /metrics", "/metrics", byCluster, byCluster, done},
		{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews", "create selfsubjectreviews", done, done, done},
		{"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "create selfsubjectaccessreviews", done, done, done},
		{"POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "create subjectaccessreviews", byCluster, byCluster, done},

		{"GET " + pods, "list pods", done, done, done},
		{"GET " + pods + "?watch=true", "watch pods", done, done, done},
		{"GET " + pods + "/none", "get pods", done, done, done},
		{"GET " + pods + "/none/log", "get pods/log", done, done, done},
		{"GET /api/v1/pods", "list pods", done, done, done},
		{"GET /api/v1/namespaces", "list namespaces", done, done, done},
		{"GET /api/v1/nodes", "list nodes", byCluster, byCluster, done},
		{"GET /api/v1/namespaces/NAMESPACE/configmaps", "list configmaps", done, done, done},
		{"GET /api/v1/namespaces/NAMESPACE/secrets", "list secrets", byCluster, done, done},
		{"GET /apis/apps/v1/namespaces/NAMESPACE/deployments", "list deployments", done, done, done},
		{"GET /apis/apps/v1/namespaces/NAMESPACE/deployments/none/scale", "get deployments/scale", done, done, done},
		{"GET /apis/rbac.authorization.k8s.io/v1/clusterroles", "list clusterroles", byCluster, byCluster, done},

		{"POST /api/v1/namespaces/NAMESPACE/configmaps?dryRun=All", "create configmaps", byCluster, done, done},
		{"PUT /api/v1/namespaces/NAMESPACE/configmaps/none?dryRun=All", "update configmaps", byCluster, done, done},
		{"PATCH /api/v1/namespaces/NAMESPACE/configmaps/none?dryRun=All", "patch configmaps", byCluster, done, done},
		{"DELETE /api/v1/namespaces/NAMESPACE/configmaps/none?dryRun=All", "delete configmaps", byCluster, done, done},
		{"DELETE /api/v1/namespaces/NAMESPACE/configmaps?dryRun=All", "deletecollection configmaps", byCluster, done, done},
		{"PATCH /apis/apps/v1/namespaces/NAMESPACE/deployments/none/scale?dryRun=All", "patch deployments/scale", byCluster, done, done},
		{"DELETE " + pods + "/none?dryRun=All", "delete pods", byCluster, done, done},
		{"POST " + pods + "/none/eviction?dryRun=All", "create pods/eviction", byCluster, done, done},
		{"POST /api/v1/namespaces/NAMESPACE/serviceaccounts/none/token?dryRun=All", "create serviceaccounts/token", byCluster, done, done},
		{"POST /api/v1/namespaces?dryRun=All", "create namespaces", byCluster, byCluster, done},
		{"PATCH /api/v1/nodes/none?dryRun=All", "patch nodes", byCluster, byCluster, done},
		{"POST /apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/rolebindings?dryRun=All", "create rolebindings", byCluster, byCluster, done},

		{"GET " + pods + "/POD/exec?command=true&stdout=true", "get pods/exec, by a WebSocket", byCluster, done, done},
		{"POST " + pods + "/POD/exec?command=true&stdout=true", "create pods/exec, by SPDY", byCluster, done, done},
		{"GET " + pods + "/POD/attach?stdout=true", "get pods/attach, by a WebSocket", byCluster, done, done},
		{"GET " + pods + "/POD/portforward?ports=80", "get pods/portforward, by a WebSocket", byCluster, done, done},
		{"GET " + pods + "/none/proxy/", "get pods/proxy", byCluster, done, done},
		{"GET /api/v1/namespaces/NAMESPACE/services/none/proxy/", "get services/proxy", byCluster, done, done},
		{"GET /api/v1/nodes/none/proxy/", "get nodes/proxy", byCluster, byCluster, done},
		{"GET /services/NAMESPACE/echo:8080/", "get services/proxy, by the agent", byHub, done, done},
		{"POST /services/NAMESPACE/echo:8080/", "create services/proxy, by the agent", byHub, done, done},
	}
}

// cell is the answer to a person.
func (r clusterRequest) cell(p person) string {
	if !p.isAbout(catalog.VerbGet, catalog.ResourceClusters, "one") {
		return hidden
	}
	switch p.role {
	case catalog.RoleViewer:
		return r.viewer
	case catalog.RoleOperator, catalog.RoleEditor:
		return r.operator
	case catalog.RoleAdmin:
		return r.admin
	case catalog.RoleNone:
	}
	return hidden
}

// tableOfRequests is the part of docs/reference/rights.md about clusters.
func tableOfRequests() string {
	var page strings.Builder
	page.WriteString(`
## Requests to clusters

Each row is a request below ` + "`/clusters/NAME`" + `, or at the cluster's own host; ` + "`shop--berlin.DOMAIN`" + ` is the host of the cluster ` + "`berlin`" + ` in the project ` + "`shop`" + `.
The hub decides who reaches the cluster and as whom, and the cluster's own RBAC what they may do there; the cells hold for a cluster with the bindings of [agent.yaml](../../deploy/kubernetes/agent.yaml).
Rules of a binding narrow all rows except discovery, health and reviews of oneself.

| request | asks for |` + header() + `
|---|---|` + strings.Repeat("---|", len(columns)) + `
`)
	for _, r := range clusterRequests() {
		fmt.Fprintf(&page, "| `%s` | %s |", r.request, r.asks)
		for _, p := range columns {
			fmt.Fprintf(&page, " %s |", r.cell(p))
		}
		page.WriteString("\n")
	}
	return page.String()
}

// header names the columns.
func header() string {
	var names strings.Builder
	for _, p := range columns {
		fmt.Fprintf(&names, " %s |", p.column())
	}
	return names.String()
}

func (p person) column() string {
	switch p.scope {
	case "":
		return "none"
	case "two":
		return "elsewhere"
	case "hub":
		return "hub " + string(p.role)
	}
	return string(p.role)
}
