// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var rewrite = flag.Bool("update", false, "write what is read of the databases of earlier versions as what is wanted")

// earlier are the days of databases that distributors of those days have written, with an object of each kind, a token
// and a tombstone. testdata has each as a file of SQLite, as a dump of PostgreSQL, and as what is read of them.
var earlier = []string{"2026-11-26"}

// newer has the kinds that came after a day, so its databases have no object of them.
var newer = map[string][]catalog.Kind{"2026-11-26": {catalog.KindAccessRequest, catalog.KindImagePolicy}}

// TestDatabasesOfEarlierVersions opens them with the store of today, in both engines, and reads everything.
func TestDatabasesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for _, day := range earlier {
		t.Run(day+"/SQLite", func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "leat.db")
			if err := os.WriteFile(file, unzipped(t, day+".db.gz"), 0o600); err != nil {
				t.Fatal(err)
			}
			checkEarlier(t, day, "sqlite://"+filepath.ToSlash(file))
		})
		t.Run(day+"/PostgreSQL", func(t *testing.T) {
			t.Parallel()
			url := postgrestest.New(t).Database(t)
			if _, err := (subject{url: url}).raw(t).ExecContext(t.Context(), string(unzipped(t, day+".sql.gz"))); err != nil {
				t.Fatal(err)
			}
			checkEarlier(t, day, url)
		})
	}
}

func unzipped(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkEarlier compares what is read of a database with testdata, and edits every object.
func checkEarlier(t *testing.T, day, url string) {
	t.Helper()
	s := subject{Store: open(t, url), url: url}
	if deleted := changes(t, s, 1).Deleted; len(deleted) != 1 || deleted[0].Key.Name != "gone" {
		t.Errorf("got the tombstones %v, want that of the cluster gone", deleted)
	}
	all, objects := readAll(t, s, newer[day])
	got, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", day+".json")
	if *rewrite {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	editor := catalog.NewEditor(s)
	for _, object := range objects {
		object.Meta().Labels = map[string]string{"edited": "yes"}
		if _, err := update(t.Context(), editor, object); err != nil {
			t.Errorf("edit %s: %v", object.Key(), err)
		}
	}
	again, _ := readAll(t, s, newer[day])
	for name, was := range all {
		if now := again[name]; now.Secrets != was.Secrets || now.Generation != was.Generation || string(now.Spec) != string(was.Spec) {
			t.Errorf("%s: got %+v after an edit of its labels, want everything else as before: %+v", name, now, was)
		}
	}
}

// earlierObject is what is read of an object.
type earlierObject struct {
	Labels     map[string]string `json:"labels,omitempty"`
	CreatedBy  string            `json:"createdBy"`
	Reason     string            `json:"reason"`
	Generation int64             `json:"generation"`
	Spec       json.RawMessage   `json:"spec"`
	Secrets    string            `json:"secrets,omitempty"`
}

// readAll reads every object with its secrets, by its key, and asks whom a token is for. It requires an object of each
// kind but those that came later.
func readAll(t *testing.T, s subject, later []catalog.Kind) (all map[string]earlierObject, objects []catalog.Object) {
	t.Helper()
	c := changes(t, s, 0)
	keys := map[catalog.Key]bool{}
	for _, names := range [][]catalog.Object{
		of(c.Projects), of(c.Clusters), of(c.Repositories), of(c.Backends), of(c.ConfigSets), of(c.Services), of(c.Users), of(c.Bindings), of(c.Providers),
		of(c.Notifiers), of(c.Globals), of(c.FleetSources), of(c.Plain),
	} {
		for _, object := range names {
			keys[object.Key()] = true
		}
	}
	kinds := map[catalog.Kind]bool{}
	all = map[string]earlierObject{}
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		for key := range keys {
			object, err := tx.Get(ctx, key)
			if err != nil {
				return err
			}
			spec, secrets := specOf(t, object)
			m := object.Meta()
			all[key.String()] = earlierObject{m.Labels, m.CreatedBy, m.Reason, m.Generation, spec, secrets}
			objects, kinds[key.Kind] = append(objects, object), true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range catalog.Kinds() {
		if !kinds[kind] && !slices.Contains(later, kind) {
			t.Errorf("%s: none was read", kind)
		}
	}
	token, err := s.Tokens().UserByToken(t.Context(), []byte("hash of ada's"))
	if err != nil || token.User.Name != "ada" || token.Token.Label != "laptop" {
		t.Errorf("got the token %+v, %v, want ada's", token, err)
	}
	return all, objects
}

func of[O catalog.Object](some []O) []catalog.Object {
	all := make([]catalog.Object, len(some))
	for i, object := range some {
		all[i] = object
	}
	return all
}

// specOf returns the spec of an object as JSON, without secrets, and the secrets that the generator of the database gave.
func specOf(t *testing.T, object catalog.Object) (spec json.RawMessage, secrets string) {
	t.Helper()
	var of any
	switch o := object.(type) {
	case *catalog.Project:
		of = o.Spec
	case *catalog.Cluster:
		of = o.Spec
	case *catalog.Repository:
		of, secrets = o.Spec, o.Spec.Credential.Password.Reveal()+", "+o.Spec.WebhookSecret.Reveal()
	case *catalog.ConfigBackend:
		of, secrets = o.Spec, o.Spec.Credential.Reveal()
	case *catalog.ConfigSet:
		of, secrets = o.Spec, o.Spec.Config.Secrets["PASSWORD"].Reveal()
	case *catalog.Service:
		of, secrets = o.Spec, o.Spec.Config.Secrets["TOKEN"].Reveal()
	case *catalog.User:
		of = o.Spec
	case *catalog.AccessBinding:
		of = o.Spec
	case *catalog.IdentityProvider:
		of, secrets = o.Spec, o.Spec.ClientSecret.Reveal()
	case *catalog.Notifier:
		of, secrets = o.Spec, o.Spec.Secrets.URL.Reveal()
	case *catalog.GlobalService:
		of = o.Spec
	case *catalog.FleetSource:
		of = o.Spec
	case catalog.Plain:
		of = o.SpecAt()
	default:
		t.Fatalf("%s: the test does not know its spec", object.Key())
	}
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return text, secrets
}
