// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// held is an audit log that hangs until released is closed.
type held struct {
	released chan struct{}
	disk
}

func (h *held) Write(p []byte) (int, error) {
	<-h.released
	return h.disk.Write(p)
}

// TestSecAuditLogThatHangs has an output of the audit log hang while many people edit and agents are
// heard from. No edit is made. The edits are refused together, after the time of one or two and not
// one after the other, and writes that leave no record continue. Afterwards edits are made and
// recorded again.
func TestSecAuditLogThatHangs(t *testing.T) {
	t.Parallel()
	const persons, timeout = 100, 2 * time.Second
	store := open(t, sqliteURL(t))
	log := &held{released: make(chan struct{})}
	w := recorded(t, store, log, timeout)
	editor := catalog.NewEditor(w)
	began := time.Now()
	var group sync.WaitGroup
	for i := range persons {
		group.Go(func() {
			_, err := create(as(t.Context(), "ada", ""), editor, cluster(fmt.Sprint("refused-", i)))
			if !errors.Is(err, catalog.ErrUnrecorded) {
				t.Errorf("got %v, want %v", err, catalog.ErrUnrecorded)
			}
		})
		group.Go(func() {
			if err := w.SavePresence(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if took := time.Since(began); took > persons*timeout/2 {
		t.Errorf("%d edits were refused after %s: they waited for each other", persons, took)
	}
	close(log.released)
	if _, err := create(as(t.Context(), "ada", ""), editor, cluster("made")); err != nil {
		t.Fatalf("after the output works again: %v", err)
	}
	page, err := sqlstore.RecordsOf(store).Find(t.Context(), journal.Query{Limit: 10})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Name != "made" {
		t.Errorf("got records %v, %v, want that of the last edit", page.Entries, err)
	}
	now, err := store.Changes(t.Context(), 0)
	if err != nil || len(now.Clusters) != 1 {
		t.Errorf("got clusters %v, %v, want the last one", now.Clusters, err)
	}
}

// recorded returns a store that writes records to an output that fails closed.
func recorded(t *testing.T, store *sqlstore.Store, log *held, timeout time.Duration) *sqlstore.Store {
	t.Helper()
	outputs, err := auditout.Open(t.Context(), auditout.Config{
		Outputs: []string{"stdout"}, FailClosed: true, Queue: 16 << 20, Timeout: timeout, Writer: log,
	}, auditout.Params{Service: "distributor", Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outputs.Close)
	j := journal.New(journal.Params{
		Store: sqlstore.RecordsOf(store), Outputs: outputs, Describe: people.Describe, Retention: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(j.Close)
	return store.WithJournal(j)
}
