// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// settleChunk is how many services are decided about at once.
	settleChunk = 200
	// maxEntries bounds the paths of one back end that services refer to.
	maxEntries = 10_000
	// maxProjectEntries bounds the ones that services of one project refer to, so that no project can
	// use up the others' room.
	maxProjectEntries = 2_000
)

// givenRow holds a service's values for its references, sealed and bound to its uid.
type givenRow struct {
	bun.BaseModel `bun:"table:service_given,alias:sg"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

var givenValues = sealedColumn{"service_given", "service_uid", "sealed", purposeEntries, "given *"}

// givenValue is the stored form of a configs.Value.
type givenValue struct {
	Reference string `json:"reference"`
	Text      string `json:"text"`
	IsPublic  bool   `json:"public,omitempty"`
}

type referenceRow struct {
	bun.BaseModel `bun:"table:config_references,alias:cr"`
	ServiceUID    string `bun:"service_uid,pk"`
	EntryID       string `bun:"entry_id,pk"`
}

// useRow records that a service looked for a set.
type useRow struct {
	bun.BaseModel `bun:"table:config_uses,alias:cu"`
	ServiceUID    string `bun:"service_uid,pk"`
	SetName       string `bun:"set_name,pk"`
	IsOpen        int    `bun:"is_open"`
}

// readersOf returns the uids of the services that refer to the selected entries.
func readersOf(ctx context.Context, db bun.IDB, where string, args ...any) (uids []string, err error) {
	err = db.NewSelect().TableExpr("config_references AS cr").ColumnExpr("DISTINCT cr.service_uid").
		Join("JOIN config_entries AS ce ON ce.id = cr.entry_id").Where(where, args...).OrderExpr("cr.service_uid").Scan(ctx, &uids)
	return uids, translate("list services of entry", err)
}

// settle composes the configurations of services again, decides what they obtain for their references,
// and stores that with the digests. isChanged is false if nothing differs. In a quiet edit it stores
// nothing that readers notice, and returns errUnnumbered instead. The number of statements grows with
// the number of services divided by settleChunk.
func settle(ctx context.Context, t *tx, serviceUIDs []string, n numbering) (isChanged bool, err error) {
	c := newComposer(t)
	for chunk := range slices.Chunk(serviceUIDs, settleChunk) {
		changed, err := c.settle(ctx, chunk, n)
		if err != nil {
			return false, err
		}
		isChanged = isChanged || changed
	}
	return isChanged, nil
}

// settlement holds the pending writes of some services.
type settlement struct {
	services []*serviceRow
	given    []*givenRow
	// ungiven are services that are given nothing any more.
	ungiven []string
	// held and unheld are given and ungiven of the configurations that services are held at.
	held   []*heldGivenRow
	unheld []string
}

func (c *composer) settle(ctx context.Context, uids []string, n numbering) (isChanged bool, err error) {
	all, err := c.compose(ctx, uids)
	if err != nil {
		return false, err
	}
	if err := c.link(ctx, all, uids, n); err != nil {
		return false, err
	}
	var next settlement
	for _, s := range all {
		out, err := c.resolve(ctx, request{references: s.references, project: s.row.Project, given: s.earlier(s.references)})
		if err != nil {
			return false, err
		}
		if err := c.decide(ctx, s, out, &next); err != nil {
			return false, err
		}
	}
	if len(next.services)+len(next.given)+len(next.ungiven)+len(next.held)+len(next.unheld) == 0 {
		return false, nil
	}
	if n == quietly {
		return false, errUnnumbered
	}
	return len(next.services) > 0, c.write(ctx, next)
}

// decide adds the differences from the stored state of a service.
func (c *composer) decide(ctx context.Context, s *composition, out configs.Outcome, next *settlement) error {
	config := s.row.Config.v
	config.Problem, config.Waits = out.Problem, out.Waits || s.Waits
	if s.Problem != nil {
		config.Problem = s.Problem
	}
	whole := withGiven(s.literals, out.Values)
	if config.Digest = ""; !whole.Empty() || len(s.Keys) > 0 || s.Waits {
		config.Digest = c.t.store.keys.digests.Load().Fingerprint(canonical(s.row.UID, whole))
	}
	if config.Name = s.name; config.Digest == "" {
		config.Name = ""
	}
	var err error
	if config.Held, err = c.decideHeld(ctx, s, next); err != nil {
		return err
	}
	if last := s.row.Config.v.Problem; config.Problem != nil && last != nil {
		config.Problem.Since = last.Since
	}
	isSame := reflect.DeepEqual(config, s.row.Config.v)
	switch {
	case maps.Equal(s.given, out.Values):
	case len(out.Values) == 0:
		next.ungiven = append(next.ungiven, s.row.UID)
	default:
		sealed, err := sealValues(c.t.store, givenValues, s.row.UID, out.Values)
		if err != nil {
			return err
		}
		next.given = append(next.given, &givenRow{ServiceUID: s.row.UID, Sealed: sealed})
	}
	if isSame {
		return nil
	}
	if config.Problem != nil && config.Problem.Since.IsZero() {
		config.Problem.Since = catalog.Now()
	}
	s.row.Config, s.row.Revision = columnOf(config), c.t.revision
	next.services = append(next.services, s.row)
	return nil
}

func (c *composer) write(ctx context.Context, next settlement) error {
	c.t.dirty = true
	if len(next.ungiven) > 0 {
		if _, err := c.t.sql.NewDelete().Model((*givenRow)(nil)).Where("service_uid IN (?)", bun.List(next.ungiven)).Exec(ctx); err != nil {
			return translate("delete given values", err)
		}
	}
	if err := replaceAll(ctx, c.t, next.given, "service_uid", "sealed"); err != nil {
		return translate("write given values", err)
	}
	if len(next.unheld) > 0 {
		if _, err := c.t.sql.NewDelete().Model((*heldGivenRow)(nil)).Where("service_uid IN (?)", bun.List(next.unheld)).Exec(ctx); err != nil {
			return translate("delete given values of held configurations", err)
		}
	}
	if err := replaceAll(ctx, c.t, next.held, "service_uid", "sealed"); err != nil {
		return translate("write given values of held configurations", err)
	}
	return translate("write configurations of services", replaceAll(ctx, c.t, next.services, "uid", "config", "revision"))
}

// link stores which entries and sets the services use, and loads the entries. Newly referenced
// entries are due at once.
func (c *composer) link(ctx context.Context, all []*composition, uids []string, n numbering) error {
	uses, err := c.differingUses(ctx, all, uids)
	if err != nil {
		return err
	}
	references, entries, err := c.differingReferences(ctx, all, uids)
	if err != nil {
		return err
	}
	if len(uses.uids)+len(references.uids) > 0 {
		if n == quietly {
			return errUnnumbered
		}
		c.t.dirty = true
	}
	if err := replaceLinks(ctx, c.t, uses); err != nil {
		return translate("write uses of sets", err)
	}
	if len(references.uids) > 0 {
		if err := c.addEntries(ctx, entries); err != nil {
			return err
		}
	}
	if err := replaceLinks(ctx, c.t, references); err != nil {
		return translate("write references of services", err)
	}
	if err := c.checkShares(ctx, all, references.uids); err != nil {
		return err
	}
	return c.loadEntries(ctx, slices.Sorted(maps.Keys(entries)))
}

// links are rows that replace the links of some services.
type links[Row any] struct {
	uids []string
	rows []*Row
}

func replaceLinks[Row any](ctx context.Context, t *tx, l links[Row]) error {
	if len(l.uids) == 0 {
		return nil
	}
	if _, err := t.sql.NewDelete().Model((*Row)(nil)).Where("service_uid IN (?)", bun.List(l.uids)).Exec(ctx); err != nil {
		return err
	}
	return insertAll(ctx, t, l.rows)
}

// differingUses returns the uses of sets of those services that use others than before.
func (c *composer) differingUses(ctx context.Context, all []*composition, uids []string) (links[useRow], error) {
	var stored []*useRow
	if err := c.t.sql.NewSelect().Model(&stored).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return links[useRow]{}, translate("read uses of sets", err)
	}
	had := map[string]map[string]bool{}
	for _, row := range stored {
		if had[row.ServiceUID] == nil {
			had[row.ServiceUID] = map[string]bool{}
		}
		had[row.ServiceUID][row.SetName] = row.IsOpen == 1
	}
	var out links[useRow]
	for _, s := range all {
		if maps.Equal(had[s.row.UID], s.Sets) {
			continue
		}
		out.uids = append(out.uids, s.row.UID)
		for _, name := range slices.Sorted(maps.Keys(s.Sets)) {
			row := &useRow{ServiceUID: s.row.UID, SetName: name}
			if s.Sets[name] {
				row.IsOpen = 1
			}
			out.rows = append(out.rows, row)
		}
	}
	return out, nil
}

// differingReferences returns the entries of those services that refer to others than before, and all
// entries by id.
func (c *composer) differingReferences(ctx context.Context, all []*composition, uids []string) (links[referenceRow], map[string]configs.Place, error) {
	var stored []*referenceRow
	if err := c.t.sql.NewSelect().Model(&stored).Where("service_uid IN (?)", bun.List(uids)).Scan(ctx); err != nil {
		return links[referenceRow]{}, nil, translate("read references of services", err)
	}
	had := map[string][]string{}
	for _, row := range stored {
		had[row.ServiceUID] = append(had[row.ServiceUID], row.EntryID)
	}
	var out links[referenceRow]
	entries := map[string]configs.Place{}
	for _, s := range all {
		places := map[string]configs.Place{}
		for _, references := range s.allReferences() {
			some, err := c.placesOf(ctx, references)
			if err != nil {
				return links[referenceRow]{}, nil, err
			}
			maps.Copy(places, some)
		}
		maps.Copy(entries, places)
		ids := slices.Sorted(maps.Keys(places))
		if slices.Equal(ids, slices.Sorted(slices.Values(had[s.row.UID]))) {
			continue
		}
		out.uids = append(out.uids, s.row.UID)
		for _, id := range ids {
			out.rows = append(out.rows, &referenceRow{ServiceUID: s.row.UID, EntryID: id})
		}
	}
	return out, entries, nil
}

// addEntries makes entries known.
func (c *composer) addEntries(ctx context.Context, places map[string]configs.Place) error {
	now := micros(catalog.Now())
	rows := make([]*entryRow, 0, len(places))
	for _, id := range slices.Sorted(maps.Keys(places)) {
		backend := c.backends[places[id].Backend]
		rows = append(rows, &entryRow{ID: id, BackendUID: backend.UID, Path: places[id].Path, DueAt: now})
	}
	added := int64(0)
	for chunk := range slices.Chunk(rows, maxRows) {
		result, err := c.t.sql.NewInsert().Model(&chunk).On("CONFLICT (id) DO NOTHING").Exec(ctx)
		if err != nil {
			return translate("write entries", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return translate("count rows", err)
		}
		added += n
	}
	if added == 0 {
		return nil
	}
	var fullest []int
	err := c.t.sql.NewSelect().Table("config_entries").ColumnExpr("COUNT(*)").Group("backend_uid").Having("COUNT(*) > ?", maxEntries).Scan(ctx, &fullest)
	if err != nil {
		return translate("count entries", err)
	}
	if len(fullest) > 0 {
		return fielderr.New("spec.config.references", "would make more than %d paths of one back end that services refer to", maxEntries)
	}
	return nil
}

// checkShares returns an error if one of the projects whose services refer to other entries now refers to
// more paths of a back end than its share.
func (c *composer) checkShares(ctx context.Context, all []*composition, changed []string) error {
	projects := map[string]struct{}{}
	for _, s := range all {
		if slices.Contains(changed, s.row.UID) {
			projects[s.row.Project] = struct{}{}
		}
	}
	return checkProjects(ctx, c.t, projects)
}

// checkProjects returns an error if services of one of the projects, the derived ones among them, refer to
// more paths of a back end than its share.
func checkProjects(ctx context.Context, t *tx, projects map[string]struct{}) error {
	for _, project := range slices.Sorted(maps.Keys(projects)) {
		var fullest []int
		err := t.sql.NewRaw(`SELECT COUNT(*) FROM (
				SELECT ce.id, ce.backend_uid FROM config_references AS cr JOIN services AS s ON s.uid = cr.service_uid
					JOIN config_entries AS ce ON ce.id = cr.entry_id WHERE s.project = ?
				UNION SELECT ce.id, ce.backend_uid FROM variant_references AS vr JOIN config_variants AS cv ON cv.id = vr.variant_id
					JOIN config_entries AS ce ON ce.id = vr.entry_id WHERE cv.project = ?
			) AS used GROUP BY used.backend_uid HAVING COUNT(*) > ?`, project, project, maxProjectEntries).Scan(ctx, &fullest)
		if err != nil {
			return translate("count entries of project", err)
		}
		if len(fullest) > 0 {
			return fielderr.New("spec.config.references", "would make more than %d paths of one back end that services of the project %s refer to",
				maxProjectEntries, project)
		}
	}
	return nil
}

// withGiven returns a configuration with what its references lead to.
func withGiven(config *catalog.Config, given map[string]configs.Value) *catalog.Config {
	if len(given) == 0 {
		return config
	}
	whole := &catalog.Config{
		Values: maps.Clone(config.Values), Secrets: maps.Clone(config.Secrets), References: config.References, Restart: config.Restart,
	}
	if whole.Values == nil {
		whole.Values = map[string]string{}
	}
	if whole.Secrets == nil {
		whole.Secrets = map[string]secret.Text{}
	}
	for key, value := range given {
		if value.IsPublic {
			whole.Values[key] = value.Text.Reveal()
		} else {
			whole.Secrets[key] = value.Text
		}
	}
	return whole
}

// sealValues seals given values for a row of a column.
func sealValues(s *Store, column sealedColumn, key string, given map[string]configs.Value) ([]byte, error) {
	plain := make(map[string]givenValue, len(given))
	for key, value := range given {
		plain[key] = givenValue{Reference: value.Reference, Text: value.Text.Reveal(), IsPublic: value.IsPublic}
	}
	return column.sealJSON(s.keys, key, plain)
}

// openValues is the reverse of sealValues.
func openValues(s *Store, column sealedColumn, key string, sealed []byte) (map[string]configs.Value, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	var plain map[string]givenValue
	if err := column.openJSON(s.keys, key, sealed, &plain); err != nil {
		return nil, err
	}
	given := make(map[string]configs.Value, len(plain))
	for key, value := range plain {
		given[key] = configs.Value{Reference: value.Reference, Text: secret.Text(value.Text), IsPublic: value.IsPublic}
	}
	return given, nil
}
