// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
)

// Prefix begins the path of every request to a cluster.
const Prefix = "/clusters/"

// maxClusterName is the length of the longest name that a cluster can have.
const maxClusterName = 253

// target is where a request goes.
type target struct {
	// cluster is the cluster's full name as the path has it.
	cluster string
	// path is what the cluster's API server, its agent or a service in it is asked for, byte for byte as the caller wrote it. It begins with "/".
	path string
	// query follows the path's "?", byte for byte. It is empty when there is none.
	query string
	// attributes are what the request asks for, as the API server reads it.
	attributes kubeapi.Attributes
}

// uri is what the API server is asked for.
func (t target) uri() string {
	if t.query == "" {
		return t.path
	}
	return t.path + "?" + t.query
}

// Matches reports whether a request is for a cluster. It looks at the path as it was sent: routing by a cleaned path
// would answer redirects where the API server has to answer.
func Matches(r *http.Request) bool { return strings.HasPrefix(rawPath(r), Prefix) }

// rawPath is the path as the caller wrote it, without the query.
func rawPath(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	if _, rest, ok := strings.Cut(path, "://"); ok { // the form that proxies are sent
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			return rest[slash:]
		}
	}
	return path
}

// parseTarget splits the path. ok is false when the cluster's name cannot be one or the path tries to leave its place:
// a dot segment, written out or escaped, would be resolved by somebody on the way.
func parseTarget(r *http.Request) (t target, ok bool) {
	name, path := split(r)
	t = target{cluster: name, path: path, query: r.URL.RawQuery}
	t.attributes = t.asked(r.Method)
	return t, validCluster(name) && !hasDotSegment(t.path)
}

// split returns the cluster's name and the path behind it.
func split(r *http.Request) (name, path string) {
	name = strings.TrimPrefix(rawPath(r), Prefix)
	if slash := strings.IndexByte(name, '/'); slash >= 0 {
		return name[:slash], name[slash:]
	}
	return name, "/"
}

// validCluster accepts DNS subdomains (RFC 1123), which all names of clusters are.
func validCluster(name string) bool {
	if name == "" || len(name) > maxClusterName {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
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

// isEndless reports whether the answer goes on until somebody ends it: a watch, a log that is followed, or an agent's events.
func (t target) isEndless() bool { return t.attributes.Endless() || t.isEventStream() }

// isWatch reports whether the answer is a watch, which API servers end now and then and clients begin again.
func (t target) isWatch() bool { return t.attributes.Verb == kubeapi.VerbWatch }
