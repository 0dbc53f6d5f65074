// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// ImagePolicies keeps what image policies did, and what people asked of them.
type ImagePolicies struct {
	leadTable

	store *Store
}

var (
	_ election.Store  = (*ImagePolicies)(nil)
	_ imagesync.Store = (*ImagePolicies)(nil)
)

// ImagePoliciesOf returns the part of a store about image policies.
func ImagePoliciesOf(s *Store) *ImagePolicies {
	return &ImagePolicies{leadTable: leadTable{s.db, "image_policy_lead", "image policies"}, store: s}
}

type imagePolicyStateRow struct {
	bun.BaseModel `bun:"table:image_policy_states,alias:ips"`
	PolicyUID     string                  `bun:"policy_uid,pk"`
	State         column[imagesync.State] `bun:"state"`
	Asked         int64                   `bun:"asked"`
}

// Orders implements imagesync.Store.
func (s *ImagePolicies) Orders(ctx context.Context) (map[string]int64, error) {
	var rows []*imagePolicyStateRow
	err := s.store.db.NewSelect().Model(&rows).Column("policy_uid", "asked").Scan(ctx)
	orders := make(map[string]int64, len(rows))
	for _, row := range rows {
		orders[row.PolicyUID] = row.Asked
	}
	return orders, translate("read requests to image policies", err)
}

// Hold implements imagesync.Store.
func (s *ImagePolicies) Hold(ctx context.Context, term int64) error {
	if err := ready(ctx, s.store.journal); err != nil {
		return err
	}
	return s.Beat(ctx, term)
}

// Save implements imagesync.Store.
func (s *ImagePolicies) Save(ctx context.Context, term int64, uid string, state imagesync.State, push *imagesync.Push) error {
	if push == nil {
		return s.write(ctx, "write state of image policy", term, func(ctx context.Context, tx bun.Tx) error { return s.save(ctx, tx, uid, state) })
	}
	return s.store.editWith(ctx, quietly, func(ctx context.Context, t *tx) error {
		if err := s.hold(ctx, t.sql, term); err != nil {
			return err
		}
		t.dirty = true
		t.note(catalog.Change{Verb: catalog.VerbPush, Kind: string(catalog.KindImagePolicy), Name: push.Policy.Name, UID: uid})
		return translate("write state of image policy", s.save(ctx, t.sql, uid, state))
	})
}

func (s *ImagePolicies) save(ctx context.Context, tx bun.Tx, uid string, state imagesync.State) error {
	isThere, err := tx.NewSelect().Table("image_policies").Where("uid = ?", uid).Exists(ctx)
	if err != nil || !isThere {
		return err
	}
	row := &imagePolicyStateRow{PolicyUID: uid, State: columnOf(state)}
	_, err = tx.NewInsert().Model(row).On("CONFLICT (policy_uid) DO UPDATE").Set("state = EXCLUDED.state").Exec(ctx)
	return err
}

// States implements imagesync.States.
func (s *ImagePolicies) States(ctx context.Context, uids []string) (map[string]imagesync.State, error) {
	states := make(map[string]imagesync.State, len(uids))
	for chunk := range slices.Chunk(uids, maxKeys) {
		var rows []*imagePolicyStateRow
		err := s.store.db.NewSelect().Model(&rows).Column("policy_uid", "state").Where("policy_uid IN (?)", bun.List(chunk)).Scan(ctx)
		if err != nil {
			return nil, translate("read states of image policies", err)
		}
		for _, row := range rows {
			states[row.PolicyUID] = row.State.v
		}
	}
	return states, nil
}

// Ask implements imagesync.States.
func (s *ImagePolicies) Ask(ctx context.Context, uid string) (asked int64, err error) {
	err = s.store.db.NewInsert().Model(&imagePolicyStateRow{PolicyUID: uid, Asked: 1}).On("CONFLICT (policy_uid) DO UPDATE").
		Set("asked = ips.asked + 1").Returning("asked").Scan(ctx, &asked)
	return asked, translate("ask image policy", err)
}

// imagePoliciesNaming returns the image policies that read tags of a repository, or write to it. Their specs are JSON, so it reads
// all of them; repositories are rarely deleted.
func imagePoliciesNaming(ctx context.Context, db bun.IDB, repository string) (keys []catalog.Key, err error) {
	var changes catalog.Changes
	err = plainTable(catalog.KindImagePolicy, nil).collect(ctx, db.NewSelect().Order("name"), &changes)
	for _, policy := range catalog.PlainOf[*catalog.ImagePolicy](changes.Plain) {
		if policy.Names(repository) && len(keys) < maxDependents {
			keys = append(keys, policy.Key())
		}
	}
	return keys, translate("list image policies", err)
}
