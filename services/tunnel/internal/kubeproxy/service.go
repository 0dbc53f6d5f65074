// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import "strings"

// servicePrefix begins the path of a request to a service inside the cluster. Kubernetes APIs have
// no such path.
const servicePrefix = "/services/"

// service is a service inside the cluster to which the agent is asked to pass a request on.
type service struct {
	namespace string
	// name is [https:]service:port, as paths for the API server's own proxy have it.
	name string
	// rest is the path at the service. It is empty or begins with "/".
	rest string
}

// parseService parses the path of a request to a service. It accepts each name in one spelling
// only: what rules are compared with must be what the agent connects to.
func parseService(path string) (s service, ok bool) {
	rest, found := strings.CutPrefix(path, servicePrefix)
	if !found {
		return service{}, false
	}
	s.namespace, rest, _ = strings.Cut(rest, "/")
	s.name, s.rest = rest, ""
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		s.name, s.rest = rest[:slash], rest[slash:]
	}
	return s, isLabel(s.namespace) && isServiceName(s.name)
}

// isServiceName reports whether name is service:port or https:service:port.
func isServiceName(name string) bool {
	parts := strings.Split(name, ":")
	if len(parts) == 3 && parts[0] == "https" {
		parts = parts[1:]
	}
	return len(parts) == 2 && isLabel(parts[0]) && isPort(parts[1])
}
