// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// agentRow is the part of a cluster's row that reports change.
type agentRow struct {
	bun.BaseModel `bun:"table:clusters,alias:c"`
	UID           string `bun:"uid,pk"`
	Report        string `bun:"report"`
	PlanVersion   string `bun:"plan_version"`
	Instance      string `bun:"instance"`
	Sequence      int64  `bun:"sequence"`
	Revision      int64  `bun:"revision"`
}

// serviceState is the stored state of one service that a report may be about. Missing texts are
// empty.
type serviceState struct {
	UID                string                   `bun:"uid"`
	ClusterUID         string                   `bun:"cluster_uid"`
	GlobalUID          string                   `bun:"global_uid"` // of a derived service
	Report             string                   `bun:"report"`
	Entry              string                   `bun:"entry"`
	ObservedGeneration int64                    `bun:"observed_generation"`
	Number             int64                    `bun:"number"`
	Latest             column[catalog.Revision] `bun:"revision"`
}

// intake is one transaction that saves reports: the rows that they may change are read at once,
// changed in memory by one report after the other, and written at once. So many reports cost as
// many statements as one does.
type intake struct {
	tx       *tx
	agents   map[string]*agentRow
	services map[string]*serviceState

	dirtyAgents map[string]bool
	reports     map[string]*reportRow
	revisions   map[revisionKey]*revisionRow
	// members decides about global services, and facts has what clusters with other facts report.
	members catalog.Members
	facts   map[string]catalog.ClusterReport
	// derived are the states of derived services, which have tables of their own.
	derived          map[string]*derivedRow
	derivedRevisions map[revisionKey]*revisionRow
	// milestones are what the reports add to revisions.
	milestones []catalog.Milestone
}

// SaveReports implements catalog.Reports for a store without global services; see GuardedReports.
func (s *Store) SaveReports(ctx context.Context, reports []catalog.AgentReport) ([]catalog.Receipt, error) {
	receipts, _, err := saveReports(ctx, s, noMembers{}, reports)
	return receipts, err
}

func saveReports(ctx context.Context, s *Store, members catalog.Members, reports []catalog.AgentReport) ([]catalog.Receipt, []catalog.Milestone, error) {
	var receipts []catalog.Receipt
	var milestones []catalog.Milestone
	err := s.editWith(ctx, numbered, func(ctx context.Context, t *tx) error {
		in := &intake{
			tx: t, members: members, facts: map[string]catalog.ClusterReport{}, dirtyAgents: map[string]bool{}, reports: map[string]*reportRow{}, revisions: map[revisionKey]*revisionRow{},
			derived: map[string]*derivedRow{}, derivedRevisions: map[revisionKey]*revisionRow{},
		}
		if err := in.load(ctx, reports); err != nil {
			return err
		}
		receipts = make([]catalog.Receipt, len(reports))
		for i, report := range reports {
			var err error
			if receipts[i], err = in.take(report); err != nil {
				return err
			}
		}
		milestones = in.milestones
		return in.write(ctx)
	})
	if err != nil {
		return nil, nil, err
	}
	return receipts, milestones, nil
}

// load reads what the reports may change.
func (in *intake) load(ctx context.Context, reports []catalog.AgentReport) error {
	// Neither list is ever empty, which SQL does not know.
	clusters, full, services := []string{}, []string{""}, []string{""}
	for _, report := range reports {
		clusters = append(clusters, report.ClusterUID)
		if report.Full {
			full = append(full, report.ClusterUID)
			continue
		}
		for _, service := range report.Services {
			services = append(services, service.ServiceUID)
		}
	}
	var agents []*agentRow
	if err := in.tx.sql.NewSelect().Model(&agents).Where("uid IN (?)", bun.List(clusters)).Scan(ctx); err != nil {
		return translate("read agents", err)
	}
	in.agents = make(map[string]*agentRow, len(agents))
	for _, agent := range agents {
		in.agents[agent.UID] = agent
	}
	if err := in.loadServices(ctx, full, services); err != nil {
		return err
	}
	return in.loadDerived(ctx, reports)
}

func (in *intake) loadServices(ctx context.Context, full, services []string) error {
	var states []*serviceState
	err := in.tx.sql.NewRaw(`SELECT s.uid, s.cluster_uid, '' AS global_uid, COALESCE(sr.report, '') AS report, COALESCE(sr.entry, '') AS entry,
			COALESCE(sr.observed_generation, 0) AS observed_generation, COALESCE(rv.number, 0) AS number, COALESCE(rv.revision, '') AS revision
		FROM services AS s
		LEFT JOIN service_reports AS sr ON sr.service_uid = s.uid
		LEFT JOIN service_revisions AS rv ON rv.service_uid = s.uid
			AND rv.number = (SELECT MAX(m.number) FROM service_revisions AS m WHERE m.service_uid = s.uid)
		WHERE s.uid IN (?) OR s.cluster_uid IN (?)`, bun.List(services), bun.List(full)).Scan(ctx, &states)
	if err != nil {
		return translate("read reports", err)
	}
	in.services = make(map[string]*serviceState, len(states))
	for _, state := range states {
		in.services[state.UID] = state
		state.Latest.v.Number = state.Number
	}
	return nil
}

// take changes the rows by one report. A report of a cluster that is gone changes none.
func (in *intake) take(report catalog.AgentReport) (catalog.Receipt, error) {
	row, ok := in.agents[report.ClusterUID]
	if !ok {
		return catalog.Receipt{}, nil
	}
	switch (catalog.Agent{Instance: row.Instance, Sequence: uint64(row.Sequence)}).Judge(report) {
	case catalog.Outdated:
		return catalog.Receipt{}, nil
	case catalog.WantFull:
		return catalog.Receipt{WantFull: true, Current: row.Instance}, nil
	case catalog.Take:
	}
	if err := in.takeAgent(row, report); err != nil {
		return catalog.Receipt{}, err
	}
	reported := make(map[string]bool, len(report.Services))
	for _, service := range report.Services {
		state, ok := in.services[service.ServiceUID]
		if !ok || state.ClusterUID != report.ClusterUID {
			continue // deleted, or none of this cluster's
		}
		reported[state.UID] = true
		if err := in.takeService(state, service, report); err != nil {
			return catalog.Receipt{}, err
		}
	}
	if report.Full {
		return catalog.Receipt{}, in.forgetOthers(report.ClusterUID, reported)
	}
	return catalog.Receipt{}, nil
}

// takeAgent notes the sequence in any case, because older reports are known by it; but only a
// visible difference makes the row a change of the catalog.
func (in *intake) takeAgent(row *agentRow, report catalog.AgentReport) error {
	next := *row
	next.Instance, next.Sequence, next.PlanVersion = report.Instance, int64(report.Sequence), report.PlanVersion
	if report.Cluster != nil {
		var last, now catalog.ClusterReport
		err := decode("report", row.Report, &last)
		if err != nil {
			return err
		}
		if next.Report, now, err = describe(*report.Cluster, last, report.Full); err != nil {
			return err
		}
		if !catalog.SameFacts(last, now) {
			in.facts[row.UID] = now
		}
	}
	if next.Instance != row.Instance || next.PlanVersion != row.PlanVersion || next.Report != row.Report {
		next.Revision = in.tx.revision
	}
	*row, in.dirtyAgents[row.UID] = next, true
	return nil
}

// describe encodes an agent's report on its cluster, with the stored values of omitted parts. A
// full report leaves out nothing that the agent knows.
func describe(said, last catalog.ClusterReport, full bool) (string, catalog.ClusterReport, error) {
	if !full {
		said = said.Over(last)
	}
	// An agent that has just started does not know the version yet. Services that depend on it stay.
	said.KubernetesVersion, said.Provider = cmp.Or(said.KubernetesVersion, last.KubernetesVersion), cmp.Or(said.Provider, last.Provider)
	text, err := encode(said)
	return text, said, err
}

func (in *intake) takeService(state *serviceState, service catalog.StoredReport, report catalog.AgentReport) error {
	in.advance(state, service.Report, report)
	text, err := encode(service.Report)
	if err != nil {
		return err
	}
	generation := service.ObservedGeneration
	if generation == 0 {
		generation = state.ObservedGeneration
	}
	in.put(state, text, service.Entry, generation)
	return nil
}

// forgetOthers empties the reports of services that the agent no longer knows.
func (in *intake) forgetOthers(clusterUID string, reported map[string]bool) error {
	none, err := encode((*catalog.ServiceReport)(nil))
	if err != nil {
		return err
	}
	for uid, state := range in.services {
		if state.ClusterUID == clusterUID && !reported[uid] && state.Report != "" {
			in.put(state, none, "", 0)
		}
	}
	return nil
}

// put replaces a service's report if it is another one.
func (in *intake) put(state *serviceState, report, entry string, generation int64) {
	if state.Report == report && state.Entry == entry && state.ObservedGeneration == generation {
		return
	}
	state.Report, state.Entry, state.ObservedGeneration = report, entry, generation
	if state.GlobalUID != "" {
		in.derived[state.UID] = &derivedRow{
			UID: state.UID, GlobalUID: state.GlobalUID, ClusterUID: state.ClusterUID,
			Report: report, Entry: entry, ObservedGeneration: generation, Revision: in.tx.revision,
		}
		return
	}
	in.reports[state.UID] = &reportRow{
		ServiceUID: state.UID, Report: report, Entry: entry, ObservedGeneration: generation, Revision: in.tx.revision,
	}
}

func (in *intake) write(ctx context.Context) error {
	if err := in.writeDepartures(ctx); err != nil {
		return err
	}
	if err := in.writeAgents(ctx); err != nil {
		return translate("write agents", err)
	}
	reports := slices.Collect(maps.Values(in.reports))
	err := replaceAll(ctx, in.tx.sql, reports, "service_uid", "report", "entry", "observed_generation", "revision")
	if err != nil {
		return translate("write reports", err)
	}
	if err := in.writeDerived(ctx); err != nil {
		return translate("write reports of derived services", err)
	}
	return translate("write revisions", in.writeRevisions(ctx))
}

func (in *intake) writeAgents(ctx context.Context) error {
	rows := make([]*agentRow, 0, len(in.dirtyAgents))
	for uid := range in.dirtyAgents {
		rows = append(rows, in.agents[uid])
	}
	in.tx.dirty = len(rows) > 0
	for chunk := range slices.Chunk(rows, maxRows) {
		query := in.tx.sql.NewUpdate().With("v", in.tx.sql.NewValues(&chunk)).Model((*agentRow)(nil)).TableExpr("v").Where("c.uid = v.uid")
		for _, column := range []string{"report", "plan_version", "instance", "sequence", "revision"} {
			query = query.Set("? = v.?", bun.Ident(column), bun.Ident(column))
		}
		if _, err := query.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
