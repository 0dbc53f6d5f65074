// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// stagedAt returns a spec whose chart has that value.
func stagedAt(value string) *catalog.StagedSpec {
	values := map[string]any{"tag": value, "replicas": float64(3)}
	return catalog.ServiceSpec{
		Sources: []catalog.Source{{Repository: "demo", Path: "app", Mount: "chart"}},
		Options: &syncpolicy.Options{Render: []renderstep.Step{{Renderer: renderstep.Helm, Helm: &renderstep.HelmOptions{Values: values}}}},
	}.Staged()
}

func heldAt(commit string) []catalog.HeldSource {
	return []catalog.HeldSource{{Source: catalog.Source{Repository: "demo", Path: "app"}, Snapshot: catalog.Snapshot{Commit: commit, Digest: digest.FromBytes([]byte(commit))}}}
}

// led returns the rollouts of a store, and a term.
func led(t *testing.T, s subject) (*sqlstore.Rollouts, int64) {
	t.Helper()
	stored := sqlstore.RolloutsOf(s.Store)
	return stored, electiontest.Claim(t, stored, "replica")
}

func countSpecs(t *testing.T, s subject) (count int) {
	t.Helper()
	if err := s.raw(t).QueryRowContext(t.Context(), "SELECT count(*) FROM staged_specs").Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// testStagedSpecs admits specs. Equal ones are stored once, and go when no service is held at them.
func testStagedSpecs(t *testing.T, s subject) {
	stored, term := led(t, s)
	save := func(step drive.Step) {
		t.Helper()
		if err := stored.Save(t.Context(), term, step); err != nil {
			t.Fatal(err)
		}
	}
	first, second := stagedAt("v1"), stagedAt("v2")
	save(drive.Step{Admissions: []catalog.Admission{
		{ServiceUID: "a", Service: "a@one", Content: heldAt("c1"), Spec: first},
		{ServiceUID: "b", Service: "b@two", Content: heldAt("c1"), Spec: stagedAt("v1")},
		{ServiceUID: "c", Service: "c@two", Content: heldAt("c1"), Spec: second},
	}})
	admissions := func() map[string]catalog.Admission {
		byUID := map[string]catalog.Admission{}
		for _, a := range changes(t, s, 0).Admissions {
			byUID[a.ServiceUID] = a
		}
		return byUID
	}
	got := admissions()
	if got["a"].Spec == nil || got["a"].Spec.Digest != first.Digest || got["a"].Spec != got["b"].Spec || got["c"].Spec.Digest != second.Digest {
		t.Errorf("got %+v, want the specs that were admitted, and one for both equal ones", got)
	}
	if n := countSpecs(t, s); n != 2 {
		t.Errorf("got %d stored specs of three services, want 2", n)
	}

	// A rollout of an earlier version names no spec: the service keeps its own. One that is released has none.
	save(drive.Step{Admissions: []catalog.Admission{{ServiceUID: "a", Service: "a@one", Content: heldAt("c2")}, {ServiceUID: "c", Service: "c@two"}}})
	if got = admissions(); got["a"].Spec == nil || got["a"].Spec.Digest != first.Digest || got["a"].Content[0].Snapshot.Commit != "c2" || got["c"].Spec != nil {
		t.Errorf("got %+v, want the spec of the first service with other content, and none of the last", got)
	}

	apply(t, s, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}})
	record := &drive.Record{ID: "run", PolicyUID: catalog.PlainOf[*catalog.RolloutPolicy](changes(t, s, 0).Plain)[0].UID, Number: 1, Start: drive.Start{At: time.Unix(1e9, 0)}}
	save(drive.Step{Record: record})
	if n := countSpecs(t, s); n != 1 {
		t.Errorf("got %d stored specs after a rollout began, want the one that is held", n)
	}
}

// testHeldRepositoriesStay deletes a repository that no service names any more. One is held at a spec that does:
// its bundles are made from the repository, and a rollback goes there.
func testHeldRepositoriesStay(t *testing.T, s subject) {
	stored, term := led(t, s)
	apply(t, s, repository("demo"), repository("other"))
	save := func(a catalog.Admission) {
		t.Helper()
		if err := stored.Save(t.Context(), term, drive.Step{Admissions: []catalog.Admission{a}}); err != nil {
			t.Fatal(err)
		}
	}
	save(catalog.Admission{ServiceUID: "a", Service: "a@one", Content: heldAt("c1"), Spec: stagedAt("v1")})
	editor := catalog.NewEditor(s)
	_, err := editor.Delete(t.Context(), repository("demo").Key())
	if used, ok := errors.AsType[*catalog.InUseError](err); !ok || len(used.By) != 1 || used.By[0].Name != "a@one" {
		t.Errorf("got %v, want that the service a@one keeps the repository", err)
	}
	if _, err := editor.Delete(t.Context(), repository("other").Key()); err != nil {
		t.Errorf("got %v for a repository that no spec names", err)
	}
	save(catalog.Admission{ServiceUID: "a", Service: "a@one"})
	if _, err := editor.Delete(t.Context(), repository("demo").Key()); err != nil {
		t.Errorf("got %v after the service was released", err)
	}
}

// testAdmissionsOfEarlierVersions opens a database whose admissions have no specs.
func testAdmissionsOfEarlierVersions(t *testing.T, s subject) {
	stored, term := led(t, s)
	if err := stored.Save(t.Context(), term, drive.Step{Admissions: []catalog.Admission{{ServiceUID: "a", Service: "a@one", Content: heldAt("c1")}}}); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"DROP INDEX admissions_spec", "ALTER TABLE admissions DROP COLUMN spec", "DROP TABLE staged_specs",
		"DELETE FROM bun_migrations WHERE name = '20261226000000'",
	} {
		if _, err := s.raw(t).ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Store = open(t, s.url)
	got := changes(t, s, 0).Admissions
	if len(got) != 1 || got[0].Spec != nil || len(got[0].Content) != 1 || got[0].Content[0].Snapshot.Commit != "c1" {
		t.Errorf("got %+v, want the content that was stored, and no spec", got)
	}
}
