// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
)

// Prefix begins the path of every request to a cluster.
const Prefix = "/clusters/"

// agentService begins the path of a call to the agent itself. Kubernetes APIs have no such path.
const agentService = "/" + agentv1connect.AgentServiceName + "/"

// target is where a request goes. It never changes.
type target struct {
	// cluster is the cluster's full name as the path has it.
	cluster string
	// path is the path at the cluster's API server, at its agent or at a service in it, byte for
	// byte as the caller wrote it. It begins with "/".
	path string
	// query follows the path's "?", byte for byte. It is empty when there is none.
	query string
	// isContained is false when the path tries to leave its place. A dot segment, written out or
	// escaped, would be resolved by a program on the way.
	isContained bool
	// attributes describe the request as the API server reads it. A request for a service has the
	// attributes that it would have by way of the API server's own proxy, so that rules name both with
	// services/proxy.
	attributes kubeapi.Attributes
}

func parseTarget(r *http.Request) target {
	name, path := split(r)
	asked := path
	if s, ok := parseService(path); ok {
		asked = "/api/v1/namespaces/" + s.namespace + "/services/" + s.name + "/proxy" + s.rest
	}
	return target{
		cluster: name, path: path, query: r.URL.RawQuery, isContained: !hasDotSegment(path),
		attributes: kubeapi.Parse(r.Method, asked, r.URL.RawQuery),
	}
}

// uri returns path and query.
func (t target) uri() string {
	if t.query == "" {
		return t.path
	}
	return t.path + "?" + t.query
}

// isAgentCall reports whether the request is for the agent, and not for the API server.
func (t target) isAgentCall() bool { return strings.HasPrefix(t.path, agentService) }

// isServiceCall reports whether the request is for a service, and not for the API server.
func (t target) isServiceCall() bool { return strings.HasPrefix(t.path, servicePrefix) }

// isDiscovery reports whether the request is for what an API server offers, which clients read
// before anything else.
func (t target) isDiscovery() bool {
	return t.path == "/api" || t.path == "/apis" || t.path == "/version"
}

// isEndless reports whether the answer continues until one side ends it: a watch, a log that is
// followed, or an agent's events.
func (t target) isEndless() bool {
	return t.attributes.Endless() || t.path == agentv1connect.AgentServiceWatchEventsProcedure
}

// isWatch reports whether the answer is a watch, which API servers end now and then and clients
// begin again.
func (t target) isWatch() bool { return t.attributes.Verb == kubeapi.VerbWatch }

// isResourceWatch reports whether the answer is a watch of an API server's resources. A request
// that is proxied to a service, a pod or a node may look like a watch and mean something else each
// time.
func (t target) isResourceWatch() bool {
	return t.isWatch() && t.attributes.Resource != "" && t.attributes.Subresource == ""
}

// needsUpgrade reports whether the target is a subresource of pods that is of no use without an
// upgrade.
func (t target) needsUpgrade() bool {
	path := strings.TrimSuffix(t.path, "/")
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "exec", "attach", "portforward":
	default:
		return false
	}
	segments := strings.Split(path, "/")
	return len(segments) == 8 && segments[1] == "api" && segments[3] == "namespaces" && segments[5] == "pods"
}

// Matches reports whether a request is for a cluster. It reads the path as it was sent: routing by
// a cleaned path would answer redirects where the API server has to answer.
func Matches(r *http.Request) bool { return strings.HasPrefix(rawPath(r), Prefix) }

// rawPath returns the path as the caller wrote it, without the query.
func rawPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	if _, rest, ok := strings.Cut(path, "://"); ok { // the form of requests to proxies
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			return rest[slash:]
		}
	}
	return path
}

// split returns the cluster's name and the path behind it.
func split(r *http.Request) (name, path string) {
	name = strings.TrimPrefix(rawPath(r), Prefix)
	if slash := strings.IndexByte(name, '/'); slash >= 0 {
		return name[:slash], name[slash:]
	}
	return name, "/"
}

func hasDotSegment(path string) bool {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	for segment := range strings.SplitSeq(strings.ReplaceAll(decoded, `\`, "/"), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}
