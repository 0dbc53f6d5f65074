// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/clusterref"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// composer composes the configurations of services in one transaction. It reads what several of them
// share once: sets, projects, clusters and entries. It is for one goroutine, and for a transaction that
// changes none of these meanwhile.
type composer struct {
	t        *tx
	sets     map[string]*catalog.ConfigSet // with secrets; nil: there is none
	projects map[string]*catalog.Project
	clusters map[string]*catalog.Cluster // by uid
	entries  map[string]entryState
	held     map[string]*heldConfig            // by name
	backends map[string]*catalog.ConfigBackend // nil: not read yet
	// err is the first one that find met.
	err error
}

type entryState struct {
	row   *entryRow
	state configs.State
}

func newComposer(t *tx) *composer {
	return &composer{
		t: t, sets: map[string]*catalog.ConfigSet{}, projects: map[string]*catalog.Project{}, clusters: map[string]*catalog.Cluster{},
		entries: map[string]entryState{}, held: map[string]*heldConfig{},
	}
}

// composition is the configuration of one service.
type composition struct {
	row *serviceRow
	layers.Composed
	// literals are the values and secrets of documents, and what the agent follows itself. references are
	// those to back ends.
	literals   *catalog.Config
	references map[string]string
	// given holds the service's values for references.
	given map[string]configs.Value
	// name is the name of a catalog.StagedConfig; empty if a layer refers to a missing value.
	name string
	// heldName is the name of the configuration that a rollout holds the service at; empty if that is its own
	// or no rollout holds it. held is that configuration, and nil if there is none or it is not
	// stored. heldGiven holds the service's values for the references of held.
	heldName  string
	held      *heldConfig
	heldGiven map[string]configs.Value
}

// compose returns the configurations of services; of one that does not exist there is none.
func (c *composer) compose(ctx context.Context, uids []string) ([]*composition, error) {
	var rows []*serviceRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return nil, translate("read services", err)
	}
	if err := c.loadClusters(ctx, rows); err != nil {
		return nil, err
	}
	own, err := c.ownConfigs(ctx, rows)
	if err != nil {
		return nil, err
	}
	given, err := c.given(ctx, uids)
	if err != nil {
		return nil, err
	}
	all := make([]*composition, len(rows))
	for i, row := range rows {
		if all[i], err = c.composeOne(ctx, row, own[row.UID]); err != nil {
			return nil, err
		}
		all[i].given = given[row.UID]
	}
	return all, c.loadHeld(ctx, all, uids)
}

func (c *composer) composeOne(ctx context.Context, row *serviceRow, own *catalog.Config) (*composition, error) {
	project, err := c.project(ctx, row.Project)
	if err != nil {
		return nil, err
	}
	cluster := c.clusters[row.ClusterUID]
	if cluster == nil {
		return nil, fmt.Errorf("compose configuration of service %s: its cluster is not there", row.Name)
	}
	owner, err := c.project(ctx, objectname.Project(cluster.Name))
	if err != nil {
		return nil, err
	}
	out := &composition{row: row}
	var in []layers.Layer
	uses := map[string]bool{}
	for _, list := range []struct {
		kind  layers.Kind
		paths []string
	}{{layers.OfProject, project.Spec.ConfigSets}, {layers.OfSet, row.Spec.v.ConfigSets}} {
		for _, path := range list.paths {
			// A set that is listed is used, also if its project has taken the share back since.
			set := c.set(ctx, path)
			if uses[path] = set != nil; set != nil {
				in = append(in, layers.SetLayer(list.kind, set))
			}
		}
	}
	in = append(in, layers.Layer{Origin: layers.Origin{Kind: layers.OfService}, Project: row.Project, Config: own})
	out.Composed = layers.Compose(layers.Input{
		Layers: in, Facts: catalog.FactsOf(row.Name, cluster, project, owner),
		Find: func(path string) *catalog.ConfigSet { return c.findFor(ctx, project, path) },
	})
	for path, isOpen := range uses {
		out.Sets[path] = isOpen || out.Sets[path]
	}
	out.literals, out.references = out.Literals(), out.References()
	out.literals.References = clusterref.Of(out.references)
	maps.DeleteFunc(out.references, func(_, text string) bool { return clusterref.Is(text) })
	out.literals.Restart = own != nil && own.Restart
	out.name = c.nameConfig(out)
	return out, c.err
}

// findFor returns a set that services of the project may use.
func (c *composer) findFor(ctx context.Context, with *catalog.Project, path string) *catalog.ConfigSet {
	set := c.set(ctx, path)
	if set == nil || objectname.Project(path) == with.Name {
		return set
	}
	owner, err := c.project(ctx, objectname.Project(path))
	if err != nil {
		c.err = errors.Join(c.err, err)
		return nil
	}
	if !owner.SharesSet(with, set) {
		return nil
	}
	return set
}

// set returns a set with its secrets, or nil.
func (c *composer) set(ctx context.Context, path string) *catalog.ConfigSet {
	if set, known := c.sets[path]; known {
		return set
	}
	row, err := storedSets.find(ctx, c.t.sql, "name", path)
	if errors.Is(err, sql.ErrNoRows) {
		c.sets[path] = nil
		return nil
	}
	if err == nil {
		c.sets[path], err = storedSets.opened(c.t.store.keys, row)
	}
	if err != nil {
		c.err = errors.Join(c.err, translate("read set", err))
		return nil
	}
	return c.sets[path]
}

func (c *composer) project(ctx context.Context, name string) (*catalog.Project, error) {
	if project, known := c.projects[name]; known {
		return project, nil
	}
	row, err := storedProjects.find(ctx, c.t.sql, "name", name)
	switch {
	case errors.Is(err, sql.ErrNoRows) && name == objectname.Default:
		c.projects[name] = catalog.DefaultProject()
	case err != nil:
		return nil, translate("read project", err)
	default:
		c.projects[name] = storedProjects.object(row)
	}
	return c.projects[name], nil
}

// loadClusters reads the clusters of services that are not known yet.
func (c *composer) loadClusters(ctx context.Context, rows []*serviceRow) error {
	var missing []string
	for _, row := range rows {
		if c.clusters[row.ClusterUID] == nil {
			missing = append(missing, row.ClusterUID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	var clusters []*clusterRow
	err := c.t.sql.NewSelect().Model(&clusters).Column("uid", "name", "labels", "annotations").
		Where("uid IN (?)", bun.List(slices.Compact(missing))).Scan(ctx)
	for _, row := range clusters {
		c.clusters[row.UID] = &catalog.Cluster{Metadata: row.metadata()}
	}
	return translate("read clusters", err)
}

// ownConfigs returns the configurations in the documents of services, with secrets, by uid.
func (c *composer) ownConfigs(ctx context.Context, rows []*serviceRow) (map[string]*catalog.Config, error) {
	own := make(map[string]*catalog.Config, len(rows))
	var secret []string
	for _, row := range rows {
		own[row.UID] = row.Config.v.shown()
		if len(row.Config.v.Secrets) > 0 {
			secret = append(secret, row.UID)
		}
	}
	if len(secret) == 0 {
		return own, nil
	}
	var sealed []*secretsRow
	if err := c.t.sql.NewSelect().Model(&sealed).Where("service_uid IN (?)", bun.List(secret)).Scan(ctx); err != nil {
		return nil, translate("read secrets of services", err)
	}
	if len(sealed) != len(secret) {
		return nil, errors.New("read secrets of services: some are not there")
	}
	for _, row := range sealed {
		secrets, err := row.open(c.t.store.keys)
		if err != nil {
			return nil, err
		}
		own[row.ServiceUID].Secrets = secrets
	}
	return own, nil
}

// given returns what services were given for references, by uid.
func (c *composer) given(ctx context.Context, uids []string) (map[string]map[string]configs.Value, error) {
	var rows []*givenRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return nil, translate("read given values", err)
	}
	given := make(map[string]map[string]configs.Value, len(rows))
	for _, row := range rows {
		values, err := openValues(c.t.store, givenValues, row.ServiceUID, row.Sealed)
		if err != nil {
			return nil, err
		}
		given[row.ServiceUID] = values
	}
	return given, nil
}

// knownBackends returns the back ends by name.
func (c *composer) knownBackends(ctx context.Context) (map[string]*catalog.ConfigBackend, error) {
	if c.backends != nil {
		return c.backends, nil
	}
	all, err := storedBackends.list(ctx, c.t.sql.NewSelect())
	if err != nil {
		return nil, translate("read configuration back ends", err)
	}
	c.backends = make(map[string]*catalog.ConfigBackend, len(all))
	for _, backend := range all {
		c.backends[backend.Name] = backend
	}
	return c.backends, nil
}

// placesOf returns the ids of the entries that references lead into. References to back ends that do
// not exist lead into none.
func (c *composer) placesOf(ctx context.Context, references map[string]string) (map[string]configs.Place, error) {
	if len(references) == 0 {
		return nil, nil
	}
	backends, err := c.knownBackends(ctx)
	if err != nil {
		return nil, err
	}
	places := map[string]configs.Place{}
	for _, text := range references {
		reference, err := catalog.ParseReference(text)
		backend := backends[reference.Backend]
		if err == nil && backend != nil {
			places[entryID(backend.UID, reference.Path)] = configs.Place{Backend: reference.Backend, Path: reference.Path}
		}
	}
	return places, nil
}

// loadEntries reads entries that are not known yet.
func (c *composer) loadEntries(ctx context.Context, ids []string) error {
	var missing []string
	for _, id := range ids {
		if _, known := c.entries[id]; !known {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var rows []*entryRow
	if err := c.t.sql.NewSelect().Model(&rows).Where("id IN (?)", bun.List(missing)).Scan(ctx); err != nil {
		return translate("read entries", err)
	}
	for _, row := range rows {
		state, err := stateOf(c.t.store, row)
		if err != nil {
			return err
		}
		c.entries[row.ID] = entryState{row, state}
	}
	return nil
}

// request is the input of resolve.
type request struct {
	references map[string]string
	project    string
	given      map[string]configs.Value
}

// resolve decides about the values for references. Their entries are loaded.
func (c *composer) resolve(ctx context.Context, r request) (configs.Outcome, error) {
	if len(r.references) == 0 {
		return configs.Outcome{}, nil
	}
	places, err := c.placesOf(ctx, r.references)
	if err != nil {
		return configs.Outcome{}, err
	}
	entries := make(map[configs.Place]configs.State, len(places))
	for id, place := range places {
		if known, ok := c.entries[id]; ok {
			entries[place] = known.state
		}
	}
	return configs.Resolve(configs.Request{
		References: r.references, Project: r.project, Backends: c.backends, Entries: entries, Given: r.given, Now: catalog.Now(),
	}), nil
}
