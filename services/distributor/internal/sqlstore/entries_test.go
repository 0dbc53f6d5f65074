// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// referring is a service whose PASSWORD is at the back end vault.
func referring(name string) *catalog.Service {
	return configured(name, &catalog.Config{References: values{"PASSWORD": "vault://shop/db#password"}})
}

func vaultBackend() *catalog.ConfigBackend {
	b := &catalog.ConfigBackend{Metadata: catalog.Metadata{Name: "vault"}}
	b.Spec = catalog.ConfigBackendSpec{
		Vault:      &catalog.VaultBackend{URL: "https://vault.example", Auth: catalog.VaultByToken},
		Credential: "hunter2-in-the-clear", AllowedPaths: []string{"shop/*"}, Projects: []string{"default"},
	}
	return b
}

func passwordEntry(password string) configs.Entry {
	return configs.Entry{Fields: configs.FieldsOf(values{"password": password}), Version: password}
}

// testConfigEntries follows an entry, and what services are given of it.
func testConfigEntries(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"))
	outcomes := apply(t, s, vaultBackend(), referring("a"), referring("b"))
	backend, uid := outcomes[0].Object.Meta().UID, outcomes[1].Object.Meta().UID
	entries, at := sqlstore.NewEntries(s.Store), time.Now()
	due := func(replica string, now time.Time) int {
		t.Helper()
		tasks, err := entries.Due(t.Context(), backend, replica, now, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	// Two services make one path, which one replica reads until its memory of itself ends.
	if one, two := due("r1", at.Add(time.Second)), due("r2", at.Add(time.Second)); one != 1 || two != 0 {
		t.Errorf("got %d paths for the first replica and %d for the second, want 1 and 0", one, two)
	}
	if got := due("r2", at.Add(time.Hour)); got != 1 {
		t.Errorf("got %d paths for another replica after an hour, want 1", got)
	}
	if err := entries.Release(t.Context(), "r2"); err != nil {
		t.Fatal(err)
	}
	if got := due("r1", at.Add(time.Second)); got != 1 {
		t.Errorf("got %d paths after a release, want 1", got)
	}
	revision := func() int64 { return changes(t, s, 0).Revision }
	logged := func() *catalog.Service {
		for _, service := range changes(t, s, 0).Services {
			if service.LocalName() == "a" {
				return service
			}
		}
		t.Fatal("the service is gone")
		return nil
	}
	secretOf := func() string {
		t.Helper()
		config, digest, err := s.Config(t.Context(), uid)
		if err != nil || digest != logged().ConfigDigest {
			t.Fatalf("got digest %q and %v, want %q", digest, err, logged().ConfigDigest)
		}
		return config.Secrets["PASSWORD"].Reveal()
	}
	save := func(password string, at time.Time, want bool) {
		t.Helper()
		if changed, err := entries.Save(t.Context(), backend, "shop/db", passwordEntry(password), at, at.Add(time.Minute)); err != nil || changed != want {
			t.Errorf("save %s: got changed %v, %v, want %v", password, changed, err, want)
		}
	}
	if !logged().ConfigWaits || secretOf() != "" {
		t.Error("a service does not wait for a value that was never read")
	}
	save("x", at, true)
	first := logged().ConfigDigest
	if logged().ConfigWaits || secretOf() != "x" {
		t.Error("a service waits for a value that was read")
	}
	before := revision()
	save("x", at.Add(time.Second), false)
	if got := revision(); got != before {
		t.Errorf("an unchanged entry makes revision %d of %d", got, before)
	}
	save("y", at.Add(2*time.Second), true)
	save("x", at.Add(time.Second), false) // asked for earlier, answered later
	if secretOf() != "y" || logged().ConfigDigest == first {
		t.Error("an earlier answer replaces a later one")
	}
	fail := func(f configs.Failed, at time.Time) {
		t.Helper()
		f.Next = at.Add(time.Minute)
		if _, err := entries.Fail(t.Context(), backend, "shop/db", f, at); err != nil {
			t.Fatal(err)
		}
	}
	fail(configs.Failed{Message: "denied", IsRefused: true}, at.Add(3*time.Second))
	if p := logged().ConfigProblem; p == nil || p.Reason != reason.ConfigMissing || secretOf() != "y" {
		t.Errorf("got %v after a denial", p)
	}
	// An outage after the denial gives nothing back: a new service still waits.
	fail(configs.Failed{Message: "away"}, at.Add(4*time.Second))
	late := apply(t, s, referring("late"))[0].Object.Meta().UID
	if config, _, err := s.Config(t.Context(), late); err != nil || len(config.Secrets) != 0 {
		t.Errorf("got %d secrets, %v, for a service that came after a denial", len(config.Secrets), err)
	}
	// The first failure began the problem.
	fail(configs.Failed{Message: "denied", IsRefused: true}, at.Add(4500*time.Millisecond))
	if states, err := entries.Status(t.Context()); err != nil || !states[backend].Problem.Since.Equal(at.Add(3*time.Second).Truncate(time.Microsecond)) {
		t.Errorf("got %+v, %v, want a problem since the denial", states[backend], err)
	}
	// Keys are rotated, and all of it opens by the new one alone.
	if _, err := sqlstore.NewRotation(s.Store).RotateSealingKey(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if n := resealed(t, s.Store, 2); n < 3 {
		t.Errorf("got %d values that were sealed again, want the credential, the entry and what services were given", n)
	}
	if done, err := sqlstore.NewRotation(s.Store).RetireSealingKeys(t.Context()); err != nil || !done {
		t.Errorf("got %v, %v, want the former key retired", done, err)
	}
	opened, err := entries.Backend(t.Context(), backend)
	if err != nil || opened.Spec.Credential.Reveal() != "hunter2-in-the-clear" || secretOf() != "y" {
		t.Errorf("after a rotation: got %v", err)
	}
	save("z", at.Add(5*time.Second), true)
	if _, err := catalog.NewEditor(s.Store).Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigBackend, Name: "vault"}); err == nil || !strings.Contains(err.Error(), "late") {
		t.Errorf("got %v, want that services refer to the back end", err)
	}
	for _, name := range []string{"a@one", "b@one", "late@one"} {
		if _, err := catalog.NewEditor(s.Store).Delete(t.Context(), catalog.Key{Kind: catalog.KindService, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if got := due("r1", at.Add(time.Hour)); got != 0 {
		t.Errorf("got %d due paths that nobody refers to", got)
	}
	if err := entries.Prune(t.Context(), at.Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if states, err := entries.Status(t.Context()); err != nil || len(states) != 0 {
		t.Errorf("got %v, %v", states, err)
	}
	if _, err := catalog.NewEditor(s.Store).Delete(t.Context(), catalog.Key{Kind: catalog.KindConfigBackend, Name: "vault"}); err != nil {
		t.Error(err)
	}
}

// TestShareOfAProject has one project refer to as many paths of a back end as it may. One database is
// enough, because many references take their time.
func TestShareOfAProject(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	s := subject{Store: open(t, url), url: url}
	const share, each = 2000, 250
	backend := vaultBackend()
	backend.Spec.Projects = []string{"*"}
	apply(t, s, cluster("one"), repository("demo"), backend)
	service := func(name string, first, n int) *catalog.Service {
		references := values{}
		for i := range n {
			references[fmt.Sprintf("K%d", i)] = fmt.Sprintf("vault://shop/p%d#a", first+i)
		}
		return configured(name, &catalog.Config{References: references})
	}
	for first := 0; first < share; first += each {
		apply(t, s, service(fmt.Sprintf("s%d", first), first, each))
	}
	_, err := catalog.NewEditor(s).Apply(t.Context(), []catalog.Object{service("more", share, 1)}, false)
	if e, ok := errors.AsType[*fielderr.Error](err); !ok || !strings.HasSuffix(e.Path, "spec.config.references") || !strings.Contains(e.Message, "project default") {
		t.Errorf("got %v for a path beyond the share, want an error of the field", err)
	}
	// A path that the project refers to already costs nothing.
	apply(t, s, service("same", 0, each))
}
