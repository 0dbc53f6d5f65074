// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/configs"
)

const (
	// settleChunk is how many services are decided about at once.
	settleChunk = 200
	// maxEntries bounds the paths of one back end that services refer to.
	maxEntries = 10_000
	// maxProjectEntries bounds those of them that services of one project refer to, so that no project
	// uses up what others need.
	maxProjectEntries = 2_000
)

// givenRow is what a service was given for its references, sealed and bound to its uid.
type givenRow struct {
	bun.BaseModel `bun:"table:service_given,alias:sg"`
	ServiceUID    string `bun:"service_uid,pk"`
	Sealed        []byte `bun:"sealed"`
}

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

// putReferences stores what entries a service refers to, and decides what it obtains. Entries that
// nobody referred to before are due at once.
func (t *tx) putReferences(ctx context.Context, service *catalog.Service) error {
	if _, err := t.sql.NewDelete().Table("config_references").Where("service_uid = ?", service.UID).Exec(ctx); err != nil {
		return err
	}
	if service.Spec.Config == nil || len(service.Spec.Config.References) == 0 {
		_, err := t.sql.NewDelete().Table("service_given").Where("service_uid = ?", service.UID).Exec(ctx)
		return err
	}
	backends, err := backendsByName(ctx, t.sql)
	if err != nil {
		return err
	}
	ids := map[string]*entryRow{}
	for _, text := range service.Spec.Config.References {
		reference, err := catalog.ParseReference(text)
		backend := backends[reference.Backend]
		if err != nil || backend == nil {
			continue // the catalog has looked at it
		}
		id := entryID(backend.UID, reference.Path)
		ids[id] = &entryRow{ID: id, BackendUID: backend.UID, Path: reference.Path, DueAt: micros(catalog.Now())}
	}
	grown := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		isNew, err := isNewToProject(ctx, t.sql, service, id)
		if err != nil {
			return err
		}
		if err := t.refer(ctx, service.UID, ids[id]); err != nil {
			return err
		}
		if isNew {
			grown[ids[id].BackendUID] = true
		}
	}
	for backendUID := range grown {
		if err := checkShare(ctx, t.sql, service, backendUID); err != nil {
			return err
		}
	}
	_, err = settle(ctx, t, []string{service.UID}, numbered)
	return err
}

// refer stores that a service refers to an entry.
func (t *tx) refer(ctx context.Context, serviceUID string, entry *entryRow) error {
	result, err := t.sql.NewInsert().Model(entry).On("CONFLICT (id) DO NOTHING").Exec(ctx)
	if err != nil {
		return err
	}
	if added, err := result.RowsAffected(); err != nil || added > 0 {
		n, counting := t.sql.NewSelect().Table("config_entries").Where("backend_uid = ?", entry.BackendUID).Count(ctx)
		if err := errors.Join(err, counting); err != nil {
			return err
		}
		if n > maxEntries {
			return fielderr.New("spec.config.references", "would make more than %d paths of one back end that services refer to", maxEntries)
		}
	}
	_, err = t.sql.NewInsert().Model(&referenceRow{ServiceUID: serviceUID, EntryID: entry.ID}).Exec(ctx)
	return err
}

// ofProject selects from the references of the services of a service's project.
func ofProject(db bun.IDB, service *catalog.Service) *bun.SelectQuery {
	return db.NewSelect().TableExpr("config_references AS cr").Join("JOIN services AS s ON s.uid = cr.service_uid").
		Where("s.project = ?", objectname.Project(service.Name))
}

// isNewToProject reports whether no service of the project refers to an entry yet. Most references
// are to entries that the project refers to already, and those need no look at its share.
func isNewToProject(ctx context.Context, db bun.IDB, service *catalog.Service, entryID string) (bool, error) {
	isThere, err := ofProject(db, service).ColumnExpr("1").Where("cr.entry_id = ?", entryID).Exists(ctx)
	return !isThere, err
}

// checkShare returns an error if the service's project refers to more paths of a back end than its
// share.
func checkShare(ctx context.Context, db bun.IDB, service *catalog.Service, backendUID string) error {
	n := 0
	err := ofProject(db, service).ColumnExpr("COUNT(DISTINCT cr.entry_id)").Join("JOIN config_entries AS ce ON ce.id = cr.entry_id").
		Where("ce.backend_uid = ?", backendUID).Scan(ctx, &n)
	if err == nil && n > maxProjectEntries {
		return fielderr.New("spec.config.references", "would make more than %d paths of one back end that services of the project %s refer to",
			maxProjectEntries, objectname.Project(service.Name))
	}
	return err
}

func backendsByName(ctx context.Context, db bun.IDB) (map[string]*catalog.ConfigBackend, error) {
	var rows []*backendRow
	if err := db.NewSelect().Model(&rows).Scan(ctx); err != nil {
		return nil, translate("read configuration back ends", err)
	}
	backends := make(map[string]*catalog.ConfigBackend, len(rows))
	for _, row := range rows {
		backends[row.Name] = row.backend()
	}
	return backends, nil
}

// readersOf returns the uids of the services that refer to the selected entries.
func readersOf(ctx context.Context, db bun.IDB, where string, args ...any) (uids []string, err error) {
	err = db.NewSelect().TableExpr("config_references AS cr").ColumnExpr("DISTINCT cr.service_uid").
		Join("JOIN config_entries AS ce ON ce.id = cr.entry_id").Where(where, args...).OrderExpr("cr.service_uid").Scan(ctx, &uids)
	return uids, translate("list services of entry", err)
}

// settle decides again what services obtain for their references, and stores it with the digests of
// their configurations. isChanged is false if nothing differs. In a quiet edit it stores nothing
// that readers notice, and returns errUnnumbered instead.
func settle(ctx context.Context, t *tx, serviceUIDs []string, n numbering) (isChanged bool, err error) {
	if len(serviceUIDs) == 0 {
		return false, nil
	}
	backends, err := backendsByName(ctx, t.sql)
	if err != nil {
		return false, err
	}
	for chunk := range slices.Chunk(serviceUIDs, settleChunk) {
		var rows []*serviceRow
		if err := t.sql.NewSelect().Model(&rows).Where("uid IN (?)", bun.List(chunk)).Scan(ctx); err != nil {
			return false, translate("read services", err)
		}
		known, err := readKnown(ctx, t, backends, chunk)
		if err != nil {
			return false, err
		}
		for _, row := range rows {
			changed, err := t.settleService(ctx, row, known, n)
			if err != nil {
				return false, err
			}
			isChanged = isChanged || changed
		}
	}
	return isChanged, nil
}

// known is what services' references lead to, and what they were given before.
type known struct {
	backends map[string]*catalog.ConfigBackend
	entries  map[configs.Place]configs.State
	given    map[string]map[string]configs.Value
}

func readKnown(ctx context.Context, t *tx, backends map[string]*catalog.ConfigBackend, serviceUIDs []string) (*known, error) {
	k := &known{backends: backends, entries: map[configs.Place]configs.State{}, given: map[string]map[string]configs.Value{}}
	var entries []*entryRow
	err := t.sql.NewSelect().Model(&entries).
		Where("id IN (SELECT entry_id FROM config_references WHERE service_uid IN (?))", bun.List(serviceUIDs)).Scan(ctx)
	if err != nil {
		return nil, translate("read entries", err)
	}
	names := make(map[string]string, len(backends))
	for name, backend := range backends {
		names[backend.UID] = name
	}
	for _, row := range entries {
		state, err := stateOf(t.store, row)
		if err != nil {
			return nil, err
		}
		k.entries[configs.Place{Backend: names[row.BackendUID], Path: row.Path}] = state
	}
	var given []*givenRow
	if err := t.sql.NewSelect().Model(&given).Where("service_uid IN (?)", bun.List(serviceUIDs)).Scan(ctx); err != nil {
		return nil, translate("read given values", err)
	}
	for _, row := range given {
		if k.given[row.ServiceUID], err = openGiven(t.store, row.ServiceUID, row.Sealed); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// settleService is settle for one service.
func (t *tx) settleService(ctx context.Context, row *serviceRow, k *known, n numbering) (isChanged bool, err error) {
	service, err := t.serviceWithSecrets(ctx, row)
	if err != nil {
		return false, err
	}
	config := service.Spec.Config
	if config == nil {
		return false, nil
	}
	given := k.given[row.UID]
	out := configs.Resolve(configs.Request{
		References: config.HubReferences(), Project: objectname.Project(row.Name), Backends: k.backends, Entries: k.entries,
		Given: given, Now: catalog.Now(),
	})
	next := row.Config.v
	next.Problem, next.Waits = out.Problem, out.Waits
	next.Digest = t.store.keys.digests.Load().Fingerprint(canonical(row.UID, withGiven(config, out.Values)))
	if out.Problem != nil && row.Config.v.Problem != nil {
		next.Problem.Since = row.Config.v.Problem.Since
	}
	isSame := reflect.DeepEqual(next, row.Config.v)
	if isSame && maps.Equal(given, out.Values) {
		return false, nil
	}
	if n == quietly {
		return false, errUnnumbered
	}
	if err := t.putGiven(ctx, row.UID, out.Values); err != nil {
		return false, err
	}
	if isSame {
		return false, nil
	}
	if next.Problem != nil && next.Problem.Since.IsZero() {
		next.Problem.Since = catalog.Now()
	}
	t.dirty = true
	_, err = t.sql.NewUpdate().Table("services").Set("config = ?", columnOf(next)).Set("revision = ?", t.revision).Where("uid = ?", row.UID).Exec(ctx)
	return true, translate("write configuration of service", err)
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

func (t *tx) putGiven(ctx context.Context, serviceUID string, given map[string]configs.Value) error {
	plain := make(map[string]givenValue, len(given))
	for key, value := range given {
		plain[key] = givenValue{Reference: value.Reference, Text: value.Text.Reveal(), IsPublic: value.IsPublic}
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return errors.New("encode given values")
	}
	sealed, err := t.store.entries.Seal(text, givenPlace(serviceUID))
	if err != nil {
		return fmt.Errorf("seal given values: %w", err)
	}
	t.dirty = true
	return t.replace(ctx, &givenRow{ServiceUID: serviceUID, Sealed: sealed}, "service_uid", "sealed")
}

// givenPlace differs from every id of an entry.
func givenPlace(serviceUID string) []byte { return []byte("given " + serviceUID) }

func openGiven(s *Store, serviceUID string, sealed []byte) (map[string]configs.Value, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	text, err := s.entries.Open(sealed, givenPlace(serviceUID))
	if err != nil {
		return nil, fmt.Errorf("open given values of service with uid %s: %w", serviceUID, err)
	}
	var plain map[string]givenValue
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, fmt.Errorf("decode given values of service with uid %s", serviceUID)
	}
	given := make(map[string]configs.Value, len(plain))
	for key, value := range plain {
		given[key] = configs.Value{Reference: value.Reference, Text: secret.Text(value.Text), IsPublic: value.IsPublic}
	}
	return given, nil
}
