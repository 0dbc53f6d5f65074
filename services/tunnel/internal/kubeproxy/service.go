// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
)

// servicePrefix begins the path of a request to a service inside the cluster. No path of a Kubernetes API looks like it.
const servicePrefix = "/services/"

const (
	// maxLabel is the length of the longest name that a namespace or a service can have.
	maxLabel = 63
	maxPort  = 65535
)

// service is a service inside the cluster that the agent is asked to pass a request on to.
type service struct {
	namespace string
	// name is [https:]service:port, as paths for the API server's own proxy have it.
	name string
	// rest is what the service is asked for. It is empty or begins with "/".
	rest string
}

// isServiceCall reports whether the request is for a service, and not for the API server.
func (t target) isServiceCall() bool { return strings.HasPrefix(t.path, servicePrefix) }

// service reads the path of a request to a service. It takes each name in one spelling only: what the rules are held against
// must be what the agent connects to.
func (t target) service() (s service, ok bool) {
	rest, found := strings.CutPrefix(t.path, servicePrefix)
	if !found {
		return service{}, false
	}
	s.namespace, rest, _ = strings.Cut(rest, "/")
	s.name, s.rest = rest, ""
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		s.name, s.rest = rest[:slash], rest[slash:]
	}
	return s, validLabel(s.namespace) && validServiceName(s.name)
}

// validServiceName accepts service:port and https:service:port.
func validServiceName(name string) bool {
	parts := strings.Split(name, ":")
	if len(parts) == 3 && parts[0] == "https" {
		parts = parts[1:]
	}
	return len(parts) == 2 && validLabel(parts[0]) && validPort(parts[1])
}

func validLabel(name string) bool {
	return len(name) <= maxLabel && !strings.Contains(name, ".") && validCluster(name)
}

func validPort(port string) bool {
	number, err := strconv.Atoi(port)
	return err == nil && number >= 1 && number <= maxPort && strconv.Itoa(number) == port
}

// asked is what the request is decided and recorded by. One for a service has the attributes that it would have by way of the API
// server's own proxy, so that rules name both with services/proxy.
func (t target) asked(method string) kubeapi.Attributes {
	path := t.path
	if s, ok := t.service(); ok {
		path = "/api/v1/namespaces/" + s.namespace + "/services/" + s.name + "/proxy" + s.rest
	}
	return kubeapi.Parse(method, path, t.query)
}

// decideServiceCall says whether who may reach the cluster may reach a service in it. The agent connects to it in nobody's
// name, so that the cluster's own RBAC does not decide: this does, and then the list that the agent has in its cluster.
func (c *call) decideServiceCall(groups []string) *refusal {
	if _, ok := c.target.service(); !ok {
		return refuseServicePath()
	}
	allowed := []string{groupAdmins, groupOperators}
	if slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(allowed, group) }) {
		return nil
	}
	return &refusal{
		code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED", origin: originHub,
		message: "only members of " + strings.Join(allowed, ", ") + " may reach services; ask an administrator for a binding",
	}
}

func refuseServicePath() *refusal {
	return &refusal{
		code: http.StatusBadRequest, kubeReason: "BadRequest", reason: "FIELD_INVALID", origin: originHub,
		message: "the path names no service; write /services/{namespace}/{service}:{port}/…, or https:{service}:{port} for TLS, " +
			"without escapes and with a port's number",
	}
}
