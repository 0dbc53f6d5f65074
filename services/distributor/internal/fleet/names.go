// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// nameSet holds the names of the objects of one kind, in their order. It is the index by project,
// too: the names of a project other than default begin with the project's name and a dot, so they
// are neighbours. It is not safe for concurrent use with add and remove.
type nameSet struct{ set btree.Set[string] }

func (n *nameSet) add(name string)    { n.set.Insert(name) }
func (n *nameSet) remove(name string) { n.set.Delete(name) }
func (n *nameSet) len() int           { return n.set.Len() }

// all returns the names, sorted.
func (n *nameSet) all() []string { return n.set.Keys() }

// from returns the names that do not sort before a text, sorted.
func (n *nameSet) from(text string) iter.Seq[string] {
	return func(yield func(string) bool) { n.set.Ascend(text, yield) }
}

// inProject returns the names of a project that sort after a text, sorted. In the project default it
// passes over the names of each other project by one search.
func (n *nameSet) inProject(project, text string) iter.Seq[string] {
	if project == objectname.Default {
		return n.inDefault(text)
	}
	return func(yield func(string) bool) {
		own := spanOf(project)
		for name := range n.from(max(text, own.from)) {
			if name >= own.end || name != text && !yield(name) {
				return
			}
		}
	}
}

func (n *nameSet) inDefault(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for start := text; ; {
			next := ""
			for name := range n.from(start) {
				if project := objectname.Project(name); project != objectname.Default {
					next = endOf(project)
					break
				}
				if name != text && !yield(name) {
					return
				}
			}
			if next == "" {
				return
			}
			start = next
		}
	}
}

// inClusters returns the names of a service in every cluster, by its local name; none for a name that
// holds a cluster.
func (n *nameSet) inClusters(local string) iter.Seq[string] {
	prefix := strings.TrimSuffix(objectname.ServicePath(local, "-"), "-")
	return func(yield func(string) bool) {
		for name := range n.from(prefix) {
			if !strings.HasPrefix(name, prefix) || !yield(name) {
				return
			}
		}
	}
}

// first returns the first name of a span that sorts after a text, or "".
func (n *nameSet) first(s span, text string) string {
	for name := range n.from(max(text, s.from)) {
		switch {
		case name >= s.end:
			return ""
		case name != text:
			return name
		}
	}
	return ""
}

// prefixOf returns what the names of a project begin with; "" for the project default.
func prefixOf(project string) string {
	return strings.TrimSuffix(objectname.Join(project, "-"), "-")
}

// endOf returns a text that sorts after all names of a project other than default, and before
// everything that sorts after these.
func endOf(project string) string {
	prefix := prefixOf(project)
	return prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
}

// candidates are the names that a listing visits.
type candidates struct {
	names *nameSet
	// isAll is true if the listing visits all names; the fields below are empty then.
	isAll bool
	// hasDefault is true if it visits all names of the project default, and spans are the spans of
	// other projects of which it does, in the order of the names.
	hasDefault bool
	spans      []span
	// listed are further names, sorted.
	listed []string
}

// span is the part of all names that belongs to a project other than default: those from the one text
// on and before the other.
type span struct{ from, end string }

func spanOf(project string) span { return span{from: prefixOf(project), end: endOf(project)} }

// addProjects adds all names of some projects, which are not added yet.
func (c *candidates) addProjects(projects ...string) {
	for _, project := range projects {
		if project == objectname.Default {
			c.hasDefault = true
		} else {
			c.spans = append(c.spans, spanOf(project))
		}
	}
	slices.SortFunc(c.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
}

// seq returns the candidates that sort after a text, each once, sorted.
func (c *candidates) seq(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if c.isAll {
			for name := range c.names.from(text) {
				if name != text && !yield(name) {
					return
				}
			}
			return
		}
		for {
			name, ok := c.after(text)
			if !ok || !yield(name) {
				return
			}
			text = name
		}
	}
}

// after returns the first candidate that sorts after a text.
func (c *candidates) after(text string) (first string, ok bool) {
	i, isExact := slices.BinarySearch(c.listed, text)
	if isExact {
		i++
	}
	if i < len(c.listed) {
		first, ok = c.listed[i], true
	}
	if c.hasDefault {
		for name := range c.names.inProject(objectname.Default, text) {
			if !ok || name < first {
				first, ok = name, true
			}
			break
		}
	}
	i, _ = slices.BinarySearchFunc(c.spans, text, func(s span, text string) int { return cmp.Compare(s.end, text) })
	for ; i < len(c.spans) && (!ok || c.spans[i].from < first); i++ {
		if name := c.names.first(c.spans[i], text); name != "" && (!ok || name < first) {
			return name, true
		}
	}
	return first, ok
}

// candidatesLocked returns the names that a query of a catalog can select. For a scope that is a
// large part of the hub it returns all names, because sorting them would cost more than visiting
// the others.
func candidatesLocked(c *contents, q Query) *candidates {
	names := c.byKind[q.Kind].sorted()
	found := &candidates{names: names}
	if q.Kind == catalog.KindService && q.Cluster != "" {
		found.listed = c.services.Services(q.Cluster)
		return found
	}
	hasProject := q.Project != "" && q.Kind.InProject()
	isScoped := q.Kind == catalog.KindService && q.Within != nil && !q.Within.Everything
	switch {
	case hasProject && (!isScoped || slices.Contains(q.Within.Projects, q.Project)):
		found.addProjects(q.Project)
		return found
	case !isScoped:
		found.isAll = true
		return found
	case !hasProject:
		found.addProjects(q.Within.Projects...)
	}
	listed := map[string]struct{}{}
	for _, name := range q.Within.Services {
		listed[name] = struct{}{}
		for named := range names.inClusters(name) {
			listed[named] = struct{}{}
		}
	}
	for _, selection := range q.Within.Clusters {
		for _, cluster := range selectedLocked(&c.shelves, selection) {
			c.services.AddServices(cluster, listed)
		}
		if len(listed) > names.len()/4 {
			return &candidates{names: names, isAll: true}
		}
	}
	found.listed = slices.Sorted(maps.Keys(listed))
	return found
}

// selectedLocked returns the names of the clusters that a selection covers, in no order.
func selectedLocked(objects *shelves, selection catalog.ClusterSelection) []string {
	if selection.Labels == nil {
		return selection.Names
	}
	var covered []string
	for name, cluster := range objects.clusters.objects {
		if selection.Covers(&cluster.Metadata) {
			covered = append(covered, name)
		}
	}
	return covered
}

// ServicesWithin returns the services of a scope, and perhaps others, by name.
func (c *Catalog) ServicesWithin(scope authz.Scope) []*catalog.Service {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var found []*catalog.Service
	for name := range candidatesLocked(c.contents, Query{Kind: catalog.KindService, Within: &scope}).seq("") {
		if service := c.contents.services.Service(name); service != nil {
			found = append(found, service)
		}
	}
	return found
}

// Keys returns the keys of objects, kind after kind as catalog.Kinds lists them, each by name: the
// keys of a project, or of all for "". Of services it returns the ones of a scope, and perhaps
// others; a nil scope selects all.
func (c *Catalog) Keys(project string, scope *authz.Scope) []catalog.Key {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var keys []catalog.Key
	for _, kind := range catalog.Kinds() {
		for name := range candidatesLocked(c.contents, Query{Kind: kind, Project: project, Within: scope}).seq("") {
			if !kind.InProject() || project == "" || objectname.Project(name) == project {
				keys = append(keys, catalog.Key{Kind: kind, Name: name})
			}
		}
	}
	return keys
}
