// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

func TestNotificationsInSQLite(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	checkNotifications(t, open(t, url))
	for _, suffix := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(strings.TrimPrefix(url, "sqlite://") + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if strings.Contains(string(bytes), "canary") {
			t.Errorf("the database%s holds a secret of a notifier", suffix)
		}
	}
}

func TestNotificationsInPostgreSQL(t *testing.T) {
	t.Parallel()
	checkNotifications(t, open(t, postgrestest.New(t).Database(t)))
}

func checkNotifications(t *testing.T, store *sqlstore.Store) {
	t.Helper()
	ctx, box := t.Context(), sqlstore.NotificationsOf(store)
	secrets := catalog.NotifierSecrets{URL: "https://hooks.example/canary", HMACKey: secret.Text("canary of the HMAC key")}
	made, err := create(ctx, catalog.NewEditor(store), &catalog.Notifier{Metadata: catalog.Metadata{Name: "ops"}, Spec: catalog.NotifierSpec{
		Sink: catalog.Sink{Type: catalog.SinkWebhook}, Secrets: secrets,
	}})
	if err != nil {
		t.Fatal(err)
	}
	uid := made.Meta().UID
	if got, err := box.NotifierSecrets(ctx, uid); err != nil || got != secrets {
		t.Errorf("got other secrets, %v", err)
	}
	changes, err := store.Changes(ctx, 0)
	if err != nil || len(changes.Notifiers) != 1 || changes.Notifiers[0].Spec.Secrets != (catalog.NotifierSecrets{}) ||
		changes.Notifiers[0].Spec.Sink.Target != "https://hooks.example" {
		t.Errorf("got %v, %v", changes.Notifiers, err)
	}

	lead, err := box.Tenure(ctx)
	if err != nil {
		t.Fatal(err)
	}
	term, ok, err := box.Claim(ctx, "first", lead)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, ok, err := box.Claim(ctx, "second", lead); ok || err != nil {
		t.Errorf("a lead was claimed twice: %v", err)
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	item := func(id, cause string) notify.Item {
		return notify.Item{NotifierUID: uid, Cause: cause, CreatedAt: now, NextAt: now, Message: notice.Message{
			ID: id, Kind: notice.ServiceFailed, Count: 1, Events: []notice.Event{{ID: id, Kind: notice.ServiceFailed, Time: now}}, LastTime: now,
		}}
	}
	stranger := item("other", "x")
	stranger.NotifierUID = "gone"
	batch := notify.Batch{
		Since: now, States: map[string]notify.State{"Service/1": {Class: notify.Failed, Bad: true}, "Service/2": {Class: notify.Healthy}},
		Added: []notify.Item{item("a", "x"), item("b", "y"), stranger},
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	oldest := func(when string, want time.Time) {
		t.Helper()
		if got, err := box.Oldest(ctx); err != nil || !got.Equal(want) {
			t.Errorf("%s: the oldest that waits is of %v, %v, want %v", when, got, err, want)
		}
	}
	oldest("before any", time.Time{})
	check(box.Save(ctx, term, batch))
	oldest("with some", now)
	check(box.Save(ctx, term, notify.Batch{Gone: []string{"Service/2"}, Added: []notify.Item{item("c", "x")}}))
	ledger, err := box.Ledger(ctx)
	if err != nil || !ledger.Since.Equal(now) || len(ledger.States) != 1 || !ledger.States["Service/1"].Bad {
		t.Errorf("got %v, %v", ledger, err)
	}
	take := func(at time.Time, skip ...string) []notify.Item {
		t.Helper()
		items, err := box.Take(ctx, term, at, at.Add(time.Minute), skip, 10)
		check(err)
		return items
	}
	if got := take(now.Add(-time.Second)); len(got) != 0 {
		t.Errorf("took %v before its time", got)
	}
	if got := take(now, uid); len(got) != 0 {
		t.Errorf("took %v of a notifier to skip", got)
	}
	first := take(now)
	if len(first) != 1 || first[0].Message.ID != "a" || first[0].Message.Count != 2 || first[0].Attempts != 1 {
		t.Fatalf("got %v, want a with the event of c", first)
	}
	check(box.Save(ctx, term, notify.Batch{Added: []notify.Item{item("d", "x")}})) // is not added to a, which may have arrived
	second := take(now)
	if len(second) != 1 || second[0].Message.Count != 1 {
		t.Fatalf("got %v", second)
	}
	check(box.Settle(ctx, term, notify.Judge(first[0], nil, 0, now)))
	check(box.Settle(ctx, term, notify.Judge(second[0], &notify.RefusedError{Message: "no", Permanent: true}, 0, now)))
	bags, err := box.Mailbags(ctx, []string{uid, "gone"})
	if bag := bags[uid]; err != nil || bag.Sent != 1 || bag.Dead != 1 || bag.Waiting != 1 || bag.LastError != "no" || !bag.LastSentAt.Equal(now) {
		t.Errorf("got %+v, %v", bags, err)
	}
	letters, err := box.DeadLetters(ctx, uid)
	if err != nil || len(letters) != 1 || letters[0].Message.ID != second[0].Message.ID || letters[0].LastError != "no" {
		t.Errorf("got %v, %v", letters, err)
	}
	if n, err := box.Resend(ctx, uid, []string{"nobody"}, now); n != 0 || err != nil {
		t.Errorf("sends %d again, %v", n, err)
	}
	if n, err := box.Resend(ctx, uid, nil, now); n != 1 || err != nil {
		t.Errorf("sends %d again, %v", n, err)
	}

	// Too many messages wait.
	var many []notify.Item
	for i := range notify.MaxWaiting + 10 {
		many = append(many, item(fmt.Sprint("many-", i), "commit\nr\n"+fmt.Sprint(i)))
		many[i].Commit = notify.Commit{Repository: "r", ID: fmt.Sprint(i)}
	}
	check(box.Save(ctx, term, notify.Batch{Added: many}))
	if bags, err = box.Mailbags(ctx, []string{uid}); err != nil || bags[uid].Waiting != notify.MaxWaiting || bags[uid].Lost != 12 {
		t.Errorf("got %+v, %v", bags, err)
	}

	// A leader that was deposed writes nothing.
	check(box.Resign(ctx, term))
	if lead, err = box.Tenure(ctx); err != nil || lead.Holder != "" {
		t.Errorf("got %v, %v", lead, err)
	}
	if _, ok, err := box.Claim(ctx, "second", lead); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := box.Save(ctx, term, notify.Batch{States: map[string]notify.State{"late": {}}}); !errors.Is(err, election.ErrDeposed) {
		t.Errorf("a deposed leader: got %v", err)
	}
	if _, err := catalog.NewEditor(store).Delete(ctx, made.Key()); err != nil {
		t.Fatal(err)
	}
	if bags, err = box.Mailbags(ctx, []string{uid}); err != nil || len(bags) != 0 {
		t.Errorf("of a deleted notifier: got %v, %v", bags, err)
	}
}
