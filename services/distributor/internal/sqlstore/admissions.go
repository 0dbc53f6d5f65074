// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"reflect"

	"github.com/uptrace/bun"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// policyRow is a stored rollout policy.
type policyRow struct {
	bun.BaseModel `bun:"table:rollout_policies,alias:rp"`
	metaColumns
	Project string                            `bun:"project"`
	Spec    column[catalog.RolloutPolicySpec] `bun:"spec"`
}

func (r *policyRow) policy() *catalog.RolloutPolicy {
	return &catalog.RolloutPolicy{Metadata: r.metadata(), Spec: r.Spec.v}
}

func (r *policyRow) object(context.Context, *tx) (catalog.Object, error) { return r.policy(), nil }

// admissionRow is what a service is planned with. A row without anything says that it was released.
type admissionRow struct {
	bun.BaseModel `bun:"table:admissions,alias:ad"`
	ServiceUID    string                       `bun:"service_uid,pk"`
	Service       string                       `bun:"service"`
	Run           string                       `bun:"run_id"`
	Content       column[[]catalog.HeldSource] `bun:"content"`
	Pin           column[*catalog.Pin]         `bun:"pin"`
	Revision      int64                        `bun:"revision"`
}

func (r *admissionRow) admission() catalog.Admission {
	return catalog.Admission{ServiceUID: r.ServiceUID, Service: r.Service, Run: r.Run, Content: r.Content.v, Pin: r.Pin.v}
}

// Admissions is the part of a store about what services are planned with. It is safe for concurrent
// use.
type Admissions struct{ store *Store }

var _ catalog.Pins = (*Admissions)(nil)

// AdmissionsOf returns the part of a store about what services are planned with.
func AdmissionsOf(s *Store) *Admissions { return &Admissions{store: s} }

// Pin implements catalog.Pins.
func (a *Admissions) Pin(ctx context.Context, serviceUID, service string, pin *catalog.Pin) (hasChanged bool, err error) {
	verb := catalog.VerbRollback
	if pin == nil {
		verb = catalog.VerbRelease
	}
	err = a.store.edit(ctx, func(ctx context.Context, t *tx) error {
		row := new(admissionRow)
		err := t.sql.NewSelect().Model(row).Where("service_uid = ?", serviceUID).Scan(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return translate("read admission", err)
		}
		if hasChanged = !reflect.DeepEqual(row.Pin.v, pin); !hasChanged {
			return nil
		}
		t.dirty = true
		t.note(catalog.Change{Verb: verb, Kind: string(catalog.KindService), Name: service, UID: serviceUID, Cluster: clusterOf(service)})
		row.ServiceUID, row.Service, row.Pin, row.Revision = serviceUID, service, columnOf(pin), t.revision
		return translate("write pin", t.replace(ctx, row, "service_uid", "service", "pin", "revision"))
	})
	return hasChanged, err
}

// admit writes what rollouts admitted, and leaves pins as they are.
func (t *tx) admit(ctx context.Context, admissions []catalog.Admission) error {
	rows := make([]*admissionRow, len(admissions))
	for i, a := range admissions {
		rows[i] = &admissionRow{ServiceUID: a.ServiceUID, Service: a.Service, Run: a.Run, Content: columnOf(a.Content), Revision: t.revision}
	}
	t.dirty = t.dirty || len(rows) > 0
	return translate("write admissions", replaceAll(ctx, t, rows, "service_uid", "service", "run_id", "content", "revision"))
}

// clusterOf returns the cluster that stands in a service's name.
func clusterOf(service string) string {
	_, cluster := objectname.SplitService(service)
	return cluster
}
