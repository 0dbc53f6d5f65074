// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// catalog lists the kinds that an API server serves. It is immutable.
type catalog struct {
	mappings map[schema.GroupVersionKind]*meta.RESTMapping
	// absent are the versions whose own server does not answer. Their last known resources are in
	// mappings anyway.
	absent map[schema.GroupVersion]bool
}

// discoverer fetches the catalog of the API server. It sends two requests for everything, which are
// answered with a few bytes while nothing has changed. It is for one goroutine.
type discoverer struct {
	client *http.Client
	plain  discovery.DiscoveryInterface // for servers before 1.26, which need a request for each version of each group
	core   document
	groups document
}

func newDiscoverer(base *url.URL, client *http.Client, plain discovery.DiscoveryInterface) *discoverer {
	return &discoverer{
		client: client, plain: plain,
		core: document{address: base.JoinPath("api").String()}, groups: document{address: base.JoinPath("apis").String()},
	}
}

// fetch returns the catalog, which is before itself if nothing has changed.
func (d *discoverer) fetch(ctx context.Context, before *catalog) (*catalog, error) {
	coreChanged, err := d.core.refresh(ctx, d.client)
	if errors.Is(err, errPlain) {
		return d.fetchPlain(before)
	}
	if err != nil {
		return nil, err
	}
	groupsChanged, err := d.groups.refresh(ctx, d.client)
	if err != nil {
		return nil, err
	}
	if before != nil && !coreChanged && !groupsChanged {
		return before, nil
	}
	c := newCatalog()
	c.add(d.core.groups, before)
	c.add(d.groups.groups, before)
	return c.orSame(before), nil
}

// fetchPlain omits the groups whose server does not answer, and marks them.
func (d *discoverer) fetchPlain(before *catalog) (*catalog, error) {
	_, lists, err := d.plain.ServerGroupsAndResources()
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		return nil, fmt.Errorf("ask for kinds: %w", err)
	}
	c := newCatalog()
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("read kinds: %w", err)
		}
		for _, r := range list.APIResources {
			c.put(version, r.Kind, r.Name, r.Namespaced)
		}
	}
	for version := range failed {
		c.keep(version, before)
	}
	return c.orSame(before), nil
}

// orSame returns the catalog from before if nothing has changed since: the API server's answer may
// be another text for the same kinds.
func (c *catalog) orSame(before *catalog) *catalog {
	if before != nil && maps.Equal(c.absent, before.absent) &&
		maps.EqualFunc(c.mappings, before.mappings, func(a, b *meta.RESTMapping) bool {
			return a.Resource == b.Resource && a.Scope.Name() == b.Scope.Name()
		}) {
		return before
	}
	return c
}

func newCatalog() *catalog {
	return &catalog{mappings: map[schema.GroupVersionKind]*meta.RESTMapping{}, absent: map[schema.GroupVersion]bool{}}
}

func (c *catalog) add(groups []groupDocument, before *catalog) {
	for _, group := range groups {
		for _, v := range group.Versions {
			version := schema.GroupVersion{Group: group.Metadata.Name, Version: v.Version}
			for _, r := range v.Resources {
				c.put(version, r.ResponseKind.Kind, r.Resource, r.Scope == "Namespaced")
			}
			if v.Freshness == "Stale" {
				c.keep(version, before)
			}
		}
	}
}

// put adds a resource. The first resource of a kind is the one for it. Subresources and resources
// without a kind are ignored.
func (c *catalog) put(version schema.GroupVersion, kind, resource string, namespaced bool) {
	at := version.WithKind(kind)
	if kind == "" || c.mappings[at] != nil || strings.Contains(resource, "/") {
		return
	}
	scope := meta.RESTScopeRoot
	if namespaced {
		scope = meta.RESTScopeNamespace
	}
	c.mappings[at] = &meta.RESTMapping{Resource: version.WithResource(resource), GroupVersionKind: at, Scope: scope}
}

// keep marks a version whose server does not answer, and copies its resources from before.
func (c *catalog) keep(version schema.GroupVersion, before *catalog) {
	c.absent[version] = true
	if before == nil {
		return
	}
	for kind, mapping := range before.mappings {
		if kind.GroupVersion() == version && c.mappings[kind] == nil {
			c.mappings[kind] = mapping
		}
	}
}

// document is one half of the catalog in the API server's encoding.
type document struct {
	address string
	etag    string
	groups  []groupDocument
}

// groupDocument has the relevant fields of an APIGroupDiscovery. They are the same in versions v2
// and v2beta1.
type groupDocument struct {
	Metadata struct{ Name string }
	Versions []struct {
		Version   string
		Freshness string
		Resources []struct {
			Resource     string
			Scope        string
			ResponseKind struct{ Kind string }
		}
	}
}

const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// errPlain means that the server does not support aggregated discovery.
var errPlain = errors.New("the server does not support aggregated discovery")

// refresh reads the document if it has changed, and reports whether it has.
func (d *document) refresh(ctx context.Context, client *http.Client) (changed bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.address, nil)
	if err != nil {
		return false, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", acceptDiscovery)
	if d.etag != "" {
		request.Header.Set("If-None-Match", d.etag)
	}
	response, err := client.Do(request)
	if err != nil {
		return false, fmt.Errorf("ask for kinds: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified:
		return false, nil
	case response.StatusCode != http.StatusOK:
		return false, fmt.Errorf("ask for kinds: the API server answers %s", response.Status)
	case !isAggregated(response.Header.Get("Content-Type")):
		return false, errPlain
	}
	var list struct{ Items []groupDocument }
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return false, fmt.Errorf("read kinds: %w", err)
	}
	d.etag, d.groups = response.Header.Get("ETag"), list.Items
	return true, nil
}

func isAggregated(contentType string) bool {
	_, parameters, err := mime.ParseMediaType(contentType)
	return err == nil && parameters["as"] == "APIGroupDiscoveryList"
}

// noMatch returns the error for a kind that is not served.
func noMatch(kind schema.GroupVersionKind) error {
	return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}
