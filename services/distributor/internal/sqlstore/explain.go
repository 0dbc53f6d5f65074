// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/configs"
)

// Explain returns where the values of a service's configuration come from, by key. A service that
// does not exist has none.
func (e *Entries) Explain(ctx context.Context, serviceUID string) (all []configs.Explained, err error) {
	err = e.store.opening(ctx, func(ctx context.Context) error {
		return e.store.read(ctx, "explain configuration", func(ctx context.Context, tx bun.Tx) error {
			all, err = explain(ctx, newTx(e.store, tx), serviceUID)
			return err
		})
	})
	return all, err
}

func explain(ctx context.Context, t *tx, serviceUID string) ([]configs.Explained, error) {
	row := new(serviceRow)
	err := t.sql.NewSelect().Model(row).Where("uid = ?", serviceUID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	backends, err := backendsByName(ctx, t.sql)
	if err != nil {
		return nil, err
	}
	k, err := readKnown(ctx, t, backends, []string{serviceUID})
	if err != nil {
		return nil, err
	}
	var entries []*entryRow
	err = t.sql.NewSelect().Model(&entries).Where("id IN (SELECT entry_id FROM config_references WHERE service_uid = ?)", serviceUID).Scan(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*entryRow, len(entries))
	for _, entry := range entries {
		byID[entry.ID] = entry
	}
	config := row.Config.v
	var all []configs.Explained
	for key := range config.Values {
		all = append(all, configs.Explained{Key: key, IsGiven: true, IsLatest: true})
	}
	for _, key := range config.Secrets {
		all = append(all, configs.Explained{Key: key, IsSecret: true, IsGiven: true, IsLatest: true})
	}
	for _, key := range slices.Sorted(maps.Keys(config.References)) {
		all = append(all, explainReference(key, config.References[key], k, k.given[serviceUID], byID))
	}
	slices.SortFunc(all, func(a, b configs.Explained) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

func explainReference(key, text string, k *known, given map[string]configs.Value, entries map[string]*entryRow) configs.Explained {
	had, isGiven := given[key]
	x := configs.Explained{Key: key, Reference: text, IsSecret: true, IsGiven: isGiven && had.Reference == text}
	reference, err := catalog.ParseReference(text)
	if err != nil {
		x.Problem = &catalog.Problem{Reason: reason.ConfigMissing, Message: err.Error()}
		return x
	}
	if reference.IsInCluster() { // the hub never learns what the agent reads
		x.IsGiven, x.IsLatest = true, true
		return x
	}
	backend := k.backends[reference.Backend]
	if backend == nil {
		x.Problem = &catalog.Problem{Reason: reason.ConfigMissing, Message: "there is no such back end"}
		return x
	}
	x.IsSecret = !backend.Spec.Public
	state := k.entries[configs.Place{Backend: reference.Backend, Path: reference.Path}]
	if row := entries[entryID(backend.UID, reference.Path)]; row != nil {
		x.Version, x.ReadAt, x.NextAt = row.Version, timeOf(row.ReadAt), timeOf(row.DueAt)
	}
	value, ok := state.Value(reference.Key)
	x.IsLatest = x.IsGiven && ok && state.Failure == "" && value == had.Text
	switch {
	case state.Failure != "":
		x.Problem = &catalog.Problem{Reason: reason.ConfigStale, Message: state.Failure}
		if state.IsRefused {
			x.Problem.Reason = reason.ConfigMissing
		}
	case state.Last != nil && !ok:
		x.Problem = &catalog.Problem{Reason: reason.ConfigMissing, Message: "the entry has no such key"}
	}
	return x
}

// Status returns what is known of the reads of all back ends that services refer to, by uid.
func (e *Entries) Status(ctx context.Context) (map[string]configs.Status, error) {
	var rows []*entryRow
	err := e.store.db.NewSelect().Model(&rows).ExcludeColumn("sealed").
		Where("EXISTS (SELECT 1 FROM config_references AS r WHERE r.entry_id = ce.id)").Order("tried_at", "id").Scan(ctx)
	if err != nil {
		return nil, translate("read states of configuration back ends", err)
	}
	all := map[string]configs.Status{}
	for _, row := range rows {
		s := all[row.BackendUID]
		s.Entries++
		if at := timeOf(row.ReadAt); at.After(s.ReadAt) {
			s.ReadAt = at
		}
		if f := row.Failure.v; f.Message != "" {
			s.Failing++
			s.Problem = &catalog.Problem{Reason: reason.ConfigStale, Message: row.Path + ": " + f.Message}
			if f.IsRefused {
				s.Problem.Reason = reason.ConfigMissing
			}
		}
		all[row.BackendUID] = s
	}
	return all, nil
}
