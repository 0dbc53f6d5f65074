// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Members is the view for the store of agents' reports. It is safe for concurrent use.
type Members struct{ View *View }

var _ catalog.Members = Members{}

// asked is a global service whose condition decides about a cluster.
type asked struct {
	global   *catalog.GlobalService
	compiled *derive.Global
	// own is the project of the global service, and owner the project of the cluster.
	own, owner *catalog.Project
}

// Judge implements catalog.Members. All changes of a call may cost what one review may, and each global
// service has an equal share, so that one which costs much decides nothing about the rest. A condition that
// costs more counts as no longer met: its members are held rather than taken away.
func (m Members) Judge(changes []catalog.FactsChange) [][]catalog.Judgement {
	compiled, byGlobal := map[string]*derive.Global{}, map[string]map[int]asked{}
	for i, change := range changes {
		if catalog.SameFacts(change.Before.Agent.Report, change.After.Agent.Report) {
			continue
		}
		for _, a := range m.asked(change.After, compiled) {
			if byGlobal[a.global.Name] == nil {
				byGlobal[a.global.Name] = map[int]asked{}
			}
			byGlobal[a.global.Name][i] = a
		}
	}
	whole := expression.WithBudget(context.Background(), reviewUnits)
	judgements := make([][]catalog.Judgement, len(changes))
	for _, path := range slices.Sorted(maps.Keys(byGlobal)) {
		m.judge(expression.WithBudget(whole, reviewUnits/uint64(len(byGlobal))), changes, byGlobal[path], judgements)
	}
	return judgements
}

// judge adds what changes mean for one global service, by the index of the change.
func (m Members) judge(ctx context.Context, changes []catalog.FactsChange, all map[int]asked, judgements [][]catalog.Judgement) {
	var members map[string]struct{}
	for _, i := range slices.Sorted(maps.Keys(all)) {
		a := all[i]
		wasMet, isMet := a.judge(ctx, changes[i])
		if !wasMet && !isMet {
			continue
		}
		j := catalog.Judgement{GlobalUID: a.global.UID, Removal: a.global.Spec.Removal, IsMet: isMet}
		if !isMet {
			if members == nil {
				members = m.members(a.global.Name)
			}
			j.Members = members
		}
		judgements[i] = append(judgements[i], j)
	}
}

// judge reports whether a cluster met the condition before a change, and whether it does after it.
// A condition that cannot be evaluated is met, and one that costs too much was met and no longer
// is.
func (a asked) judge(ctx context.Context, change catalog.FactsChange) (wasMet, isMet bool) {
	if expression.IsSpent(ctx) {
		return true, false
	}
	_, wasMet, err := a.compiled.Matches(ctx, derive.ClusterFor(change.Before, a.own, a.owner))
	wasMet = wasMet || err != nil
	_, isMet, err = a.compiled.Matches(ctx, derive.ClusterFor(change.After, a.own, a.owner))
	isSpent := expression.IsSpent(ctx)
	return wasMet || isSpent, isMet || err != nil && !isSpent
}

// asked returns the global services that select a cluster if their condition holds there, by path.
// compiled keeps the ones that it had to compile.
func (m Members) asked(cluster *catalog.Cluster, compiled map[string]*derive.Global) []asked {
	c := m.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []asked
	for _, global := range c.contents.globals.all() {
		if global.Spec.Clusters.When == "" || !maySelectLocked(&c.contents.shelves, global, cluster) {
			continue
		}
		if current := c.contents.services.Service(global.DerivedPath(cluster.Name)); current != nil && current.Derived == nil {
			continue // a person's service has the name
		}
		known := cmp.Or(c.contents.derived.globals[global.Name], compiled[global.Name])
		if known == nil {
			var err error
			if known, err = derive.CompileSelection(global); err != nil {
				continue // a later version of the hub wrote it, and nothing is derived
			}
			compiled[global.Name] = known
		}
		projects := c.contents.projects.objects
		own, owner := projects[objectname.Project(global.Name)], projects[objectname.Project(cluster.Name)]
		all = append(all, asked{global, known, own, owner})
	}
	return all
}

// members returns the uids of the derived services of a global service.
func (m Members) members(path string) map[string]struct{} {
	c := m.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	uids := map[string]struct{}{}
	for member := range c.contents.indexed.names.inClusters(path) {
		if service := c.contents.services.Service(member); service.Derived != nil {
			uids[service.UID] = struct{}{}
		}
	}
	return uids
}

// heldProblem explains why a cluster keeps a service that its global service no longer selects.
func heldProblem(service *catalog.Service, departure catalog.Departure) *catalog.Problem {
	return &catalog.Problem{Reason: reason.RemovalHeld, Since: departure.At, Message: fmt.Sprintf(
		"what the agent of cluster %s reports no longer meets spec.clusters.when of global service %s; the service stays until a person agrees to its removal",
		objectname.Display(service.Spec.Cluster), objectname.Display(service.Derived.Global))}
}

// heldProblemLocked asks a person about the clusters of a global service that are held, or returns nil.
func heldProblemLocked(c *contents, global *catalog.GlobalService) *catalog.Problem {
	departures := c.derived.departures[global.UID]
	agrees := departures.Digest(global.UID)
	if agrees == "" {
		return nil
	}
	var names []string
	var since time.Time
	for path := range c.indexed.names.inClusters(global.Name) {
		service := c.services.Service(path)
		if departure := departures[service.UID]; departure.State == catalog.DepartureHeld {
			names = append(names, objectname.Display(service.Spec.Cluster))
			if since.IsZero() || departure.At.Before(since) {
				since = departure.At
			}
		}
	}
	slices.Sort(names)
	count, text := len(names), strings.Join(names[:min(len(names), maxNamed)], ", ")
	if count > maxNamed {
		text += " and others"
	}
	members := countMembersLocked(c, global.Name)
	return &catalog.Problem{Reason: reason.RemovalHeld, Since: since, Message: fmt.Sprintf(
		"what agents report no longer meets spec.clusters.when in %d of %d clusters (%s), which is more than spec.removal allows, so they keep the service; "+
			"correct the condition, or agree with leat prune confirm globalservice/%s, which sets spec.removal.confirmation: %s",
		count, members, text, objectname.Display(global.Name), agrees)}
}
