// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor/internal/config/compose/composetest"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

func TestComposeOnSQLite(t *testing.T) {
	t.Parallel()
	composetest.Run(t, func(t *testing.T) composetest.Hub { return newComposing(t, sqliteURL(t)) })
}

func TestComposeOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	composetest.Run(t, func(t *testing.T) composetest.Hub { return newComposing(t, server.Database(t)) })
}

// composing is a store in front of the suite of configurations.
type composing struct {
	holding

	entries *sqlstore.Entries
	at      time.Time // of the last read of a back end
}

func newComposing(t *testing.T, url string) *composing {
	t.Helper()
	s := subject{Store: open(t, url), url: url}
	return &composing{holding: newHolding(t, s), entries: sqlstore.NewEntries(s.Store), at: time.Now()}
}

func (c *composing) Put(t *testing.T, objects ...catalog.Object) []catalog.Object {
	t.Helper()
	var stored []catalog.Object
	for _, outcome := range apply(t, c.s, objects...) {
		stored = append(stored, outcome.Object)
	}
	return stored
}

func (c *composing) backend(t *testing.T, name string) string {
	t.Helper()
	for _, backend := range changes(t, c.s, 0).Backends {
		if backend.Name == name {
			return backend.UID
		}
	}
	t.Fatalf("there is no back end %s", name)
	return ""
}

func (c *composing) Answer(t *testing.T, backend, path string, entry configs.Entry) bool {
	t.Helper()
	c.at = c.at.Add(time.Second)
	isChanged, err := c.entries.Save(t.Context(), c.backend(t, backend), path, entry, c.at, c.at.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return isChanged
}

func (c *composing) Fail(t *testing.T, backend, path string, failed configs.Failed) bool {
	t.Helper()
	c.at = c.at.Add(time.Second)
	failed.Next = c.at.Add(time.Minute)
	isChanged, err := c.entries.Fail(t.Context(), c.backend(t, backend), path, failed, c.at)
	if err != nil {
		t.Fatal(err)
	}
	return isChanged
}

func (c *composing) Hold(t *testing.T, service string) {
	t.Helper()
	c.hold(t, localName(service))
}

func (c *composing) Release(t *testing.T, service string) {
	t.Helper()
	of := c.logged(t, localName(service))
	c.save(t, catalog.Admission{ServiceUID: of.UID, Service: of.Name})
}

func (c *composing) Keep(ctx context.Context, variants []catalog.ConfigVariant) (map[string]*catalog.Problem, error) {
	return sqlstore.Variants{Store: c.s.Store}.Keep(ctx, variants)
}

func (c *composing) Variant(t *testing.T, id string) catalog.VariantState {
	t.Helper()
	for _, variant := range changes(t, c.s, 0).Variants {
		if variant.ID == id {
			return variant
		}
	}
	t.Fatalf("there is no variant %s", id)
	return catalog.VariantState{}
}

func (c *composing) Service(t *testing.T, service string) *catalog.Service {
	t.Helper()
	return c.logged(t, localName(service))
}

func (c *composing) Config(t *testing.T, service string) (catalog.Config, string) {
	t.Helper()
	config, digest, err := c.s.Config(t.Context(), c.Service(t, service).UID)
	if err != nil {
		t.Fatal(err)
	}
	return config, digest
}

func (c *composing) Explain(t *testing.T, service string) map[string]configs.Explained {
	t.Helper()
	explained, err := c.entries.Explain(t.Context(), c.Service(t, service).UID)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]configs.Explained{}
	for _, x := range explained {
		keys[x.Key] = x
	}
	return keys
}

func (c *composing) Revision(t *testing.T) int64 {
	t.Helper()
	return changes(t, c.s, 0).Revision
}

// localName returns the name of a service without its cluster.
func localName(service string) string {
	name, _ := objectname.SplitService(service)
	return name
}
