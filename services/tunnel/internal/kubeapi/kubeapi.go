// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi reads what a request to a Kubernetes API server asks for: which verb, on which
// resource, in which namespace. It follows the API server to the letter, oddities included, because
// rules that are held against other attributes than the server's own would protect nothing.
//
// It differs in one point. Of a list by metadata.name whose label selector is malformed the server
// does not see the name. It then refuses the request for its selector, so that nothing hangs on it.
package kubeapi

import (
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/runtime/audit"
)

// AgentPrefix begins the paths at which an agent serves its API server. Calls to the agent, and to
// services, have no prefix.
const AgentPrefix = "/kubernetes"

// Verbs of requests for resources. Other requests have their method's name in lower case instead.
const (
	VerbGet              = "get"
	VerbList             = "list"
	VerbWatch            = "watch"
	VerbCreate           = "create"
	VerbUpdate           = "update"
	VerbPatch            = "patch"
	VerbDelete           = "delete"
	VerbDeleteCollection = "deletecollection"
	// VerbProxy is the verb of the old form /api/v1/proxy/…, which API servers no longer serve.
	VerbProxy = "proxy"
)

// Attributes are the attributes by which an API server authorizes a request.
type Attributes struct {
	// Verb is the action. It is empty when a method means nothing for resources.
	Verb string
	// APIGroup and APIVersion are the resource's. The core group is empty.
	APIGroup   string
	APIVersion string
	// Resource is the object of the action, such as "pods".
	Resource string
	// Subresource is a part of the resource, such as "exec". Empty means the resource itself.
	Subresource string
	// Namespace is empty for resources outside namespaces and for requests across all of them.
	Namespace string
	// Name is the object's. A list or watch has it when its field selector asks for one name.
	Name string
	// NonResourceURL is the path of a request for no resource, such as "/healthz", with escapes
	// resolved. Empty means a request for a resource.
	NonResourceURL string
	// Follow reports whether the request follows a container log.
	Follow bool
}

// Recorded returns what audit records hold of the attributes.
func (a Attributes) Recorded() audit.Attributes {
	return audit.Attributes{
		Verb: a.Verb, APIGroup: a.APIGroup, APIVersion: a.APIVersion, Resource: a.Resource, Subresource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name,
	}
}

// Endless reports whether the answer continues until one side ends it.
func (a Attributes) Endless() bool { return a.Verb == VerbWatch || a.Follow }

// Parse reads a request. Path and query are as they were sent, with their escapes, the query
// without its "?". Whatever the bytes, there is a result: what an API server would not understand
// has the attributes that it gives up with, and a path with a malformed escape, which no server
// takes, is not a resource.
func Parse(method, path, query string) Attributes {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return Attributes{Verb: strings.ToLower(method), NonResourceURL: path}
	}
	a := Attributes{Verb: strings.ToLower(method), NonResourceURL: decoded}
	parts, ok := a.readGroup(strings.Split(strings.Trim(decoded, "/"), "/"))
	if !ok {
		return a
	}
	a.NonResourceURL = ""
	if parts = a.readNamespace(a.readVerb(method, parts)); len(parts) > 0 {
		a.readResource(parts)
		a.readQuery(query)
	}
	return a
}

// readGroup takes the part that names the API off. ok is false when the path is not a resource's.
func (a *Attributes) readGroup(parts []string) (rest []string, ok bool) {
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		a.APIVersion = parts[1]
		return parts[2:], true
	case len(parts) >= 4 && parts[0] == "apis":
		a.APIGroup, a.APIVersion = parts[1], parts[2]
		return parts[3:], true
	default:
		return nil, false
	}
}

// readVerb finds the verb, which old paths begin with. Nothing is left of one that ends there.
func (a *Attributes) readVerb(method string, parts []string) []string {
	if parts[0] == VerbWatch || parts[0] == VerbProxy {
		if len(parts) > 1 {
			a.Verb = parts[0]
		}
		return parts[1:]
	}
	a.Verb = verbOf(method)
	return parts
}

func verbOf(method string) string {
	switch method {
	case "GET", "HEAD":
		return VerbGet
	case "POST":
		return VerbCreate
	case "PUT":
		return VerbUpdate
	case "PATCH":
		return VerbPatch
	case "DELETE":
		return VerbDelete
	default:
		return ""
	}
}

// readNamespace takes the namespace off. A namespace that is itself the target stays, and counts as
// its own.
func (a *Attributes) readNamespace(parts []string) []string {
	if len(parts) < 2 || parts[0] != "namespaces" {
		return parts
	}
	a.Namespace = parts[1]
	if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		return parts[2:]
	}
	return parts
}

// readResource reads the rest: resource, name, subresource, and what only the subresource
// understands.
func (a *Attributes) readResource(parts []string) {
	a.Resource = parts[0]
	if len(parts) > 1 {
		a.Name = parts[1]
	}
	if len(parts) > 2 && a.Verb != VerbProxy {
		a.Subresource = parts[2]
	}
}

// readQuery distinguishes a get from a list and a watch, and a delete from one of many.
func (a *Attributes) readQuery(query string) {
	switch {
	case a.Name == "" && a.Verb == VerbGet:
		a.readList(query)
	case a.Name == "" && a.Verb == VerbDelete:
		a.Verb = VerbDeleteCollection
	case a.Verb == VerbGet && a.APIGroup == "" && a.Resource == "pods" && a.Subresource == "log":
		values, _ := url.ParseQuery(query)
		a.Follow = isTrue(values["follow"])
	}
}
