// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// raw opens the subject's database beside the store.
func (s subject) raw(t *testing.T) *sql.DB {
	t.Helper()
	driver, address := "pgx", s.url
	if file, isSQLite := strings.CutPrefix(s.url, "sqlite://"); isSQLite {
		driver, address = "sqlite", file
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// earlierSpec is the spec of a service as a distributor wrote it before its options were one value.
const earlierSpec = `{"cluster":"one","namespace":"ns","sources":[{"repository":"demo","path":"a"}],"renderer":"plain",` +
	`"sync":{"prune":false,"createNamespace":true,"healthTimeout":60000000000,"forceConflicts":true,"pruneConfirmation":"sha256:x"},` +
	`"paused":true,"policy":{"drift":"report"},"dryRun":true}`

// testSpecsOfEarlierVersions reads the row of an earlier version. It reads a new row as such a
// version does, too: replicas of both run side by side while the hub is upgraded, and prune by what
// they read.
func testSpecsOfEarlierVersions(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	db := s.raw(t)
	if _, err := db.ExecContext(t.Context(), "UPDATE services SET spec = '"+earlierSpec+"'"); err != nil {
		t.Fatal(err)
	}
	want := catalog.ServiceSpec{
		Cluster: "one", Sources: []catalog.Source{{Repository: "demo", Path: "a"}},
		Options: &syncpolicy.Options{
			Namespace: "ns", CreateNamespace: new(true), Prune: new(false), HealthTimeout: time.Minute, ForceConflicts: true,
			PruneConfirmation: "sha256:x", Paused: true, DryRun: true, Renderer: syncpolicy.RenderPlain,
			Policy: syncpolicy.Policy{Drift: syncpolicy.DriftReport},
		},
	}
	got := changes(t, s, 0).Services[0]
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec of an earlier version (-want +got):\n%s", diff)
	}

	options := got.Spec.Wanted()
	options.PruneConfirmation, options.Policy.Drift = "", syncpolicy.DriftOff
	got.Spec.Options = &options
	apply(t, s, got)
	var text string
	if err := db.QueryRowContext(t.Context(), "SELECT spec FROM services").Scan(&text); err != nil {
		t.Fatal(err)
	}
	var earlier struct {
		Namespace string
		Sync      struct {
			Prune, CreateNamespace *bool
			HealthTimeout          time.Duration
			ForceConflicts         bool
			PruneConfirmation      string
		}
		Paused, DryRun bool
		Policy         syncpolicy.Policy
	}
	if err := json.Unmarshal([]byte(text), &earlier); err != nil {
		t.Fatal(err)
	}
	if sync := earlier.Sync; sync.Prune == nil || *sync.Prune || !*sync.CreateNamespace || sync.HealthTimeout != time.Minute || !sync.ForceConflicts ||
		sync.PruneConfirmation != "" || earlier.Namespace != "ns" || !earlier.Paused || !earlier.DryRun || earlier.Policy.Drift != syncpolicy.DriftOff {
		t.Errorf("an earlier version reads %+v from %s", earlier, text)
	}
}
