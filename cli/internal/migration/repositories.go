// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// Repositories makes one document for each upstream, however many objects name it.
type Repositories struct {
	project string
	names   names
	byURL   map[string]*fleetv1.Document
	byName  map[string]*fleetv1.Document
	// order is that of the documents.
	order []*fleetv1.Document
}

// NewRepositories returns the repositories of a project, without any.
func NewRepositories(project string) *Repositories {
	return &Repositories{project: project, names: names{}, byURL: map[string]*fleetv1.Document{}, byName: map[string]*fleetv1.Document{}}
}

// Documents returns the documents, in the order in which they were first named.
func (r *Repositories) Documents() []*fleetv1.Document { return r.order }

// Named returns the document of that name, or nil.
func (r *Repositories) Named(name string) *fleetv1.Document { return r.byName[name] }

// Git returns the document of a Git repository, as its tool has the URL. A credential in it is left out of all documents:
// see [HasCredential].
func (r *Repositories) Git(address string) *fleetv1.Document {
	return r.of(gitcachev1.RepositoryType_REPOSITORY_TYPE_GIT, WithoutCredential(address))
}

// Helm returns the document of a Helm repository.
func (r *Repositories) Helm(address string) *fleetv1.Document {
	return r.of(gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, WithoutCredential(address))
}

// OCI returns the document of one name in a registry. The address may lack the scheme.
func (r *Repositories) OCI(address string) *fleetv1.Document {
	return r.of(gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI, WithoutCredential("oci://"+strings.TrimPrefix(strings.TrimSpace(address), "oci://")))
}

func (r *Repositories) of(kind gitcachev1.RepositoryType, address string) *fleetv1.Document {
	key := fmt.Sprintf("%d %s", kind, canonical(address))
	if known := r.byURL[key]; known != nil {
		return known
	}
	host, last, above := parts(address)
	spec := &fleetv1.RepositorySpec{Url: address}
	if kind != gitcachev1.RepositoryType_REPOSITORY_TYPE_GIT {
		spec.Type = kind
	}
	name := r.names.unique(Label(last), Label(above+"-"+last), Label(host+"-"+above+"-"+last))
	d := &fleetv1.Document{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: name, Project: r.project}, Spec: spec,
	}}}
	r.byURL[key], r.byName[name] = d, d
	r.order = append(r.order, d)
	return d
}

// canonical returns a URL in a form that is the same for all spellings of it which Git hosts treat as one.
func canonical(address string) string {
	address = strings.TrimSuffix(strings.TrimRight(address, "/"), ".git")
	if at, err := url.Parse(address); err == nil && at.Host != "" {
		at.Scheme, at.Host = strings.ToLower(at.Scheme), strings.ToLower(at.Host)
		return at.String()
	}
	return address
}

// parts returns the host of a URL, the last element of its path and the one in front of that. Either may be empty.
func parts(address string) (host, last, above string) {
	where := canonical(address)
	if at, err := url.Parse(where); err == nil && at.Host != "" {
		host, where = at.Hostname(), at.Path
	} else if before, after, isSCP := strings.Cut(where, ":"); isSCP { // user@host:path
		host, where = before[strings.LastIndexByte(before, '@')+1:], after
	}
	above, last = path.Split(strings.Trim(where, "/"))
	if last == "" {
		last = host
	}
	return host, last, path.Base(strings.TrimSuffix(above, "/"))
}

// HasCredential reports whether a URL holds a password or a token, which the hub refuses in URLs.
func HasCredential(address string) bool {
	return WithoutCredential(address) != strings.TrimSpace(address)
}

// WithoutCredential returns a URL without a password or a token. The user of SSH is none.
func WithoutCredential(address string) string {
	address = strings.TrimSpace(address)
	at, err := url.Parse(address)
	if err != nil || at.User == nil {
		return address
	}
	if _, hasPassword := at.User.Password(); at.Scheme == "ssh" && !hasPassword {
		return address
	}
	if at.Scheme == "ssh" {
		at.User = url.User(at.User.Username())
	} else {
		at.User = nil
	}
	return at.String()
}
