// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/keys/backup"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

func keysOfTest(t *testing.T) sqlstore.Keys {
	t.Helper()
	root, err := keyroot.NewLocal(sealing)
	if err != nil {
		t.Fatal(err)
	}
	return sqlstore.Keys{Roots: []keyroot.Root{root}, Secrets: [][]byte{sealing}}
}

// backUp returns a backup of a database.
func backUp(t *testing.T, url string) []byte {
	t.Helper()
	keys := keysOfTest(t)
	snapshot, err := sqlstore.OpenSnapshot(t.Context(), url, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Close() }()
	var file bytes.Buffer
	w, err := backup.NewWriter(t.Context(), &file, keys.Roots[0], backup.Header{MadeAt: time.Now(), Schema: snapshot.Schema()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func openBackup(t *testing.T, file io.Reader) *backup.Reader {
	t.Helper()
	r, err := backup.NewReader(t.Context(), file, keysOfTest(t).Roots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// contents returns the rows of a backup by table, without what a restore changes.
func contents(t *testing.T, file []byte) map[string][]string {
	t.Helper()
	r := openBackup(t, bytes.NewReader(file))
	rows := map[string][]string{}
	var table *backup.Table
	for {
		begun, row, err := r.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case begun != nil:
			table = begun
			rows[table.Name] = []string{}
			continue
		case row == nil:
			for _, of := range rows {
				slices.Sort(of)
			}
			return rows
		}
		for i, column := range table.Columns {
			if table.Name == "clusters" && (column == "removals_held_at" || column == "connected_until") || table.Name == "revision" || table.Name == "audit_sequence" {
				row[i] = nil
			}
		}
		rows[table.Name] = append(rows[table.Name], fmt.Sprintf("%#v", row))
	}
}

// testBackup restores a database of every kind of row into one of the other kind, or the same.
func testBackup(t *testing.T, s subject) {
	outcomes := apply(t, s, sealedObjects(3)...)
	if err := s.Tokens().EnsureToken(t.Context(), catalog.User{Metadata: catalog.Metadata{Name: "admin"}}, "bootstrap", []byte("hash of a token, of the admin's"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.NewRotation(s.Store).SigningKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := backUp(t, s.url)
	rows, err := sqlstore.Verify(t.Context(), openBackup(t, bytes.NewReader(file)), keysOfTest(t))
	if err != nil || rows == 0 {
		t.Fatalf("verify: got %d rows, %v", rows, err)
	}
	url := newSQLiteURL(t)
	into := func(options sqlstore.RestoreOptions) (*sqlstore.Restored, error) {
		target, err := sqlstore.OpenTarget(t.Context(), url, keysOfTest(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = target.Close() }()
		return target.Restore(t.Context(), openBackup(t, bytes.NewReader(file)), nil, options)
	}
	done, err := into(sqlstore.RestoreOptions{KeepTokens: true})
	if err != nil {
		t.Fatal(err)
	}
	if done.Rows != rows || done.Clusters != 1 || len(done.Tokens) != 1 {
		t.Errorf("got %+v, want %d rows, a cluster and a token", done, rows)
	}
	if diff := cmp.Diff(contents(t, file), contents(t, backUp(t, url))); diff != "" {
		t.Errorf("rows (-backup +restored):\n%s", diff)
	}
	if _, err := into(sqlstore.RestoreOptions{}); !errors.Is(err, sqlstore.ErrNotEmpty) {
		t.Errorf("second restore: got %v, want %v", err, sqlstore.ErrNotEmpty)
	}

	restored := open(t, url)
	if err := opensAll(t.Context(), restored, uidsOf(outcomes)); err != nil {
		t.Error(err)
	}
	before, err := s.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	after, err := restored.Changes(t.Context(), 0)
	if err != nil || after.Revision <= before.Revision || !after.Clusters[0].RemovalsHeldSince.Equal(done.At) {
		t.Errorf("got revision %d, %v, want more than %d and held removals", after.Revision, err, before.Revision)
	}

	// It is replaced beneath the store that has it open.
	if done, err = into(sqlstore.RestoreOptions{Replace: true}); err != nil || done.EndedTokens != 1 || len(done.Tokens) != 0 {
		t.Errorf("replace: got %+v, %v, want that the token has ended", done, err)
	}
	if _, err := restored.Changes(t.Context(), 0); !errors.Is(err, catalog.ErrReplaced) {
		t.Errorf("changes: got %v, want %v", err, catalog.ErrReplaced)
	}
	err = restored.Edit(t.Context(), func(context.Context, catalog.Tx) error { return nil })
	if !errors.Is(err, catalog.ErrReplaced) {
		t.Errorf("edit: got %v, want %v", err, catalog.ErrReplaced)
	}
}
