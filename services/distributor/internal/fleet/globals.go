// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// GlobalStatus is the state of a global service.
type GlobalStatus struct {
	Clusters, Healthy, Unhealthy, Conflicts, Failing, Forbidden, Held int
	// HeldDigest agrees to the removal from the clusters that are held.
	HeldDigest string
	// Problem is the problem of the derivation for all clusters, or of the first cluster that has one.
	Problem *catalog.Problem
}

// GlobalMember is a cluster that a global service selects.
type GlobalMember struct {
	Cluster   string
	Matched   string
	Overrides []string
	// Service is the derived one, or one of a person that has its name.
	Service *catalog.Service
	// Problem is a conflict, why the service cannot be derived now, or that it is held.
	Problem *catalog.Problem
	// IsHeld is true if the cluster has the service only because its removal waits for a person.
	IsHeld bool
}

// Globals is the catalog for questions about global services and what is derived of them. It is safe
// for concurrent use.
type Globals struct{ Catalog *Catalog }

// Members returns the clusters that the global service of that path selects and whose paths sort
// after a text, by path.
func (all Globals) Members(global, after string) []GlobalMember {
	c := all.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	var members []GlobalMember
	for path := range c.contents.indexed.names.inClusters(global) {
		service := c.contents.services.Service(path)
		if service.Spec.Cluster <= after {
			continue
		}
		member := GlobalMember{Cluster: service.Spec.Cluster, Service: service}
		_, isConflict := c.contents.derived.conflicts[global][service.Spec.Cluster]
		switch from := service.Derived; {
		case from != nil:
			member.Matched, member.Overrides, member.Problem = from.Matched, from.OverrideNames, service.ConfigProblem
			if late := c.contents.derived.late[global]; late != nil && member.Problem == nil {
				member.Problem = late.problem
			}
			departure := c.contents.derived.departures[from.GlobalUID][service.UID]
			if member.IsHeld = departure.State == catalog.DepartureHeld; member.IsHeld && member.Problem == nil {
				member.Problem = heldProblem(service, departure)
			}
		case isConflict:
			member.Problem = conflictOf(service)
		default:
			continue
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b GlobalMember) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return members
}

// conflictOf explains why nothing is derived where a person's service has the name.
func conflictOf(service *catalog.Service) *catalog.Problem {
	return &catalog.Problem{Reason: reason.GlobalServiceConflict, Message: fmt.Sprintf(
		"service %s was written by hand, and stays as it is; delete it, or leave cluster %s out of the selection",
		objectname.Display(service.Name), objectname.Display(service.Spec.Cluster))}
}

// globalStatus sums up the clusters of a global service.
func (r *Records) globalStatus(g *catalog.GlobalService) GlobalStatus {
	var s GlobalStatus
	for _, member := range (Globals{r.catalog}).Members(g.Name, "") {
		s.Clusters++
		if s.Problem == nil {
			s.Problem = member.Problem
		}
		switch {
		case member.Service.Derived == nil:
			s.Conflicts++
			continue
		case member.Problem != nil && (!member.IsHeld || member.Problem.Reason != reason.RemovalHeld):
			s.Failing++
		}
		if member.IsHeld {
			s.Held++
		}
		switch r.serviceStatus(member.Service).Phase {
		case catalog.PhaseHealthy:
			s.Healthy++
		case catalog.PhaseFailed, catalog.PhaseDegraded:
			s.Unhealthy++
		default: // on its way, or paused
		}
	}
	r.catalog.mu.RLock()
	defer r.catalog.mu.RUnlock()
	s.Forbidden = len(r.catalog.contents.derived.forbidden[g.Name])
	s.HeldDigest = r.catalog.contents.derived.departures[g.UID].Digest(g.UID)
	if p := heldProblemLocked(r.catalog.contents, g); p != nil && (s.Problem == nil || s.Problem.Reason == reason.RemovalHeld) {
		s.Problem = p
	}
	if p := derivationProblemLocked(r.catalog.contents.derived, g.Name); p != nil {
		s.Problem = p
	}
	return s
}

// problem returns the problem of a global service apart from its services: whether its
// derivation is late, a person has to agree to a removal, or services of its name were written by
// hand. It visits no service that is well.
func (all Globals) problem(g *catalog.GlobalService) *catalog.Problem {
	c := all.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	if problem := derivationProblemLocked(c.contents.derived, g.Name); problem != nil {
		return problem
	}
	if problem := heldProblemLocked(c.contents, g); problem != nil {
		return problem
	}
	first := ""
	for cluster := range c.contents.derived.conflicts[g.Name] {
		if first == "" || cluster < first {
			first = cluster
		}
	}
	if service := c.contents.services.Service(g.DerivedPath(first)); first != "" && service != nil {
		return conflictOf(service)
	}
	return nil
}

// isBehind reports whether services may be from an earlier state of their global service.
func (all Globals) isBehind(path string) bool {
	c := all.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return derivationProblemLocked(c.contents.derived, path) != nil
}

// behind returns the paths of the global services of which isBehind reports true.
func (all Globals) behind() map[string]bool {
	c := all.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	behind := make(map[string]bool, len(c.contents.derived.late)+len(c.contents.derived.jobs))
	for path := range c.contents.derived.late {
		behind[path] = true
	}
	for path := range c.contents.derived.jobs {
		behind[path] = true
	}
	return behind
}

// isPresent reports whether a derived service is of its global service as that is now. One whose derivation
// fails keeps what it had.
func (all Globals) isPresent(service *catalog.Service) bool {
	object, ok := all.Catalog.Object(catalog.Key{Kind: catalog.KindGlobalService, Name: service.Derived.Global})
	return ok && object.Meta().ResourceVersion == service.ResourceVersion
}

// DerivedConfigs composes configurations of derived services with their secrets; sqlstore.Globals implements
// it.
type DerivedConfigs interface {
	// DerivedConfig returns the configuration of a derived service in its SeenCluster, and its digest,
	// as they follow from the stored state. Errors: *catalog.NotFoundError, catalog.ErrUnavailable.
	DerivedConfig(ctx context.Context, service *catalog.Service, cluster *catalog.Cluster) (catalog.Config, string, error)
}

// SeenCluster returns the cluster of a service as the service's project knows it: see
// [catalog.Cluster.SeenBy].
func (all Globals) SeenCluster(service *catalog.Service) (cluster *catalog.Cluster, ok bool) {
	c := all.Catalog
	if cluster, ok = c.Cluster(service.Spec.Cluster); !ok {
		return nil, false
	}
	return cluster.SeenBy(c.project(objectname.Project(service.Name)), c.project(objectname.Project(cluster.Name))), true
}

// Configs are the configurations of all services, with their secrets, which the view does not keep. It
// is safe for concurrent use.
type Configs struct {
	View    *View
	Stored  catalog.Configs
	Derived DerivedConfigs
}

// Config returns the configuration of a service in a plan, given its path and its uid, and its
// digest. A derived service is derived once more from the stored state, so configuration and digest
// belong together even if the view is a moment behind.
func (c Configs) Config(ctx context.Context, path, uid string) (catalog.Config, string, error) {
	service, ok := c.View.Catalog.Service(path)
	if !ok || service.Derived == nil || service.UID != uid {
		return c.Stored.Config(ctx, uid)
	}
	cluster, ok := Globals{c.View.Catalog}.SeenCluster(service)
	if !ok {
		return catalog.Config{}, "", &catalog.NotFoundError{Key: service.Key()}
	}
	config, digest, err := c.Derived.DerivedConfig(ctx, service, cluster)
	if err != nil {
		return catalog.Config{}, "", err
	}
	if planned := c.View.admitted.withConfig(service, c.View.admitted.of(uid)); digest != planned.ConfigDigest && (Globals{c.View.Catalog}).isBehind(service.Derived.Global) {
		return catalog.Config{}, "", catalog.ErrBehind
	}
	return config, digest, nil
}

// isAwaited reports whether a cluster waits for the first turn of a derivation.
func (all Globals) isAwaited(cluster *catalog.Cluster) bool {
	c := all.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, j := range c.contents.derived.jobs {
		if !j.isSettled && j.covers(cluster.Name) && maySelectLocked(&c.contents.shelves, j.global, cluster) {
			return true
		}
	}
	return false
}

// isExpected reports whether a report is about a service that may be derived later.
func (all Globals) isExpected(report catalog.StoredReport) bool {
	c := all.Catalog
	local, _ := objectname.SplitService(report.Service)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return isUnknownLocked(c.contents.derived, local)
}
