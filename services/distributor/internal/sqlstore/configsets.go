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

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// setRow is a stored set. The secrets are sealed and bound to the set's uid.
type setRow struct {
	bun.BaseModel `bun:"table:config_sets,alias:cs"`
	metaColumns
	Project string            `bun:"project"`
	Spec    column[setColumn] `bun:"spec"`
	Sealed  []byte            `bun:"sealed"`
	// Marks stand for the secrets. Sets that earlier versions wrote have none.
	Marks column[map[string]catalog.SecretMark] `bun:"marks"`
}

// setColumn is what anybody may see of a set.
type setColumn struct {
	Description string            `json:"description,omitempty"`
	Values      map[string]string `json:"values,omitempty"`
	// Secrets are the keys of the secrets, sorted.
	Secrets    []string          `json:"secrets,omitempty"`
	References map[string]string `json:"references,omitempty"`
}

// set returns the row without its secrets.
func (r *setRow) set() *catalog.ConfigSet {
	spec := r.Spec.v
	return &catalog.ConfigSet{Metadata: r.metadata(), SecretMarks: r.Marks.v, Spec: catalog.ConfigSetSpec{
		Description: spec.Description, Config: configColumn{Values: spec.Values, Secrets: spec.Secrets, References: spec.References}.shown(),
	}}
}

func openedSet(sealer *seal.Sealer, row *setRow) (*catalog.ConfigSet, error) {
	set := row.set()
	if len(row.Spec.v.Secrets) == 0 {
		return set, nil
	}
	secrets, err := openSecrets(sealer, "set", row.UID, row.Sealed)
	if err != nil {
		return nil, err
	}
	set.Spec.Config.Secrets = secrets
	return set, nil
}

func (r *setRow) object(_ context.Context, t *tx) (catalog.Object, error) {
	return openedSet(t.store.sets, r)
}

// putSet writes a set, and composes the configurations of its users again.
func putSet(ctx context.Context, t *tx, meta metaColumns, set *catalog.ConfigSet) error {
	row := &setRow{metaColumns: meta, Project: objectname.Project(set.Name), Spec: columnOf(setColumn{Description: set.Spec.Description})}
	if config := set.Spec.Config; !config.Empty() {
		row.Spec.v.Values, row.Spec.v.References = config.Values, config.References
		row.Spec.v.Secrets = slices.Sorted(maps.Keys(config.Secrets))
		if len(config.Secrets) > 0 {
			sealed, err := sealSecrets(t.store.sets, set.UID, config.Secrets)
			if err != nil {
				return fmt.Errorf("set %s: %w", set.Name, err)
			}
			row.Sealed, row.Marks = sealed, columnOf(marksOf(t.store, set.UID, config.Secrets))
		}
	}
	if err := t.upsert(ctx, row, "spec", "sealed", "marks"); err != nil {
		return err
	}
	users, err := usersOfSets(ctx, t, "cu.set_name = ?", set.Name)
	if err != nil {
		return err
	}
	_, err = settle(ctx, t, users, numbered)
	return err
}

// marksOf returns what stands for the secrets of a set. The uid keeps apart sets that hold the same ones.
func marksOf(s *Store, uid string, secrets map[string]secret.Text) map[string]catalog.SecretMark {
	marks := make(map[string]catalog.SecretMark, len(secrets))
	for key, text := range secrets {
		marks[key] = catalog.SecretMark{
			Digest: s.keys.digests.Load().Fingerprint(keyedSecret("leat.set.secret.v1\x00", uid, key, text)), Bytes: len(text),
		}
	}
	return marks
}

// usersOfSets returns the uids of the services that looked for the selected sets.
func usersOfSets(ctx context.Context, t *tx, where string, args ...any) (uids []string, err error) {
	err = t.sql.NewSelect().TableExpr("config_uses AS cu").ColumnExpr("DISTINCT cu.service_uid").Where(where, args...).
		OrderExpr("cu.service_uid").Scan(ctx, &uids)
	return uids, translate("list services of set", err)
}

// putProject writes a project. Where its sets have changed it composes the configurations of its
// services again, and where its shares have, those of the users of its sets.
func putProject(ctx context.Context, t *tx, meta metaColumns, project *catalog.Project) error {
	var last []*projectRow
	if err := t.sql.NewSelect().Model(&last).Where("uid = ?", project.UID).Scan(ctx); err != nil {
		return err
	}
	if err := t.upsert(ctx, &projectRow{metaColumns: meta, Spec: columnOf(project.Spec)}, "spec"); err != nil {
		return err
	}
	before := catalog.DefaultProject()
	if len(last) > 0 {
		before = last[0].project()
	}
	var affected []string
	if !slices.Equal(before.Spec.ConfigSets, project.Spec.ConfigSets) || !maps.Equal(before.Labels, project.Labels) {
		err := t.sql.NewSelect().Table("services").Column("uid").Where("project = ?", project.Name).Order("uid").Scan(ctx, &affected)
		if err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(setSharesOf(before), setSharesOf(project)) {
		users, err := usersOfSets(ctx, t, "cu.set_name IN (SELECT name FROM config_sets WHERE project = ?)", project.Name)
		if err != nil {
			return err
		}
		affected = append(affected, users...)
	}
	if !reflect.DeepEqual(before.AnnotationShares(), project.AnnotationShares()) {
		var guests []string
		err := t.sql.NewSelect().Table("services").Column("uid").Where("project <> ?", project.Name).
			Where("cluster_uid IN (SELECT uid FROM clusters WHERE project = ?)", project.Name).Scan(ctx, &guests)
		if err != nil {
			return err
		}
		affected = append(affected, guests...)
	}
	slices.Sort(affected)
	_, err := settle(ctx, t, slices.Compact(affected), numbered)
	return err
}

// setSharesOf returns what a project shares of its sets.
func setSharesOf(project *catalog.Project) []catalog.ProjectShare {
	var shares []catalog.ProjectShare
	for _, share := range project.Spec.Shares {
		shares = append(shares, catalog.ProjectShare{Projects: share.Projects, ConfigSets: share.ConfigSets})
	}
	return shares
}

// putCluster writes a cluster. References of its services may hold its labels and annotations.
func putCluster(ctx context.Context, t *tx, cluster *catalog.Cluster, row *clusterRow) error {
	var last []*clusterRow
	if err := t.sql.NewSelect().Model(&last).Column("uid", "labels", "annotations").Where("uid = ?", cluster.UID).Scan(ctx); err != nil {
		return err
	}
	if err := t.upsert(ctx, row, "description", "agent_settings", "agent_endpoint"); err != nil {
		return err
	}
	isSame := len(last) > 0 && maps.Equal(last[0].Labels.v, cluster.Labels) && maps.Equal(last[0].Annotations.v, cluster.Annotations)
	if len(last) == 0 || isSame {
		return nil
	}
	var affected []string
	if err := t.sql.NewSelect().Table("services").Column("uid").Where("cluster_uid = ?", cluster.UID).Order("uid").Scan(ctx, &affected); err != nil {
		return err
	}
	_, err := settle(ctx, t, affected, numbered)
	return err
}

// usersOf returns some of what names a set: projects that list it, sets and global services that refer to
// it, and services that use it. Except for services these are JSON, so it reads all of them; sets are rarely
// deleted.
func usersOf(ctx context.Context, t *tx, name string) ([]catalog.Key, error) {
	var projects []*projectRow
	var sets []*setRow
	var globals []*globalRow
	var services []string
	err := errors.Join(
		t.sql.NewSelect().Model(&globals).ExcludeColumn("secrets").Order("name").Scan(ctx),
		t.sql.NewSelect().Model(&projects).Order("name").Scan(ctx),
		t.sql.NewSelect().Model(&sets).ExcludeColumn("sealed").Order("name").Scan(ctx),
		t.sql.NewSelect().TableExpr("config_uses AS cu").Column("s.name").Join("JOIN services AS s ON s.uid = cu.service_uid").
			Where("cu.set_name = ? AND cu.is_open = 1", name).Order("s.name").Limit(maxDependents).Scan(ctx, &services),
	)
	if err != nil {
		return nil, translate("list users of set", err)
	}
	var keys []catalog.Key
	for _, row := range projects {
		if slices.Contains(row.Spec.v.ConfigSets, name) && len(keys) < maxDependents {
			keys = append(keys, row.project().Key())
		}
	}
	for _, row := range sets {
		if row.Name != name && refersTo(row, name) && len(keys) < maxDependents {
			keys = append(keys, row.set().Key())
		}
	}
	for _, row := range globals {
		if row.global().NamesSet(name) && len(keys) < maxDependents {
			keys = append(keys, catalog.Key{Kind: catalog.KindGlobalService, Name: row.Name})
		}
	}
	for _, service := range services {
		if len(keys) < maxDependents {
			keys = append(keys, catalog.Key{Kind: catalog.KindService, Name: service})
		}
	}
	return keys, nil
}

// refersTo reports whether a reference of the set names another set.
func refersTo(row *setRow, name string) bool {
	for _, text := range row.Spec.v.References {
		if reference, err := catalog.ParseHubReference(text, row.Project); err == nil && reference.Set == name {
			return true
		}
	}
	return false
}

// sealSecrets seals secrets by key, bound to a uid.
func sealSecrets[Text interface{ Reveal() string }](sealer *seal.Sealer, uid string, secrets map[string]Text) ([]byte, error) {
	plain := make(map[string]string, len(secrets))
	for key, text := range secrets {
		plain[key] = text.Reveal()
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, errors.New("encode secrets")
	}
	sealed, err := sealer.Seal(text, []byte(uid))
	if err != nil {
		return nil, fmt.Errorf("seal secrets: %w", err)
	}
	return sealed, nil
}
