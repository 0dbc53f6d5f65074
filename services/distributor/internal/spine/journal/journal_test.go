// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
)

// keeper is a store and an audit log in memory.
type keeper struct {
	journal.Store

	mu            sync.Mutex
	kept, written []*audit.Record
	old           int // records to prune
	err           error
}

func (k *keeper) Keep(_ context.Context, records []*audit.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.kept = append(k.kept, records...)
	}
	return k.err
}

func (k *keeper) Reach(context.Context) (time.Time, error) { return time.Time{}, nil }

func (k *keeper) Prune(_ context.Context, before time.Time, limit int) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(limit, k.old)
	if time.Since(before) != time.Hour {
		return 0, fmt.Errorf("got records of %v ago", time.Since(before))
	}
	k.old -= n
	return n, k.err
}

func (k *keeper) Write(_ context.Context, record *audit.Record) error {
	return k.WriteAll(context.Background(), []*audit.Record{record})
}

func (k *keeper) WriteAll(_ context.Context, records []*audit.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.written = append(k.written, records...)
	}
	return k.err
}

func (k *keeper) Failing() error { return nil }

func (k *keeper) Withdraw([]*audit.Record) {}

// document is the description of an object: its own JSON.
func newJournal(k *keeper, logger *slog.Logger) *journal.Journal {
	return journal.New(journal.Params{
		Store: k, Outputs: k, Retention: time.Hour, Logger: logger,
		Describe: func(object any) ([]byte, error) {
			if document, ok := object.(string); ok {
				return []byte(document), nil
			}
			return []byte(`{"spec": {}}`), nil
		},
	})
}

func fields(t rapid.TB, before, after any) *audit.Change {
	t.Helper()
	j := newJournal(&keeper{}, slog.New(slog.DiscardHandler))
	return j.Records(context.Background(), []catalog.Change{{Verb: "update", Kind: "Service", Name: "x", Before: before, After: after}})[0].Change
}

func TestFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ before, after, want string }{
		"nothing":      {`{"spec": {"a": 1}}`, `{"spec": {"a": 1}}`, `[]`},
		"spacing":      {`{"spec": {"a": 1, "b": [1]}}`, `{ "spec" : {"b":[1],"a":1}}`, `[]`},
		"server's own": {`{"metadata": {"uid": "1"}, "status": {}, "spec": {}}`, `{"metadata": {"uid": "2"}, "status": {"a": 1}, "spec": {}}`, `[]`},
		"value":        {`{"spec": {"a": {"b": "x"}}}`, `{"spec": {"a": {"b": "<y>"}}}`, `[{"path":"spec.a.b","old":"x","new":"<y>"}]`},
		"list":         {`{"spec": {"a": [1, 2]}}`, `{"spec": {"a": [1, 3, null]}}`, `[{"path":"spec.a[1]","old":2,"new":3},{"path":"spec.a[2]","new":null}]`},
		"emptied":      {`{"spec": {"a": {"b": true}}}`, `{"spec": {"a": {}}}`, `[{"path":"spec.a","new":{}},{"path":"spec.a.b","old":true}]`},
		"label": {
			`{"metadata": {"labels": {"a.b/c": "1"}}}`, `{"metadata": {"labels": {"a.b/c": "2", "d": ""}}}`,
			`[{"path":"metadata.labels.d","new":""},{"path":"metadata.labels[\"a.b/c\"]","old":"1","new":"2"}]`,
		},
		"large number": {`{"spec": 9007199254740993}`, `{"spec": 9007199254740992}`, `[{"path":"spec","old":9007199254740993,"new":9007199254740992}]`},
		"hidden key":   {`{"spec": {"config": {"values": {"A": "1"}}}}`, `{"spec": {"config": {"secrets": {"K": "x"}, "values": {"A": "1"}}}}`, `[]`},
	} {
		var want any
		if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got any
		if err := json.Unmarshal([]byte(audit.ChangesText(fields(t, tc.before, tc.after).Fields)), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if list, ok := got.([]any); (!ok || len(list) == 0) && tc.want == `[]` {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFieldsReplay applies the fields between any two documents to the values of the first, and
// gets the values of the second.
func TestFieldsReplay(t *testing.T) {
	t.Parallel()
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(3) })
	rapid.Check(t, func(t *rapid.T) {
		before, after := documentOf(t, value.Draw(t, "before")), documentOf(t, value.Draw(t, "after"))
		state := map[string]string{}
		play := func(change *audit.Change) {
			if change.Omitted != 0 {
				t.Skip("too large")
			}
			for _, f := range change.Fields {
				if old, had := state[f.Path]; had != (f.Old != nil) || old != string(f.Old) {
					t.Fatalf("%s: got %s before, want %q", f.Path, f.Old, old)
				}
				if f.New == nil {
					delete(state, f.Path)
				} else {
					state[f.Path] = string(f.New)
				}
			}
		}
		play(fields(t, nil, before))
		play(fields(t, before, after))
		play(fields(t, after, nil))
		if len(state) != 0 {
			t.Fatalf("got %v, want nothing left", state)
		}
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.StringN(0, 8, 40), func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n }),
	}
	if depth > 0 {
		below := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) })
		key := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "a.b", "[0]", "", "é", `"`}), rapid.StringN(0, 4, 20))
		leaves = append(leaves,
			rapid.Map(rapid.MapOfN(key, below, 0, 4), func(m map[string]any) any { return m }),
			rapid.Map(rapid.SliceOfN(below, 0, 4), func(l []any) any { return l }))
	}
	return rapid.OneOf(leaves...)
}

func documentOf(t *rapid.T, spec any) string {
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"x": spec}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSecRecordsOfLargeChangesAreBounded changes an object as large as a request can be: a record
// stays within its bounds, and so do all records of one edit.
func TestSecRecordsOfLargeChangesAreBounded(t *testing.T) {
	t.Parallel()
	size := func(records []*audit.Record) (total int) {
		for _, r := range records {
			total += len(audit.ChangesText(r.Change.Fields))
		}
		return total
	}
	long := `{"spec": {"a": "` + strings.Repeat("\x01", 0) + strings.Repeat("<", 4<<20) + `"}}`
	change := fields(t, nil, long)
	if n := len(audit.ChangesText(change.Fields)); n > 16<<10 || change.Omitted != 0 || !bytes.Contains(change.Fields[0].New, []byte("cut: ")) {
		t.Errorf("got %d bytes, %d omitted, want one value that is cut", n, change.Omitted)
	}
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `"key%d": "%d",`, i, i)
	}
	wide := `{"spec": {` + many.String() + `"z": 1}, "metadata": {"labels": {"` + strings.Repeat("k", 1<<20) + `": ""}}}`
	change = fields(t, nil, wide)
	if n := len(audit.ChangesText(change.Fields)); n > 256<<10 || len(change.Fields)+change.Omitted != 100_002 {
		t.Errorf("got %d bytes, %d fields and %d omitted", n, len(change.Fields), change.Omitted)
	}
	changes := make([]catalog.Change, 1000)
	for i := range changes {
		changes[i] = catalog.Change{Verb: "create", Kind: "Service", After: `{"spec": {"a": "` + strings.Repeat("x", 8<<10) + `", "b": "` + strings.Repeat("y", 8<<10) + `"}}`}
	}
	records := newJournal(&keeper{}, slog.New(slog.DiscardHandler)).Records(t.Context(), changes)
	if n := size(records); n > 8<<20 {
		t.Errorf("got %d bytes of one edit", n)
	}
	origin := catalog.Origin{UserAgent: strings.Repeat("u", 1<<20), Procedure: "/p", Subject: "user:eve", Asked: catalog.Target{Name: strings.Repeat("n", 1<<20)}}
	k := &keeper{}
	j := newJournal(k, slog.New(slog.DiscardHandler))
	defer j.Close()
	j.Refuse(t.Context(), origin, reason.AccessDenied)
	if r := k.kept[0]; len(r.UserAgent)+len(r.Attributes.Name) > 4<<10 {
		t.Errorf("got a user agent of %d bytes and a name of %d", len(r.UserAgent), len(r.Attributes.Name))
	}
}

func TestSecretsShowThatTheyChanged(t *testing.T) {
	t.Parallel()
	repository := func(password, webhook, proxy string) *catalog.Repository {
		r := &catalog.Repository{Metadata: catalog.Metadata{Name: "r"}}
		if password != "" {
			r.Spec.Credential = upstream.Credential{Method: upstream.MethodBasic, Password: secret.Text(password)}
		}
		r.Spec.WebhookSecret, r.Spec.ProxyURL = secret.Text(webhook), secret.Text(proxy)
		return r
	}
	proxy := func(password string) string { return "http://u:" + password + "@proxy.example" }
	change := catalog.ChangeOf(repository("canary1", "canary2", proxy("canary3")), repository("canary4", "", proxy("canary3")))
	records := newJournal(&keeper{}, slog.New(slog.DiscardHandler)).Records(t.Context(), []catalog.Change{
		change, catalog.ChangeOf(nil, repository("canary1", "", "")), catalog.ChangeOf(repository("", "", proxy("canary3")), repository("", "", proxy("canary5"))),
	})
	want := []string{
		`[{"path":"spec.credential","secret":true,"effect":"replaced"},{"path":"spec.webhookSecret","secret":true,"effect":"removed"}]`,
		`[{"path":"spec","new":{}},{"path":"spec.credential","secret":true,"effect":"set"}]`,
		`[{"path":"spec.proxyUrl","secret":true,"effect":"replaced"}]`,
	}
	for i, r := range records {
		if got := audit.ChangesText(r.Change.Fields); got != want[i] {
			t.Errorf("record %d: got %s, want %s", i, got, want[i])
		}
	}
}

// TestSignInsAreDamped records the exchange of a token once an hour for each token, service and
// address.
func TestSignInsAreDamped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		j := newJournal(k, slog.New(slog.DiscardHandler))
		defer j.Close()
		for range 2 {
			for _, address := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "nowhere"} {
				j.SignIn(t.Context(), catalog.Origin{Credential: "api.1", SourceAddress: address}, "tunnel")
			}
		}
		if len(k.kept) != 3 || len(k.written) != 3 {
			t.Errorf("got %d and %d records, want one for each address", len(k.kept), len(k.written))
		}
		<-time.After(time.Hour)
		j.SignIn(t.Context(), catalog.Origin{Credential: "api.1", SourceAddress: "192.0.2.1:1"}, "tunnel")
		if len(k.kept) != 4 {
			t.Errorf("got %d records an hour later, want another one", len(k.kept))
		}
	})
}

// TestSecRefusedSignInsDoNotFillTheRecords has strangers refused at two providers for a day, as fast
// as they like. Each provider and reason has a bounded number of records, which name the callers,
// and summaries that count the others without names.
func TestSecRefusedSignInsDoNotFillTheRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		j := newJournal(k, slog.New(slog.DiscardHandler))
		const hours, each = 24, 500
		for range hours {
			for i := range each {
				origin := catalog.Origin{SourceAddress: fmt.Sprintf("192.0.2.1:%d", i), UserAgent: "eve"}
				j.RefuseSignIn(t.Context(), origin, "corp", reason.TokenInvalid)
				j.RefuseSignIn(t.Context(), origin, "partner", reason.TokenInvalid)
				origin.Subject = fmt.Sprintf("user:corp.%d", i)
				j.RefuseSignIn(t.Context(), origin, "corp", reason.AccessDenied)
			}
			<-time.After(time.Hour + time.Second)
		}
		j.Close()
		synctest.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		count, own := map[string]int64{}, map[string]int{}
		for _, r := range k.kept {
			kind := r.Attributes.Name + " " + r.Reason.String()
			switch r.Phase {
			case audit.PhaseSummary:
				count[kind] += r.Count
				if r.Subject != catalog.HubSubject || r.SourceAddress != "" || r.UserAgent != "" {
					t.Errorf("got a summary that names %s at %s", r.Subject, r.SourceAddress)
				}
			default:
				count[kind]++
				own[kind]++
				if r.SourceAddress == "" || (r.Reason == reason.AccessDenied) != strings.HasPrefix(r.Subject, "user:corp.") {
					t.Errorf("got a record of %s at %q", r.Subject, r.SourceAddress)
				}
			}
		}
		for _, kind := range []string{"corp TOKEN_INVALID", "partner TOKEN_INVALID", "corp ACCESS_DENIED"} {
			if count[kind] != hours*each || own[kind] != hours*20 {
				t.Errorf("%s: got %d sign-ins, %d with records of their own; want %d, %d", kind, count[kind], own[kind], hours*each, hours*20)
			}
		}
		if want := 3 * hours * 21; len(k.kept) != want || len(k.written) != want {
			t.Errorf("got %d and %d records, want %d", len(k.kept), len(k.written), want)
		}
	})
}

// TestRefusalsOutliveTheDatabase answers a caller although the record of the refusal is lost, and
// reports that.
func TestRefusalsOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	k := &keeper{err: catalog.ErrUnavailable}
	j := newJournal(k, slog.New(slog.NewTextHandler(&log, nil)))
	defer j.Close()
	j.Refuse(t.Context(), catalog.Origin{Subject: "user:eve"}, reason.AccessDenied)
	if n := strings.Count(log.String(), "audit record not written"); n != 2 {
		t.Errorf("got log %s, want both losses", log.String())
	}
	if err := j.Write(t.Context(), nil); !errors.Is(err, catalog.ErrUnrecorded) {
		t.Errorf("got %v, want %v", err, catalog.ErrUnrecorded)
	}
}

// TestRunPrunes deletes old records in bounded steps, now and every hour.
func TestRunPrunes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{old: 2500}
		j := newJournal(k, slog.New(slog.DiscardHandler))
		defer j.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- j.Run(ctx) }()
		synctest.Wait()
		if k.old != 0 {
			t.Errorf("got %d old records left", k.old)
		}
		k.mu.Lock()
		k.old = 10
		k.mu.Unlock()
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if k.old != 0 {
			t.Errorf("got %d old records left after two hours", k.old)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
