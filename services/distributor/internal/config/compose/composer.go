// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Composer composes configurations in one transaction. It reads what several services share once:
// projects, sets, back ends, entries, and configurations that services are held at. The transaction
// changes none of these while a Composer is in use. It is for one goroutine.
type Composer struct {
	store    Reader
	now      time.Time
	projects map[string]*catalog.Project
	sets     map[string]*catalog.ConfigSet // nil: it does not exist
	backends map[string]*catalog.ConfigBackend
	entries  map[EntryKey]Entry
	held     map[string]*Held
	// err is the first error of Set and findFor, whose callers have no way to return one.
	err error
}

// New returns a composer. Problems that begin do so now.
func New(store Reader, now time.Time) *Composer {
	return &Composer{
		store: store, now: now, projects: map[string]*catalog.Project{}, sets: map[string]*catalog.ConfigSet{},
		entries: map[EntryKey]Entry{}, held: map[string]*Held{},
	}
}

// Composition is the configuration of one service.
type Composition struct {
	// Service is the stored service. Of a derived service it holds Given alone.
	*Service

	Layers layers.Composed
	// Literals are the values and secrets of documents, and the references that the agent follows
	// itself. References are those to back ends.
	Literals   *catalog.Config
	References map[string]string
	// name is the name of a catalog.StagedConfig; empty if a layer refers to a missing value.
	name string
	// heldAt is the name of the configuration that a rollout holds the service at. It is empty if no
	// rollout holds it, or at its own. held is that configuration, and nil if it is not stored.
	heldAt string
	held   *Held
}

// Compose returns the configurations of services. One that does not exist is missing.
func (c *Composer) Compose(ctx context.Context, uids []string) ([]*Composition, error) {
	services, err := c.store.Services(ctx, uids)
	if err != nil {
		return nil, err
	}
	all := make([]*Composition, len(services))
	for i, service := range services {
		if all[i], err = c.compose(ctx, service); err != nil {
			return nil, err
		}
	}
	return all, c.loadHeld(ctx, all)
}

func (c *Composer) compose(ctx context.Context, s *Service) (*Composition, error) {
	project, err := c.project(ctx, s.project())
	if err != nil {
		return nil, err
	}
	if s.Cluster == nil {
		return nil, fmt.Errorf("compose configuration of service %s: its cluster does not exist", s.Name)
	}
	owner, err := c.project(ctx, objectname.Project(s.Cluster.Name))
	if err != nil {
		return nil, err
	}
	var in []layers.Layer
	uses := map[string]bool{}
	for _, list := range []struct {
		kind  layers.Kind
		paths []string
	}{{layers.OfProject, project.Spec.ConfigSets}, {layers.OfSet, s.Sets}} {
		for _, path := range list.paths {
			// A set that is listed is used, also if its project has taken the share back since.
			set := c.set(ctx, path)
			if uses[path] = set != nil; set != nil {
				in = append(in, layers.SetLayer(list.kind, set))
			}
		}
	}
	in = append(in, layers.Layer{Origin: layers.Origin{Kind: layers.OfService}, Project: s.project(), Config: s.Own})
	composed := layers.Compose(layers.Input{
		Layers: in, Facts: catalog.FactsOf(s.Name, s.Cluster, project, owner),
		Find: func(path string) *catalog.ConfigSet { return c.findFor(ctx, project, path) },
	})
	for path, isOpen := range uses {
		composed.Sets[path] = isOpen || composed.Sets[path]
	}
	out := &Composition{Service: s, Layers: composed, Literals: composed.Literals(), References: composed.References()}
	out.Literals.References = clusterref.Of(out.References)
	maps.DeleteFunc(out.References, func(_, text string) bool { return clusterref.Is(text) })
	out.Literals.Restart = s.Own != nil && s.Own.Restart
	switch {
	case composed.Waits:
	case out.Literals.Empty() && len(composed.Keys) == 0:
		out.name = catalog.NoConfig
	default:
		out.name = c.store.Digest(canonicalName(s.project(), out.Literals, out.References))
	}
	return out, c.err
}

// findFor returns a set that services of the project may use, or nil.
func (c *Composer) findFor(ctx context.Context, with *catalog.Project, path string) *catalog.ConfigSet {
	set := c.set(ctx, path)
	if set == nil || objectname.Project(path) == with.Name {
		return set
	}
	owner := c.Project(ctx, objectname.Project(path))
	if owner == nil || !owner.SharesSet(with, set) {
		return nil
	}
	return set
}

// Project returns a project, and Set a set with its secrets, as configurations are composed of them.
// They return nil if there is none, and after an error, which Err returns.
func (c *Composer) Project(ctx context.Context, name string) *catalog.Project {
	project, err := c.project(ctx, name)
	c.err = errors.Join(c.err, err)
	return project
}

// Set is described at Project.
func (c *Composer) Set(ctx context.Context, path string) *catalog.ConfigSet { return c.set(ctx, path) }

// Err returns the errors of Project and Set.
func (c *Composer) Err() error { return c.err }

func (c *Composer) project(ctx context.Context, name string) (*catalog.Project, error) {
	if project, isKnown := c.projects[name]; isKnown {
		return project, nil
	}
	project, err := c.store.Project(ctx, name)
	if err != nil {
		return nil, err
	}
	c.projects[name] = project
	return project, nil
}

func (c *Composer) set(ctx context.Context, path string) *catalog.ConfigSet {
	if set, isKnown := c.sets[path]; isKnown {
		return set
	}
	set, err := c.store.Set(ctx, path)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return nil
	}
	c.sets[path] = set
	return set
}

// loadHeld adds to compositions the configurations that their services are held at, where these are
// not their own.
func (c *Composer) loadHeld(ctx context.Context, all []*Composition) error {
	var missing []string
	for _, s := range all {
		if s.HeldName == s.name {
			continue
		}
		s.heldAt = s.HeldName
		if _, isKnown := c.held[s.heldAt]; !isKnown && s.heldAt != "" && s.heldAt != catalog.NoConfig {
			missing = append(missing, s.heldAt)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		found, err := c.store.Held(ctx, slices.Compact(missing))
		if err != nil {
			return err
		}
		maps.Copy(c.held, found)
	}
	for _, s := range all {
		s.held = c.held[s.heldAt]
	}
	return nil
}

// knownBackends returns the back ends by name.
func (c *Composer) knownBackends(ctx context.Context) (map[string]*catalog.ConfigBackend, error) {
	if c.backends != nil {
		return c.backends, nil
	}
	all, err := c.store.Backends(ctx)
	if err != nil {
		return nil, err
	}
	c.backends = make(map[string]*catalog.ConfigBackend, len(all))
	for _, backend := range all {
		c.backends[backend.Name] = backend
	}
	return c.backends, nil
}

// entriesOf returns the entries that references lead into. A reference to a back end that does not
// exist leads into none.
func (c *Composer) entriesOf(ctx context.Context, references map[string]string) (map[EntryKey]configs.Place, error) {
	if len(references) == 0 {
		return nil, nil
	}
	backends, err := c.knownBackends(ctx)
	if err != nil {
		return nil, err
	}
	places := map[EntryKey]configs.Place{}
	for _, text := range references {
		reference, err := catalog.ParseReference(text)
		if backend := backends[reference.Backend]; err == nil && backend != nil {
			places[EntryKey{backend.UID, reference.Path}] = configs.Place{Backend: reference.Backend, Path: reference.Path}
		}
	}
	return places, nil
}

// loadEntries reads entries that are not known yet.
func (c *Composer) loadEntries(ctx context.Context, keys []EntryKey) error {
	missing := slices.DeleteFunc(slices.Clone(keys), func(key EntryKey) bool {
		_, isKnown := c.entries[key]
		return isKnown
	})
	if len(missing) == 0 {
		return nil
	}
	found, err := c.store.Entries(ctx, missing)
	maps.Copy(c.entries, found)
	return err
}

// resolve decides what a service of the project is given for references. Their entries are loaded.
func (c *Composer) resolve(
	ctx context.Context, project string, references map[string]string, given map[string]configs.Value,
) (configs.Outcome, error) {
	if len(references) == 0 {
		return configs.Outcome{}, nil
	}
	places, err := c.entriesOf(ctx, references)
	if err != nil {
		return configs.Outcome{}, err
	}
	entries := make(map[configs.Place]configs.State, len(places))
	for key, place := range places {
		if entry, isKnown := c.entries[key]; isKnown {
			entries[place] = entry.State
		}
	}
	return configs.Resolve(configs.Request{
		References: references, Project: project, Backends: c.backends, Entries: entries, Given: given, Now: c.now,
	}), nil
}

func sortedEntries[V any](m map[EntryKey]V) []EntryKey {
	return slices.SortedFunc(maps.Keys(m), EntryKey.Compare)
}
