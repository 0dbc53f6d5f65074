// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Edited is the effect of an edit of a service, or of a global service, on the services under a
// policy.
type Edited struct {
	// Policy decides about Service, which is the one that was edited, or the first derived one that waits. Nil: the
	// edit concerns no policy.
	Policy  *catalog.RolloutPolicy
	Service *catalog.Service
	// Want has the spec and the configuration that the edit asks for.
	Want catalog.Release
	// Waits is true if the service has another release until a rollout admits this one. IsBehind is true if that is
	// not known yet, because the services of the global service are being derived.
	Waits, IsBehind bool
}

// Edited returns what an edit of an object asks for.
func (r Rollouts) Edited(object catalog.Object) Edited {
	v, edited := r.View, Edited{}
	if asked := edits[object.Key().Kind].asked; asked != nil {
		edited = asked(r, object)
	}
	if edited.Service == nil {
		return edited
	}
	edited.Policy = Policies{v.Catalog}.of(edited.Service)
	edited.Want = catalog.Release{Spec: v.admitted.staged.of(edited.Service.Spec), Config: edited.Service.ConfigName}
	edited.Waits = v.admitted.isHeld(edited.Service)
	return edited
}

// IsBroughtBy reports whether a release has the spec and the configuration that the edit asks for.
func (e Edited) IsBroughtBy(release catalog.Release) bool {
	return release.IsOf(e.Want.Spec) && (release.Config == "" || release.Config == e.Want.Config)
}

// Warning reports that an edit of an object waits for a rollout, as a sentence, or "".
func (r Rollouts) Warning(object catalog.Object) string {
	var held *catalog.Service
	if find := edits[object.Key().Kind].held; find != nil {
		held = find(r, object)
	}
	if held == nil {
		return ""
	}
	if policy := (Policies{r.View.Catalog}).of(held); policy != nil {
		return fmt.Sprintf("held by rolloutpolicy %s until its rollout admits it", objectname.Display(policy.Name))
	}
	return ""
}

// edit is the effect of an edit of an object of one kind on services under policies. Nil: none.
type edit struct {
	// asked returns an Edited with its Service, or without one, and whether that is behind.
	asked func(Rollouts, catalog.Object) Edited
	// held returns a service that the edit concerns and that a rollout holds, or nil.
	held func(Rollouts, catalog.Object) *catalog.Service
}

// edits are those of the kinds whose edits change what services under policies run: see catalog.Object's
// changesRelease.
var edits = map[catalog.Kind]edit{
	catalog.KindService:       {ofKind(Rollouts.ofService), ofKind(Rollouts.heldService)},
	catalog.KindGlobalService: {ofKind(Rollouts.ofGlobal), ofKind(Rollouts.heldMember)},
	catalog.KindConfigSet:     {nil, ofKind(Rollouts.heldBySet)},
	catalog.KindProject:       {nil, ofKind(Rollouts.heldByProject)},
}

func (r Rollouts) ofService(service *catalog.Service) Edited {
	own, _ := r.View.Catalog.Service(service.Name)
	return Edited{Service: own}
}

func (r Rollouts) heldService(service *catalog.Service) *catalog.Service {
	if r.View.admitted.isHeld(service) {
		return service
	}
	return nil
}

// ofGlobal returns the first derived service of a global service that is held, or the first of all,
// if a policy may decide about them. Whether they are behind is asked first: services that are
// derived meanwhile are seen then.
func (r Rollouts) ofGlobal(global *catalog.GlobalService) Edited {
	c := r.View.Catalog
	mayDecide := func(p *catalog.RolloutPolicy) bool {
		return objectname.Project(p.Name) == objectname.Project(global.Name)
	}
	if !slices.ContainsFunc(Policies{c}.inOrder(), mayDecide) {
		return Edited{}
	}
	isLate := Globals{c}.isBehind(global.Name)
	first, held := r.members(global)
	return Edited{Service: cmp.Or(held, first), IsBehind: isLate}
}

func (r Rollouts) heldMember(global *catalog.GlobalService) *catalog.Service {
	_, held := r.members(global)
	return held
}

// members returns the first derived service of a global service, and the first one that a rollout holds. Each may be nil.
func (r Rollouts) members(global *catalog.GlobalService) (first, held *catalog.Service) {
	for _, member := range (Globals{r.View.Catalog}).Members(global.Name, "") {
		if service := member.Service; service.Derived != nil {
			if first = cmp.Or(first, service); r.View.admitted.isHeld(service) {
				return first, service
			}
		}
	}
	return first, nil
}

func (r Rollouts) heldBySet(set *catalog.ConfigSet) *catalog.Service {
	sets := r.referring(set.Name)
	return r.configHeld(func(s *catalog.Service) bool { return r.mayUse(s, sets) })
}

func (r Rollouts) heldByProject(project *catalog.Project) *catalog.Service {
	if len(project.Spec.ConfigSets) == 0 {
		return nil
	}
	return r.configHeld(func(s *catalog.Service) bool { return objectname.Project(s.Name) == project.Name })
}

// configHeld returns a service of which that is true and which is held at another configuration than its own, the
// first by name, or nil.
func (r Rollouts) configHeld(isMeant func(*catalog.Service) bool) (first *catalog.Service) {
	for _, known := range r.View.admitted.all() {
		service, ok := r.View.Catalog.Service(known.Service)
		if ok && service.UID == known.ServiceUID && isConfigHeld(service, known) && (first == nil || service.Name < first.Name) && isMeant(service) {
			first = service
		}
	}
	return first
}

// hasSets reports whether the configuration of a service has layers or references that other services may share.
func (r Rollouts) hasSets(service *catalog.Service) bool {
	if len(service.Spec.ConfigSets) > 0 || service.Spec.Config.NamesSets() {
		return true
	}
	own := r.View.Catalog.project(objectname.Project(service.Name))
	return own != nil && len(own.Spec.ConfigSets) > 0
}

// mayUse reports whether the configuration of a service is made of a set, or of one of others that refer to it.
func (r Rollouts) mayUse(service *catalog.Service, sets map[string]bool) bool {
	project := objectname.Project(service.Name)
	var listed []string
	if own := r.View.Catalog.project(project); own != nil {
		listed = own.Spec.ConfigSets
	}
	for set := range sets {
		isListed := slices.Contains(listed, set) || slices.Contains(service.Spec.ConfigSets, set)
		if isListed || service.Spec.Config.NamesSet(project, set) {
			return true
		}
	}
	return false
}

// referring returns a set and all sets with references that lead to it.
func (r Rollouts) referring(set string) map[string]bool {
	r.View.Catalog.mu.RLock()
	all := maps.Clone(r.View.Catalog.contents.sets.objects)
	r.View.Catalog.mu.RUnlock()
	found := map[string]bool{set: true}
	for next := []string{set}; len(next) > 0; next = next[1:] {
		for name, other := range all {
			if !found[name] && other.Spec.Config.NamesSet(objectname.Project(name), next[0]) {
				found[name] = true
				next = append(next, name)
			}
		}
	}
	return found
}
