// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// TestReplicaFrozenInAnEdit freezes the leader of fleet sources in the middle of an edit, with the locks that all
// edits queue for and that fence its term. PostgreSQL ends the transaction, so another replica
// takes the lead and edits while the first is still frozen. Nothing of the edit is stored when it
// continues.
func TestReplicaFrozenInAnEdit(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	other := open(t, url) // migrates the database without the short timeout
	frozen := open(t, url+"?idle_in_transaction_session_timeout=3s")
	if got, err := sqlstore.Setting(t.Context(), other, "idle_in_transaction_session_timeout"); err != nil || got != "20s" {
		t.Errorf("got an end of silent transactions after %q, %v, want 20s where the URL names none", got, err)
	}
	leader, second := sqlstore.FleetSourcesOf(frozen), sqlstore.FleetSourcesOf(other)
	term := electiontest.Claim(t, leader, "frozen")
	inEdit, thaw, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- leader.Fenced(term).Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
			c := cluster("frozen")
			c.UID = "frozen"
			if err := tx.Put(ctx, c); err != nil {
				return err
			}
			close(inEdit)
			<-thaw
			return nil
		})
	}()
	<-inEdit
	later := electiontest.Claim(t, second, "other")
	objects := []catalog.Object{cluster("of-the-other")}
	if _, err := catalog.NewEditor(second.Fenced(later)).Apply(t.Context(), objects, false); err != nil {
		t.Fatal(err)
	}
	close(thaw)
	if err := <-done; !errors.Is(err, catalog.ErrUnavailable) {
		t.Errorf("the edit that was frozen: got %v, want %v", err, catalog.ErrUnavailable)
	}
	if err := leader.Beat(t.Context(), term); !errors.Is(err, election.ErrDeposed) {
		t.Errorf("a beat after it: got %v, want %v", err, election.ErrDeposed)
	}
	got := changes(t, subject{Store: other}, 0).Clusters
	if len(got) != 1 || got[0].Name != "of-the-other" {
		t.Errorf("got %d clusters, want that of the other replica alone", len(got))
	}
}
