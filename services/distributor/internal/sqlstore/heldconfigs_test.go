// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// holding is a leader that holds services at configurations.
type holding struct {
	composed

	stored *sqlstore.Rollouts
	term   int64
}

func newHolding(t *testing.T, s subject) holding {
	t.Helper()
	stored, term := led(t, s)
	return holding{composed{s}, stored, term}
}

// keep stores the present configuration of a service, and returns its name.
func (h holding) keep(t *testing.T, service string) string {
	t.Helper()
	of := h.logged(t, service)
	lacking, err := h.stored.KeepConfigs(t.Context(), h.term, []drive.ConfigWish{{Name: of.ConfigName, Service: of}})
	if err != nil || len(lacking) > 0 {
		t.Fatalf("keep the configuration of %s: got %v, %v", service, lacking, err)
	}
	return of.ConfigName
}

func (h holding) save(t *testing.T, admissions ...catalog.Admission) {
	t.Helper()
	if err := h.stored.Save(t.Context(), h.term, drive.Step{Admissions: admissions}); err != nil {
		t.Fatal(err)
	}
}

func (h holding) admission(t *testing.T, service, config string) catalog.Admission {
	t.Helper()
	of := h.logged(t, service)
	return catalog.Admission{ServiceUID: of.UID, Service: of.Name, Content: heldAt("c1"), Spec: of.Spec.Staged(), Config: config}
}

// hold holds a service at its present configuration.
func (h holding) hold(t *testing.T, service string) string {
	t.Helper()
	name := h.keep(t, service)
	h.save(t, h.admission(t, service, name))
	return name
}

// given compares what an agent is given while a service is held, and returns the digest.
func (h holding) given(t *testing.T, when, service string, want map[string]string) string {
	t.Helper()
	logged := h.logged(t, service)
	planned := logged.ConfigDigest
	if held := logged.HeldConfig; held != nil {
		planned = held.Digest
	}
	config, digest, err := h.s.Config(t.Context(), logged.UID)
	if err != nil || digest != planned {
		t.Fatalf("%s: got digest %q and %v, want that of the plan, %q", when, digest, err, planned)
	}
	if diff := cmp.Diff(want, plain(config)); diff != "" {
		t.Errorf("%s: %s is given (-want +got):\n%s", when, service, diff)
	}
	return digest
}

func (h holding) count(t *testing.T, table string) (count int) {
	t.Helper()
	if err := h.s.raw(t).QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// testHeldConfigs edits a set while one of two services is held at the configuration from before. It keeps that,
// with its digest, through a rotation of keys and a restart, and follows again when it is released.
func testHeldConfigs(t *testing.T, s subject) {
	h := newHolding(t, s)
	set := func(host, password string) *catalog.ConfigSet {
		return configSet("base", &catalog.Config{Values: values{"HOST": host}, Secrets: secrets{"P": secret.Text(password)}})
	}
	apply(t, s, cluster("one"), repository("demo"), set("first", "hunter2-first"), listing("a", nil, "base"), listing("b", nil, "base"), listing("none", nil))
	first := map[string]string{"HOST": "first", "secret P": "hunter2-first"}
	before := h.given(t, "made", "a", first)
	if a, b := h.logged(t, "a"), h.logged(t, "b"); a.ConfigName == "" || a.ConfigName != b.ConfigName || a.ConfigDigest == b.ConfigDigest {
		t.Errorf("got the names %q and %q, want one for equal configurations of a project, and digests that differ", a.ConfigName, b.ConfigName)
	}
	name := h.hold(t, "a")
	if h.given(t, "held at its own", "a", first) != before || h.logged(t, "a").HeldConfig != nil {
		t.Error("holding a service at its own configuration changes its digest")
	}
	apply(t, s, set("second", "hunter2-second"))
	second := map[string]string{"HOST": "second", "secret P": "hunter2-second"}
	if h.given(t, "an edit", "a", first) != before {
		t.Error("an edit changes the digest of a service that is held")
	}
	h.given(t, "an edit", "b", second)
	if got := changes(t, s, 0).Admissions; len(got) != 1 || got[0].Config != name || got[0].Staged == nil {
		t.Errorf("got %+v, want the configuration that the service is held at", got)
	}

	if _, err := sqlstore.NewRotation(s.Store).RotateSealingKey(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	resealed(t, s.Store, 100)
	if retired, err := sqlstore.NewRotation(s.Store).RetireSealingKeys(t.Context()); err != nil || !retired {
		t.Errorf("got %t, %v, want the old key deleted", retired, err)
	}
	h.given(t, "another key", "a", first)
	var sealed []byte
	if err := s.raw(t).QueryRowContext(t.Context(), "SELECT sealed FROM held_configs WHERE name = $1", name).Scan(&sealed); err != nil || bytes.Contains(sealed, []byte("hunter2")) {
		t.Errorf("got %v, want a sealed secret", err)
	}

	// A wish for what a service has no more is not granted, and no step may name it.
	gone := h.logged(t, "b")
	apply(t, s, set("third", "hunter2-third"))
	lacking, err := h.stored.KeepConfigs(t.Context(), h.term, []drive.ConfigWish{{Name: gone.ConfigName, Service: gone}})
	if err != nil || !slices.Equal(lacking, []string{gone.ConfigName}) {
		t.Errorf("got %v, %v, want that the configuration cannot be stored any more", lacking, err)
	}
	if err := h.stored.Save(t.Context(), h.term, drive.Step{Admissions: []catalog.Admission{h.admission(t, "b", gone.ConfigName)}}); err == nil {
		t.Error("a step names a configuration that is not stored")
	}

	// An admission of an earlier version has no configuration.
	h.save(t, h.admission(t, "a", ""))
	h.given(t, "an earlier version", "a", first)
	h.save(t, h.admission(t, "none", h.keep(t, "none")))
	apply(t, s, listing("none", nil, "base"))
	h.given(t, "held at none", "none", map[string]string{})
	released := h.logged(t, "a")
	h.save(t, catalog.Admission{ServiceUID: released.UID, Service: released.Name})
	h.given(t, "released", "a", map[string]string{"HOST": "third", "secret P": "hunter2-third"})
	if n := h.count(t, "held_configs"); n != 0 {
		t.Errorf("got %d stored configurations that nothing names, want none", n)
	}
}

// testConfigsOfRollouts stores the configurations of a rollout until it has ended.
func testConfigsOfRollouts(t *testing.T, s subject) {
	h := newHolding(t, s)
	set := func(value string) *catalog.ConfigSet {
		return configSet("base", &catalog.Config{Values: values{"A": value, "B": "b"}})
	}
	apply(t, s, &catalog.RolloutPolicy{Metadata: catalog.Metadata{Name: "waves"}}, cluster("one"), repository("demo"), set("1"), listing("a", nil, "base"))
	from := h.hold(t, "a")
	apply(t, s, set("2"))
	to := h.keep(t, "a")
	keys, err := h.stored.ChangedKeys(t.Context(), [][2]string{{from, to}, {catalog.NoConfig, to}})
	if err != nil || !slices.Equal(keys, []string{"A", "B"}) {
		t.Errorf("got the keys %v, %v", keys, err)
	}
	if keys, err = h.stored.ChangedKeys(t.Context(), [][2]string{{from, to}}); err != nil || !slices.Equal(keys, []string{"A"}) {
		t.Errorf("got the keys %v, %v, want the one that differs", keys, err)
	}
	record := &drive.Record{ID: "run", PolicyUID: catalog.PlainOf[*catalog.RolloutPolicy](changes(t, s, 0).Plain)[0].UID, Number: 1, Start: drive.Start{
		At: time.Unix(1e9, 0), ConfigOf: map[string]string{"r1": from, "r2": to},
	}}
	step := func() {
		t.Helper()
		if err := h.stored.Save(t.Context(), h.term, drive.Step{Record: record}); err != nil {
			t.Fatal(err)
		}
		record.Version++
	}
	step()
	apply(t, s, set("3"))
	if n := h.count(t, "held_configs"); n != 2 {
		t.Errorf("got %d configurations while the rollout is under way, want 2", n)
	}
	h.save(t, h.admission(t, "a", to))
	h.given(t, "what the rollout brings", "a", map[string]string{"A": "2", "B": "b"})
	h.save(t, h.admission(t, "a", from))
	h.given(t, "what the rollout goes back to", "a", map[string]string{"A": "1", "B": "b"})
	record.Run.State = rollout.RolledBack
	step()
	if n := h.count(t, "held_configs"); n != 1 || h.count(t, "rollout_configs") != 0 {
		t.Errorf("got %d configurations after the rollout, want the one that is held", n)
	}
}

// testHeldReferences holds a service at a reference to a back end while its own is another one. A
// value that the back end rotates reaches it with either.
func testHeldReferences(t *testing.T, s subject) {
	h := newHolding(t, s)
	entries := sqlstore.NewEntries(s.Store)
	apply(t, s, cluster("one"), repository("demo"), vaultBackend())
	backend := changes(t, s, 0).Backends[0].UID
	at := time.Now()
	reading := func(path, password string) {
		t.Helper()
		at = at.Add(time.Second)
		if _, err := entries.Save(t.Context(), backend, path, passwordEntry(password), at, at.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	of := func(path string) *catalog.Service {
		return configured("a", &catalog.Config{Values: values{"PATH": path}, References: values{"P": "vault://" + path + "#password"}})
	}
	apply(t, s, of("shop/db"))
	reading("shop/db", "hunter2-1")
	was := map[string]string{"PATH": "shop/db", "secret P": "hunter2-1"}
	before := h.given(t, "made", "a", was)
	h.hold(t, "a")
	apply(t, s, of("shop/next"))
	if h.given(t, "another reference", "a", was) != before {
		t.Error("an edit of a reference changes the digest of a service that is held")
	}
	if logged := h.logged(t, "a"); !logged.ConfigWaits || logged.HeldConfig == nil || logged.HeldConfig.Waits {
		t.Errorf("got %+v, want that the service's own configuration waits, and not the one that is held", logged)
	}
	reading("shop/next", "hunter2-next")
	reading("shop/db", "hunter2-2")
	was["secret P"] = "hunter2-2"
	if h.given(t, "a rotation", "a", was) == before {
		t.Error("a rotation does not reach a service that is held")
	}
	h.save(t, h.admission(t, "a", h.keep(t, "a")))
	h.given(t, "admitted", "a", map[string]string{"PATH": "shop/next", "secret P": "hunter2-next"})
	if n := h.count(t, "held_given"); n != 0 {
		t.Errorf("got values of %d services that are held at their own configuration, want none", n)
	}
}

// testConfigsOfEarlierVersions opens a database whose configurations have no names.
func testConfigsOfEarlierVersions(t *testing.T, s subject) {
	h := newHolding(t, s)
	apply(t, s, cluster("one"), repository("demo"), configured("a", &catalog.Config{Values: values{"A": "1"}}))
	named := h.logged(t, "a")
	if _, err := s.raw(t).ExecContext(t.Context(), "UPDATE services SET config = replace(config, $1, '')", `"name":"`+named.ConfigName+`",`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Store = open(t, s.url)
	if got := (composed{s}).logged(t, "a"); got.ConfigName != named.ConfigName || got.ConfigDigest != named.ConfigDigest {
		t.Errorf("got %q, want the name %q", got.ConfigName, named.ConfigName)
	}
}
