// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package accessrule decides which requests to a Kubernetes API a rule selects. The hub's
// distributor uses it to explain what a binding of people allows, and the tunnel checks every
// request against it.
package accessrule

import (
	"slices"
	"strings"
)

// All selects everything in the lists of a [Rule].
const All = "*"

// coreGroup is the spelled-out name of the API group whose name is empty.
const coreGroup = "core"

// Rule selects requests: requests for resources, as a rule of a Kubernetes Role does, and requests
// for non-resource paths if it lists any. An empty list selects everything, except for Paths. Its
// JSON encoding is its stored form.
type Rule struct {
	Verbs     []string `json:"verbs,omitempty"`
	APIGroups []string `json:"apiGroups,omitempty"`
	// Resources are entries such as "pods", "pods/log", "pods/*", "*/scale" and "*". A bare
	// resource does not include its subresources.
	Resources  []string `json:"resources,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	// Paths are entries such as "/metrics" and "/logs/*". A rule with Paths and without Resources
	// selects no resource.
	Paths []string `json:"paths,omitempty"`
}

// Request is a request to match rules against. Path is empty for a request for a resource and set
// for any other request.
type Request struct {
	Verb        string
	APIGroup    string
	Resource    string
	Subresource string
	Namespace   string
	Path        string
}

// String describes the request for people: "create pods/exec in namespace shop", "get /metrics".
func (q Request) String() string {
	if q.Path != "" {
		return q.Verb + " " + q.Path
	}
	text := q.Verb + " " + q.Resource
	if q.Subresource != "" {
		text += "/" + q.Subresource
	}
	if q.APIGroup != "" {
		text += " of " + q.APIGroup
	}
	if q.Namespace != "" {
		text += " in namespace " + q.Namespace
	}
	return text
}

// Open reports whether everybody who reaches the cluster may send the request, however their rules
// narrow it. These are the requests that Kubernetes itself answers for every authenticated user
// (its roles system:discovery and system:basic-user). No client works without them.
func (q Request) Open() bool {
	if q.Path == "" {
		return q.Verb == "create" && q.Subresource == "" && q.asksAboutSelf()
	}
	if q.Verb != "get" && q.Verb != "head" {
		return false
	}
	path := strings.TrimSuffix(q.Path, "/")
	switch path {
	case "/api", "/apis", "/version", "/openapi", "/healthz", "/livez", "/readyz":
		return true
	}
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/") || strings.HasPrefix(path, "/openapi/")
}

func (q Request) asksAboutSelf() bool {
	switch q.APIGroup {
	case "authorization.k8s.io":
		return q.Resource == "selfsubjectaccessreviews" || q.Resource == "selfsubjectrulesreviews"
	case "authentication.k8s.io":
		return q.Resource == "selfsubjectreviews"
	}
	return false
}

// Choose reports whether any of the rules selects the request.
func Choose(rules []Rule, q Request) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Chooses(q) })
}

// Chooses reports whether the rule selects the request.
func (r Rule) Chooses(q Request) bool {
	if !anyOf(r.Verbs, q.Verb) {
		return false
	}
	if q.Path != "" {
		return slices.ContainsFunc(r.Paths, func(pattern string) bool { return matchPath(pattern, q.Path) })
	}
	if len(r.Paths) > 0 && len(r.Resources) == 0 {
		return false
	}
	return r.choosesGroup(q.APIGroup) && r.choosesResource(q) && (len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, q.Namespace))
}

func anyOf(list []string, value string) bool {
	return len(list) == 0 || slices.Contains(list, All) || value != "" && slices.Contains(list, value)
}

func (r Rule) choosesGroup(group string) bool {
	if len(r.APIGroups) == 0 {
		return true
	}
	return slices.ContainsFunc(r.APIGroups, func(want string) bool {
		return want == All || want == group || want == coreGroup && group == ""
	})
}

func (r Rule) choosesResource(q Request) bool {
	if len(r.Resources) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Resources, func(want string) bool {
		if want == All {
			return true
		}
		resource, subresource, has := strings.Cut(want, "/")
		switch {
		case !has:
			return q.Subresource == "" && q.Resource == resource
		case q.Subresource == "":
			return false
		}
		return (resource == All || resource == q.Resource) && (subresource == All || subresource == q.Subresource)
	})
}

func matchPath(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, All); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}

// IsWithin reports whether every request that the rule selects is selected by the other one, as their
// lists show it. It may be false where the rules select the same in different words.
func (r Rule) IsWithin(other Rule) bool {
	return listWithin(r.Verbs, other.Verbs) && r.resourcesWithin(other) && r.pathsWithin(other)
}

// resourcesWithin is IsWithin for requests for resources.
func (r Rule) resourcesWithin(other Rule) bool {
	if len(r.Paths) > 0 && len(r.Resources) == 0 {
		return true // selects no resource
	}
	if len(other.Paths) > 0 && len(other.Resources) == 0 {
		return false
	}
	isNamespace := len(other.Namespaces) == 0 ||
		len(r.Namespaces) > 0 && !slices.ContainsFunc(r.Namespaces, func(name string) bool { return !slices.Contains(other.Namespaces, name) })
	return isNamespace && listWithin(r.APIGroups, other.APIGroups) && listWithin(r.Resources, other.Resources)
}

// pathsWithin is IsWithin for other requests.
func (r Rule) pathsWithin(other Rule) bool {
	return !slices.ContainsFunc(r.Paths, func(path string) bool {
		return !slices.ContainsFunc(other.Paths, func(pattern string) bool { return patternWithin(path, pattern) })
	})
}

// patternWithin reports whether a pattern of paths matches nothing that the other does not match.
func patternWithin(pattern, other string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, All)
	if isPrefix && !strings.HasSuffix(other, All) {
		return false
	}
	return matchPath(other, prefix)
}

// listWithin reports whether everything in one list is in the other one. An empty list, and one with
// a star, hold everything.
func listWithin(list, other []string) bool {
	if len(other) == 0 || slices.Contains(other, All) {
		return true
	}
	return len(list) > 0 && !slices.ContainsFunc(list, func(item string) bool { return !slices.Contains(other, item) })
}
