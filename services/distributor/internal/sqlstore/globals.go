// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// globalRow is a stored global service. The secrets are sealed together and bound to its uid.
type globalRow struct {
	bun.BaseModel `bun:"table:global_services,alias:gs"`
	metaColumns
	Project string                      `bun:"project"`
	Spec    column[globalColumn]        `bun:"spec"`
	Digests column[[]map[string]string] `bun:"digests"`
	Secrets []byte                      `bun:"secrets"`
}

// globalColumn is the stored form of a catalog.GlobalServiceSpec, without secrets.
type globalColumn struct {
	Description string                `json:"description,omitempty"`
	Clusters    catalog.ClusterTarget `json:"clusters"`
	Labels      map[string]string     `json:"labels,omitempty"`
	Annotations map[string]string     `json:"annotations,omitempty"`
	Template    specColumn            `json:"template"`
	Values      map[string]string     `json:"values,omitempty"`
	References  map[string]string     `json:"references,omitempty"`
	Restart     bool                  `json:"restart,omitempty"`
	Overrides   []overrideColumn      `json:"overrides,omitempty"`
	Paused      bool                  `json:"paused,omitempty"`
	Removal     catalog.RemovalPolicy `json:"removal,omitzero"`
}

type overrideColumn struct {
	Name       string                `json:"name"`
	Clusters   catalog.ClusterTarget `json:"clusters"`
	ConfigSets []string              `json:"configSets,omitempty"`
	Values     map[string]string     `json:"values,omitempty"`
	References map[string]string     `json:"references,omitempty"`
	Restart    bool                  `json:"restart,omitempty"`
	catalog.ServicePatch
}

// derivedRow is what is stored of a derived service.
type derivedRow struct {
	bun.BaseModel      `bun:"table:derived_services,alias:ds"`
	UID                string                     `bun:"uid,pk"`
	GlobalUID          string                     `bun:"global_uid"`
	ClusterUID         string                     `bun:"cluster_uid"`
	SyncRequest        string                     `bun:"sync_request"`
	Exception          column[*catalog.Exception] `bun:"exception"`
	Departure          column[*catalog.Departure] `bun:"departure"`
	Report             string                     `bun:"report"`
	Entry              string                     `bun:"entry"`
	ObservedGeneration int64                      `bun:"observed_generation"`
	Revision           int64                      `bun:"revision"`
	Global             string                     `bun:"global,scanonly"`
	Cluster            string                     `bun:"cluster,scanonly"`
}

type derivedRevisionRow struct {
	bun.BaseModel `bun:"table:derived_revisions,alias:dr"`
	ServiceUID    string                   `bun:"service_uid,pk"`
	Number        int64                    `bun:"number,pk"`
	Revision      column[catalog.Revision] `bun:"revision"`
}

// noReport is the stored form of a report that there is not.
const noReport = "null"

// globalColumnOf returns the stored form of a spec.
func globalColumnOf(spec catalog.GlobalServiceSpec) globalColumn {
	t := spec.Template
	c := globalColumn{
		Description: spec.Description, Clusters: spec.Clusters, Labels: t.Labels, Annotations: t.Annotations, Template: specOf(t.Spec),
		Paused: spec.Paused, Removal: spec.Removal,
	}
	if config := t.Spec.Config; config != nil {
		c.Values, c.References, c.Restart = config.Values, config.References, config.Restart
	}
	for _, override := range spec.Overrides {
		o := overrideColumn{Name: override.Name, Clusters: override.Clusters, ConfigSets: override.ConfigSets, ServicePatch: override.Patch}
		if config := override.Config; config != nil {
			o.Values, o.References, o.Restart = config.Values, config.References, config.Restart
		}
		c.Overrides = append(c.Overrides, o)
	}
	return c
}

// global returns the row without its secrets: only their keys.
func (r *globalRow) global() *catalog.GlobalService { return r.withSecrets(nil) }

// withSecrets returns the row with these secrets, by layer and key; nil: with their keys.
func (r *globalRow) withSecrets(secrets []map[string]string) *catalog.GlobalService {
	c := r.Spec.v
	options := c.Template.Options
	options.Paused = options.Paused && !c.Template.Unpaused
	digests := r.Digests.v
	configOf := func(layer int, values, references map[string]string, restart bool) *catalog.Config {
		config := &catalog.Config{Values: values, Secrets: map[string]secret.Text{}, References: references, Restart: restart}
		if layer < len(digests) {
			for key := range digests[layer] {
				config.Secrets[key] = ""
				if layer < len(secrets) {
					config.Secrets[key] = secret.Text(secrets[layer][key])
				}
			}
		}
		if config.Empty() {
			return nil
		}
		return config
	}
	g := &catalog.GlobalService{Metadata: r.metadata(), SecretDigests: digests, Spec: catalog.GlobalServiceSpec{
		Description: c.Description, Clusters: c.Clusters, Paused: c.Paused, Removal: c.Removal,
		Template: catalog.ServiceTemplate{Labels: c.Labels, Annotations: c.Annotations, Spec: catalog.ServiceSpec{
			Sources: c.Template.Sources, Options: &options, Config: configOf(0, c.Values, c.References, c.Restart), ConfigSets: c.Template.ConfigSets,
		}},
	}}
	for i, o := range c.Overrides {
		g.Spec.Overrides = append(g.Spec.Overrides, catalog.ServiceOverride{
			Name: o.Name, Clusters: o.Clusters, Patch: o.ServicePatch, ConfigSets: o.ConfigSets,
			Config: configOf(i+1, o.Values, o.References, o.Restart),
		})
	}
	return g
}

// openedGlobal returns the row with its secrets.
func openedGlobal(s *Store, row *globalRow) (*catalog.GlobalService, error) {
	if len(row.Secrets) == 0 {
		return row.global(), nil
	}
	plain, err := s.secrets.Open(row.Secrets, globalPlace(row.UID))
	if err != nil {
		return nil, fmt.Errorf("open secrets of global service %s: %w", row.Name, err)
	}
	var secrets []map[string]string
	if err := json.Unmarshal(plain, &secrets); err != nil {
		return nil, fmt.Errorf("read secrets of global service %s: not the JSON that was sealed", row.Name) // err may hold a part of them
	}
	return row.withSecrets(secrets), nil
}

// globalPlace differs from every uid of a service.
func globalPlace(uid string) []byte { return []byte("global " + uid) }

func (r *globalRow) object(_ context.Context, t *tx) (catalog.Object, error) {
	return openedGlobal(t.store, r)
}

// putGlobal stores a global service.
func putGlobal(ctx context.Context, t *tx, meta metaColumns, g *catalog.GlobalService) error {
	row := &globalRow{metaColumns: meta, Project: objectname.Project(g.Name), Spec: columnOf(globalColumnOf(g.Spec))}
	secrets, digests, hasSecrets := []map[string]string{}, []map[string]string{}, false
	for _, config := range g.Configs() {
		plain, keyed := map[string]string{}, map[string]string{}
		if config != nil {
			for key, text := range config.Secrets {
				plain[key], hasSecrets = text.Reveal(), true
				keyed[key] = t.store.keys.digests.Load().Fingerprint(keyedSecret("leat.global.secret.v1\x00", g.UID, key, text))
			}
		}
		secrets, digests = append(secrets, plain), append(digests, keyed)
	}
	row.Digests = columnOf(digests)
	if hasSecrets {
		text, err := json.Marshal(secrets)
		if err != nil {
			return errors.New("encode secrets")
		}
		if row.Secrets, err = t.store.secrets.Seal(text, globalPlace(g.UID)); err != nil {
			return fmt.Errorf("seal secrets: %w", err)
		}
	}
	if err := t.upsert(ctx, row, "spec", "digests", "secrets"); err != nil {
		return err
	}
	if _, err := t.sql.NewDelete().Table("global_service_sources").Where("global_uid = ?", g.UID).Exec(ctx); err != nil {
		return err
	}
	names := make([]string, len(g.Spec.Template.Spec.Sources))
	for i, source := range g.Spec.Template.Spec.Sources {
		names[i] = source.Repository
	}
	_, err := t.sql.NewRaw("INSERT INTO global_service_sources (global_uid, repository_uid) SELECT ?, uid FROM repositories WHERE name IN (?)",
		g.UID, bun.List(names)).Exec(ctx)
	return err
}

// keyedSecret writes a secret down for its digest. The uid keeps apart objects that hold the same one:
// nobody is to learn that they do.
func keyedSecret(begin, uid, key string, text secret.Text) []byte {
	b := []byte(begin)
	for _, s := range []string{uid, key, text.Reveal()} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	return b
}

// Globals reads global services with their secrets.
type Globals struct{ Store *Store }

// GlobalService returns the global service with that uid, with its secrets. Error:
// *catalog.NotFoundError.
func (g Globals) GlobalService(ctx context.Context, uid string) (global *catalog.GlobalService, err error) {
	err = g.Store.opening(ctx, func(ctx context.Context) error {
		row := new(globalRow)
		err := g.Store.db.NewSelect().Model(row).Where("uid = ?", uid).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return &catalog.NotFoundError{Key: catalog.Key{Kind: catalog.KindGlobalService, Name: uid}}
		}
		if err != nil {
			return translate("read global service", err)
		}
		global, err = openedGlobal(g.Store, row)
		return err
	})
	return global, err
}

// globalsReading returns the global services that read a repository, at most limit.
func globalsReading(ctx context.Context, t *tx, repository string, limit int64) ([]catalog.Key, error) {
	var names []string
	err := t.sql.NewSelect().TableExpr("global_services AS gs").Column("gs.name").Order("gs.name").Limit(limit).
		Join("JOIN global_service_sources AS ss ON ss.global_uid = gs.uid").
		Join("JOIN repositories AS r ON r.uid = ss.repository_uid").Where("r.name = ?", repository).Scan(ctx, &names)
	keys := make([]catalog.Key, len(names))
	for i, name := range names {
		keys[i] = catalog.Key{Kind: catalog.KindGlobalService, Name: name}
	}
	return keys, translate("list global services of repository", err)
}

// putDerived stores the request for a sync of a derived service. Of its spec there is nothing to store.
func putDerived(ctx context.Context, t *tx, service *catalog.Service) error {
	row, err := newDerivedRow(ctx, t, service)
	if err != nil {
		return err
	}
	row.SyncRequest = service.SyncRequest
	return t.replace(ctx, row, "uid", "sync_request", "revision")
}

// Except implements catalog.Tx.
func (t *tx) Except(ctx context.Context, service *catalog.Service, verbs []string, decide func(*catalog.Exception)) (*catalog.Exception, error) {
	row, err := newDerivedRow(ctx, t, service)
	if err != nil {
		return nil, translate("write exception", err)
	}
	known := new(derivedRow)
	err = t.sql.NewSelect().Model(known).Column("exception").Where("uid = ?", row.UID).Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, translate("read exception", err)
	}
	next := new(catalog.Exception)
	if known.Exception.v != nil {
		*next = *known.Exception.v
	}
	decide(next)
	t.dirty = true
	for _, verb := range verbs {
		t.note(catalog.Change{Verb: verb, Kind: string(catalog.KindService), Name: service.Name, UID: service.UID, Cluster: service.Spec.Cluster})
	}
	row.Exception = columnOf(next)
	return next, translate("write exception", t.replace(ctx, row, "uid", "exception", "revision"))
}

// newDerivedRow returns the row of a derived service that has none yet. Error:
// *catalog.NotFoundError if it is no longer derived.
func newDerivedRow(ctx context.Context, t *tx, service *catalog.Service) (*derivedRow, error) {
	row := &derivedRow{UID: service.UID, GlobalUID: service.Derived.GlobalUID, Report: noReport, Revision: t.revision}
	err := t.sql.NewSelect().Table("clusters").Column("uid").Where("name = ?", service.Spec.Cluster).Scan(ctx, &row.ClusterUID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &catalog.NotFoundError{Key: service.Key()}
	}
	if err != nil {
		return nil, err
	}
	known, err := t.sql.NewSelect().Table("global_services").Where("uid = ?", row.GlobalUID).Exists(ctx)
	if err != nil {
		return nil, err
	}
	if !known || row.UID != catalog.DerivedUID(row.GlobalUID, row.ClusterUID) {
		return nil, &catalog.NotFoundError{Key: service.Key()} // another replica has deleted it meanwhile
	}
	return row, nil
}

// withPlaces adds the names that a derived service is named by.
func withPlaces(query *bun.SelectQuery) *bun.SelectQuery {
	return query.ColumnExpr("ds.*, gs.name AS global, c.name AS cluster").
		Join("JOIN global_services AS gs ON gs.uid = ds.global_uid").Join("JOIN clusters AS c ON c.uid = ds.cluster_uid")
}

func (r *derivedRow) stored() catalog.StoredReport {
	report, damage := decodeReport(r.Report)
	return catalog.StoredReport{
		Service: objectname.ServicePath(r.Global, r.Cluster), ServiceUID: r.UID, Report: report, Damage: damage,
		Entry: r.Entry, ObservedGeneration: r.ObservedGeneration,
	}
}

// isRequested is the condition that people asked for something of a derived service, or that it departed.
// The index derived_services_requested has the same words.
const isRequested = "(ds.sync_request <> '' OR ds.exception NOT IN ('', 'null') OR ds.departure NOT IN ('', 'null'))"

// collectDerived reads what has changed of derived services: at first only what does not come from
// reports.
func collectDerived(ctx context.Context, tx bun.Tx, since int64, changes *catalog.Changes) error {
	query := withPlaces(tx.NewSelect())
	if since == 0 {
		query = query.Where(isRequested)
	} else {
		query = query.Where("ds.revision > ?", since)
	}
	var reports []catalog.StoredReport
	err := list(ctx, query, &reports, func(row *derivedRow) catalog.StoredReport {
		report := row.stored()
		if row.SyncRequest != "" || row.Exception.v != nil || row.Departure.v != nil {
			request := catalog.SyncRequest{
				Service: report.Service, ServiceUID: row.UID, GlobalUID: row.GlobalUID, Request: row.SyncRequest, Exception: row.Exception.v,
			}
			if row.Departure.v != nil {
				request.Departure = *row.Departure.v
			}
			changes.Requests = append(changes.Requests, request)
		}
		return report
	})
	if since > 0 {
		changes.Reports = append(changes.Reports, reports...)
	}
	return err
}

// DerivedReports implements catalog.Log.
func (s *Store) DerivedReports(ctx context.Context, clusterUIDs []string) (reports []catalog.StoredReport, err error) {
	if len(clusterUIDs) == 0 {
		return nil, nil
	}
	query := withPlaces(s.reads.NewSelect()).Where("ds.cluster_uid IN (?)", bun.List(clusterUIDs))
	return reports, translate("read reports of derived services", list(ctx, query, &reports, (*derivedRow).stored))
}

// loadDerived reads what reports of derived services may change. Which services there may be follows from
// the uids of global services and clusters, so an agent cannot name one of another cluster.
func (in *intake) loadDerived(ctx context.Context, reports []catalog.AgentReport) error {
	var globals []string
	if err := in.sql.NewSelect().Table("global_services").Column("uid").Scan(ctx, &globals); err != nil || len(globals) == 0 {
		return translate("read global services", err)
	}
	uids := []string{}
	for _, report := range reports {
		named := make(map[string]bool, len(report.Services))
		for _, service := range report.Services {
			named[service.ServiceUID] = true
		}
		for _, global := range globals {
			uid := catalog.DerivedUID(global, report.ClusterUID)
			if !named[uid] && !report.Full || in.services[uid] != nil {
				continue
			}
			uids = append(uids, uid)
			state := &serviceState{UID: uid, ClusterUID: report.ClusterUID, GlobalUID: global}
			in.services[uid] = state
		}
	}
	if len(uids) == 0 {
		return nil
	}
	var states []*serviceState
	err := in.sql.NewRaw(`SELECT d.uid, d.cluster_uid, d.global_uid, d.report, d.entry, d.observed_generation,
			COALESCE(rv.number, 0) AS number, COALESCE(rv.revision, '') AS revision
		FROM derived_services AS d
		LEFT JOIN derived_revisions AS rv ON rv.service_uid = d.uid
			AND rv.number = (SELECT MAX(m.number) FROM derived_revisions AS m WHERE m.service_uid = d.uid)
		WHERE d.uid IN (?)`, bun.List(uids)).Scan(ctx, &states)
	if err != nil {
		return translate("read reports of derived services", err)
	}
	for _, state := range states {
		state.Latest.v.Number = state.Number
		in.services[state.UID] = state
	}
	return nil
}

// writeDerived writes the reports of derived services, and before their revisions, which refer to them.
func (in *intake) writeDerived(ctx context.Context) error {
	rows := make([]*derivedRow, 0, len(in.derived))
	for _, row := range in.derived {
		rows = append(rows, row)
	}
	return replaceAll(ctx, in.tx, rows, "uid", "report", "entry", "observed_generation", "revision")
}
