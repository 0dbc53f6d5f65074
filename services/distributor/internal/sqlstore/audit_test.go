// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// disk is where an audit log is written, until it is full.
type disk struct {
	mu     sync.Mutex
	text   bytes.Buffer
	isFull bool
}

// Write implements io.Writer.
func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isFull {
		return 0, errors.New("no space left on device")
	}
	return d.text.Write(p)
}

func (d *disk) fill(isFull bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isFull = isFull
}

// lines returns the records in the log.
func (d *disk) lines(t *testing.T) []map[string]any {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	var records []map[string]any
	for line := range strings.Lines(d.text.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		records = append(records, record)
	}
	return records
}

// witness is a store whose changes are recorded.
type witness struct {
	*sqlstore.Store
	journal *journal.Journal
	disk    *disk
	editor  *catalog.Editor
}

func observe(t *testing.T, s subject) *witness {
	t.Helper()
	w := &witness{disk: &disk{}}
	outputs, err := auditout.Open(t.Context(), auditout.Config{
		Outputs: []string{"stdout"}, FailClosed: true, Queue: 16 << 20, Timeout: 5 * time.Second, Writer: w.disk,
	}, auditout.Params{Service: "distributor", Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outputs.Close)
	w.journal = journal.New(journal.Params{
		Store: sqlstore.RecordsOf(s.Store), Outputs: outputs, Describe: people.Describe, Retention: time.Hour, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(w.journal.Close)
	w.Store = s.WithJournal(w.journal)
	w.editor = catalog.NewEditor(w.Store)
	return w
}

// records returns all records, the oldest first.
func (w *witness) records(t *testing.T) []journal.Entry {
	t.Helper()
	var all []journal.Entry
	before := int64(0)
	for {
		page, err := sqlstore.RecordsOf(w.Store).Find(t.Context(), journal.Query{Before: before, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if before = page.Next; before == 0 {
			slices.Reverse(all)
			return all
		}
	}
}

// as returns a context of a person's call.
func as(ctx context.Context, name, why string) context.Context {
	return catalog.WithOrigin(ctx, catalog.Origin{
		Subject: "user:" + name, SubjectUID: name + "-uid", TokenID: "t-" + name, Credential: "api." + name, SourceAddress: "192.0.2.1:0",
		UserAgent: "test", Procedure: "/leat.fleet.v1.FleetService/Apply", RequestID: audit.NewID(), Reason: why,
	})
}

// canary is a part of every secret in the tests of records.
const canary = "canary-7f3a"

// edits makes random edits of a few objects.
type edits struct {
	rand *rand.Rand
	n    int
}

func (e *edits) secret() secret.Text {
	e.n++
	return secret.Text(fmt.Sprintf("%s-%d-%d", canary, e.rand.IntN(1000), e.n))
}

func (e *edits) labels() map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"env", "example.com/a", "b"} {
		if e.rand.IntN(2) == 0 {
			labels[key] = fmt.Sprint(e.rand.IntN(3))
		}
	}
	return labels
}

// object returns an object as it may be from now on.
func (e *edits) object() catalog.Object {
	meta := func(name string, n int) catalog.Metadata {
		return catalog.Metadata{Name: fmt.Sprintf("%s%d", name, e.rand.IntN(n)), Labels: e.labels()}
	}
	switch e.rand.IntN(5) {
	case 0:
		return &catalog.Cluster{Metadata: meta("c", 2), Spec: catalog.ClusterSpec{Description: fmt.Sprint("<", e.rand.IntN(3), "> é \" \\")}}
	case 1:
		r := &catalog.Repository{Metadata: meta("r", 2), Spec: catalog.RepositorySpec{Definition: upstream.Definition{
			URL: "https://git.example/x", Suspended: e.rand.IntN(2) == 0,
		}}}
		switch e.rand.IntN(3) {
		case 0:
			r.Spec.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: "u", Password: e.secret()}
		case 1:
			r.Spec.RemoveCredential = true
		}
		if e.rand.IntN(2) == 0 {
			r.Spec.WebhookSecret = e.secret() + "-that-is-long-enough"
		} else {
			r.Spec.RemoveWebhookSecret = e.rand.IntN(2) == 0
		}
		if e.rand.IntN(2) == 0 {
			r.Spec.ProxyURL = secret.Text("http://u:" + e.secret().Reveal() + "@proxy.example:3128")
		}
		return r
	case 2:
		s := service("s", "c0", "r0")
		s.Metadata = meta("s", 3)
		s.Spec.Sources[0].Path = fmt.Sprint("a/", e.rand.IntN(3))
		if e.rand.IntN(2) == 0 {
			s.Spec.Config = &catalog.Config{Values: map[string]string{"A": fmt.Sprint(e.rand.IntN(2))}, Secrets: map[string]secret.Text{}}
			for _, key := range []string{"K", "L_2"} {
				if e.rand.IntN(2) == 0 {
					s.Spec.Config.Secrets[key] = e.secret()
				}
			}
		}
		return s
	case 3:
		return &catalog.User{Metadata: meta("u", 3), Spec: catalog.UserSpec{Groups: []string{fmt.Sprint("g", e.rand.IntN(3))}}}
	default:
		return &catalog.AccessBinding{Metadata: meta("b", 2), Spec: catalog.AccessBindingSpec{
			Users: []string{fmt.Sprint("u", e.rand.IntN(3))}, Role: catalog.RoleViewer, Clusters: catalog.ClusterSelection{All: true},
		}}
	}
}

// step makes one edit, and returns how many changes it makes. An edit that is refused makes none.
func (e *edits) step(ctx context.Context, w *witness) (int, error) {
	switch e.rand.IntN(8) {
	case 0:
		_, err := w.editor.Delete(ctx, e.object().Key())
		return 1, err
	case 1:
		_, err := w.editor.RequestSync(ctx, fmt.Sprint("s", e.rand.IntN(3)), false)
		return 1, err
	case 2:
		_, err := w.Tokens().CreateToken(ctx, catalog.NewToken{User: fmt.Sprint("u", e.rand.IntN(3)), Label: "l", Hash: admission.Hash(e.secret().Reveal())})
		return 1, err
	case 3:
		return 1, w.Enrolments().CreateJoinToken(ctx, fmt.Sprint("c", e.rand.IntN(2)), admission.Hash(e.secret().Reveal()), time.Now().Add(time.Hour))
	}
	var objects []catalog.Object
	seen := map[catalog.Key]bool{}
	for range 1 + e.rand.IntN(3) {
		if o := e.object(); !seen[o.Key()] {
			seen[o.Key()] = true
			objects = append(objects, o)
		}
	}
	isDry := e.rand.IntN(4) == 0
	outcomes, err := w.editor.Apply(ctx, objects, isDry)
	changed := 0
	for _, outcome := range outcomes {
		if outcome.Action != catalog.ActionUnchanged && !isDry {
			changed++
		}
	}
	return changed, err
}

// testRecordsOfEdits has several people make random edits at once. Every change has one record; the
// records, replayed in their order, yield the catalog as it is; and no secret is in any of them.
func testRecordsOfEdits(t *testing.T, s subject) {
	w := observe(t, s)
	apply(t, subject{Store: w.Store, url: s.url}, cluster("c0"), repository("r0"), &catalog.User{Metadata: catalog.Metadata{Name: "u0"}})
	want, mu, group := 3, sync.Mutex{}, sync.WaitGroup{}
	for i, name := range []string{"ada", "bob", "eve"} {
		group.Go(func() {
			e := &edits{rand: rand.New(rand.NewPCG(1, uint64(i)))}
			for range 40 {
				changed, err := e.step(as(t.Context(), name, "because of "+name), w)
				if err == nil {
					mu.Lock()
					want += changed
					mu.Unlock()
				} else if errors.Is(err, catalog.ErrUnavailable) || errors.Is(err, catalog.ErrUnrecorded) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	records := w.records(t)
	if len(records) != want {
		t.Errorf("got %d records, want %d, one for each change", len(records), want)
	}
	state := replay(t, records)
	if diff := cmp.Diff(described(t, w, s), state); diff != "" {
		t.Errorf("catalog and replayed records (-catalog +records):\n%s", diff)
	}
	lines := w.disk.lines(t)
	if len(lines) != len(records) {
		t.Errorf("got %d lines in the log, want %d", len(lines), len(records))
	}
	for i, line := range lines {
		if line["id"] != records[i].ID || line["phase"] != "change" {
			t.Fatalf("line %d: got %v %v, want the change %s", i, line["phase"], line["id"], records[i].ID)
		}
	}
	for _, text := range append(dump(t, s), w.disk.text.String()) {
		if strings.Contains(text, canary) {
			t.Errorf("a secret is in %s", text)
		}
	}
}

// replay applies the fields of all records, and returns the fields of every remaining object.
func replay(t *testing.T, records []journal.Entry) map[string]map[string]string {
	t.Helper()
	state := map[string]map[string]string{}
	for i, r := range records {
		if i > 0 && r.Sequence != records[i-1].Sequence+1 {
			t.Errorf("record %d follows %d", r.Sequence, records[i-1].Sequence)
		}
		if r.Outcome != journal.OutcomeOK || r.Omitted != 0 {
			t.Errorf("got outcome %s with %d fields omitted", r.Outcome, r.Omitted)
		}
		if i >= 3 && (r.Reason != "because of "+strings.TrimPrefix(r.Subject, "user:") || r.Credential == "" || r.SubjectUID == "") {
			t.Errorf("got origin %+v", r.Origin)
		}
		key := r.Kind + "/" + r.Name
		object := state[key]
		switch {
		case r.Verb == catalog.VerbCreate && object == nil:
			object = map[string]string{}
		case r.Verb == catalog.VerbCreate && r.Kind != catalog.RecordJoinToken:
			t.Errorf("%s was created twice", key)
		case object == nil:
			t.Fatalf("%s of %s, which does not exist", r.Verb, key)
		}
		for _, f := range r.Changes {
			old, had := object[f.Path]
			switch {
			case f.Secret && had != (f.Effect != string(catalog.SecretSet)):
				t.Errorf("%s %s: secret %s, but it was there: %t", key, f.Path, f.Effect, had)
			case !f.Secret && (had != (f.Old != nil) || old != string(f.Old)):
				t.Errorf("%s %s: got %s before, want %q", key, f.Path, f.Old, old)
			}
			switch {
			case f.Secret && f.Effect != string(catalog.SecretRemoved):
				object[f.Path] = "secret"
			case f.New != nil:
				object[f.Path] = string(f.New)
			default:
				delete(object, f.Path)
			}
		}
		if state[key] = object; r.Verb == catalog.VerbDelete {
			if len(object) != 0 {
				t.Errorf("%s was deleted, and keeps %v", key, object)
			}
			delete(state, key)
		}
	}
	maps.DeleteFunc(state, func(key string, _ map[string]string) bool { return strings.Contains(key, "Token/") })
	return state
}

// described returns the fields of every object in the catalog.
func described(t *testing.T, w *witness, s subject) map[string]map[string]string {
	t.Helper()
	var found []catalog.Change
	c := changes(t, s, 0)
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		var keys []catalog.Key
		for _, o := range c.Clusters {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Repositories {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Services {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Users {
			keys = append(keys, o.Key())
		}
		for _, o := range c.Bindings {
			keys = append(keys, o.Key())
		}
		for _, key := range keys {
			object, err := tx.Get(ctx, key)
			if err != nil {
				return err
			}
			found = append(found, catalog.ChangeOf(nil, object))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]map[string]string{}
	for i, r := range w.journal.Records(t.Context(), found) {
		object := map[string]string{}
		for _, f := range r.Change.Fields {
			if object[f.Path] = string(f.New); f.Secret {
				object[f.Path] = "secret"
			}
		}
		state[found[i].Kind+"/"+found[i].Name] = object
	}
	return state
}

// dump returns the text of all stored records.
func dump(t *testing.T, s subject) []string {
	t.Helper()
	rows, err := s.raw(t).QueryContext(t.Context(), "SELECT record FROM audit_records")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// testRecordsFailClosed fills the disk of the audit log: nothing changes until it has room again.
func testRecordsFailClosed(t *testing.T, s subject) {
	w := observe(t, s)
	w.disk.fill(true)
	ctx := as(t.Context(), "ada", "")
	for name, do := range map[string]func() error{
		"apply": func() error {
			_, err := w.editor.Apply(ctx, []catalog.Object{cluster("one"), cluster("two")}, false)
			return err
		},
		"user": func() error {
			_, err := create(ctx, w.editor, &catalog.User{Metadata: catalog.Metadata{Name: "u"}})
			return err
		},
		"join token": func() error {
			return w.Enrolments().CreateJoinToken(ctx, "zero", []byte("h"), time.Now().Add(time.Hour))
		},
	} {
		if name == "join token" {
			apply(t, s, cluster("zero"))
		}
		if err := do(); !errors.Is(err, catalog.ErrUnrecorded) {
			t.Errorf("%s with a full disk: got %v, want %v", name, err, catalog.ErrUnrecorded)
		}
	}
	if c := changes(t, s, 0); len(c.Clusters) != 1 || len(c.Users) != 0 {
		t.Errorf("got clusters %v and users %v, want the one that was made without records", c.Clusters, c.Users)
	}
	if tokens, err := s.Enrolments().JoinTokens(t.Context()); err != nil || len(tokens) != 0 {
		t.Errorf("got join tokens %v, %v, want none", tokens, err)
	}
	if got := w.records(t); len(got) != 0 {
		t.Errorf("got records %v of changes that were not made", got)
	}
	w.disk.fill(false)
	if _, err := create(ctx, w.editor, cluster("one")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if got := w.records(t); len(got) != 1 || got[0].Name != "one" {
		t.Errorf("got records %v, want that of one", got)
	}
}

// testRecordsOfAuthors follows who made and who changed an object.
func testRecordsOfAuthors(t *testing.T, s subject) {
	w := observe(t, s)
	first := cluster("one")
	if _, err := create(as(t.Context(), "ada", "OPS-1"), w.editor, first); err != nil {
		t.Fatal(err)
	}
	if _, err := w.editor.Apply(as(t.Context(), "eve", "for nothing"), []catalog.Object{first}, false); err != nil {
		t.Fatal(err)
	}
	check := func(createdBy, updatedBy, why string) {
		t.Helper()
		if m := changes(t, s, 0).Clusters[0].Metadata; m.CreatedBy != createdBy || m.UpdatedBy != updatedBy || m.Reason != why {
			t.Errorf("got %q %q %q, want %q %q %q", m.CreatedBy, m.UpdatedBy, m.Reason, createdBy, updatedBy, why)
		}
	}
	check("user:ada", "user:ada", "OPS-1")
	next := cluster("one")
	next.Spec.Description = "other"
	if _, err := update(as(t.Context(), "bob", ""), w.editor, next); err != nil {
		t.Fatal(err)
	}
	check("user:ada", "user:bob", "")
	if _, err := update(t.Context(), w.editor, cluster("one")); err != nil {
		t.Fatal(err)
	}
	check("user:ada", catalog.HubSubject, "")
	if got := w.records(t); len(got) != 3 {
		t.Errorf("got %d records, want 3: applying the same changes nothing", len(got))
	}
}

// testFindRecords looks for records by every field, page by page, and follows new ones.
// testRecordsOfSignIns changes a provider's secret, begins and ends sessions, and replaces keys: each
// leaves one record, which holds no secret.
func testRecordsOfSignIns(t *testing.T, s subject) {
	w := observe(t, s)
	provider := &catalog.IdentityProvider{
		Metadata: catalog.Metadata{Name: "corp"}, Spec: catalog.IdentityProviderSpec{Issuer: "https://login.example", ClientID: "leat", ClientSecret: "canary-one"},
	}
	stored, err := create(as(t.Context(), "ada", ""), w.editor, provider)
	if err != nil {
		t.Fatal(err)
	}
	other := *provider
	other.Spec.ClientSecret = "canary-two"
	if _, err := update(as(t.Context(), "ada", ""), w.editor, &other); err != nil {
		t.Fatal(err)
	}
	if err := w.Store.SignIns().CreateSession(t.Context(), pendingSession("one", stored.Meta().UID)); err != nil {
		t.Fatal(err)
	}
	// The machine takes the session over from its own address; a repetition changes nothing.
	machine := catalog.WithOrigin(t.Context(), catalog.Origin{SourceAddress: "192.0.2.7:1"})
	redeem := func(id, verifier string) error {
		_, err := w.Store.SignIns().RedeemProof(machine, session.Redemption{
			ID: id, Proof: []byte("proof of " + id), Verifier: []byte(verifier), First: []byte("first of " + id), At: catalog.Now(),
		})
		return err
	}
	for range 2 {
		if err := redeem("one", "challenge"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Store.SignIns().EndSessions(as(t.Context(), "ada", ""), "one", ""); err != nil {
		t.Fatal(err)
	}
	// A wrong verifier ends a session.
	if err := w.Store.SignIns().CreateSession(t.Context(), pendingSession("two", stored.Meta().UID)); err != nil {
		t.Fatal(err)
	}
	if err := redeem("two", "guess"); !errors.Is(err, session.ErrProof) {
		t.Fatalf("got %v, want %v", err, session.ErrProof)
	}
	sealing, err := sqlstore.NewRotation(w.Store).RotateSealingKey(as(t.Context(), "ada", ""), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range w.records(t) {
		line := fmt.Sprint(e.Subject, " ", e.Verb, " ", e.Kind, " ", e.Name)
		if e.SourceAddress == "192.0.2.7:1" {
			line += " from " + e.SourceAddress
		}
		for _, field := range e.Changes {
			if field.Secret {
				line += fmt.Sprint(" ", field.Path, " ", field.Effect)
			}
		}
		got = append(got, line)
	}
	want := []string{
		"user:ada create IdentityProvider corp spec.clientSecret set", "user:ada update IdentityProvider corp spec.clientSecret replaced",
		"user:corp.ada create Session one", "service:distributor update Session one from 192.0.2.7:1", "user:ada delete Session one",
		"user:corp.ada create Session two", "service:distributor delete Session two from 192.0.2.7:1", "user:ada rotate SealingKey " + sealing,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	for _, line := range dump(t, s) {
		if strings.Contains(line, "canary-") {
			t.Errorf("a secret is stored as it is: %s", line)
		}
	}
}

func testFindRecords(t *testing.T, s subject) {
	w := observe(t, s)
	for i := range 20 {
		ctx := as(t.Context(), []string{"ada", "bob"}[i%2], "")
		if _, err := create(ctx, w.editor, cluster(fmt.Sprintf("c%02d", i))); err != nil {
			t.Fatal(err)
		}
	}
	refused := catalog.Origin{Subject: "user:eve", RequestID: "r", Procedure: "/x/DeleteCluster", Asked: catalog.Target{Verb: "delete", Kind: "Cluster", Name: "c00"}}
	w.journal.Refuse(t.Context(), refused, reason.AccessDenied)
	names := func(q journal.Query) string {
		t.Helper()
		if q.Limit == 0 {
			q.Limit = 3
		}
		var all []string
		for {
			page, err := sqlstore.RecordsOf(w.Store).Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				all = append(all, e.Name)
			}
			if q.Before = page.Next; q.Before == 0 || q.After > 0 {
				return strings.Join(all, " ")
			}
		}
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		query journal.Query
		want  string
	}{
		"subject":       {journal.Query{Subject: "user:ada"}, "c18 c16 c14 c12 c10 c08 c06 c04 c02 c00"},
		"name":          {journal.Query{Kind: "Cluster", Name: "c00"}, "c00 c00"},
		"cluster":       {journal.Query{Cluster: "c07"}, "c07"},
		"credential":    {journal.Query{Token: "api.bob", Name: "c01"}, "c01"},
		"token":         {journal.Query{Token: "t-bob", Name: "c01"}, "c01"},
		"verb":          {journal.Query{Verb: "delete"}, "c00"},
		"rpc":           {journal.Query{RPC: "DeleteCluster"}, "c00"},
		"refused":       {journal.Query{Outcome: journal.OutcomeRefused}, "c00"},
		"reason":        {journal.Query{Outcome: "ACCESS_DENIED"}, "c00"},
		"ok":            {journal.Query{Outcome: journal.OutcomeOK, Name: "c00"}, "c00"},
		"request":       {journal.Query{RequestID: "r"}, "c00"},
		"nothing":       {journal.Query{Subject: "user:' OR 1=1 --"}, ""},
		"past":          {journal.Query{Until: past}, ""},
		"future":        {journal.Query{Since: future}, ""},
		"present":       {journal.Query{Since: past, Until: future, Subject: "user:eve"}, "c00"},
		"after":         {journal.Query{After: 18, Limit: 2}, "c18 c19"},
		"after the end": {journal.Query{After: 21}, ""},
	} {
		if got := names(tc.query); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	if page, err := sqlstore.RecordsOf(w.Store).Find(t.Context(), journal.Query{After: 20, Limit: 9}); err != nil || page.Next != 21 || page.Latest != 21 {
		t.Errorf("got %+v, %v, want the next call to go on after 21", page, err)
	}
}

// testPruneRecords deletes old records, a few at a time. Their numbers are not used again.
func testPruneRecords(t *testing.T, s subject) {
	w := observe(t, s)
	if reach, err := sqlstore.RecordsOf(w.Store).Reach(t.Context()); err != nil || !reach.IsZero() {
		t.Errorf("got %v, %v, want nothing before the first record", reach, err)
	}
	for i := range 5 {
		if _, err := create(as(t.Context(), "ada", ""), w.editor, cluster(fmt.Sprint("c", i))); err != nil {
			t.Fatal(err)
		}
	}
	if reach, err := sqlstore.RecordsOf(w.Store).Reach(t.Context()); err != nil || !reach.Equal(w.records(t)[0].Time) {
		t.Errorf("got %v, %v, want the time of the first record", reach, err)
	}
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := sqlstore.RecordsOf(w.Store).Prune(t.Context(), time.Now().Add(time.Minute), 2); err != nil || n != want {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
	if _, err := create(as(t.Context(), "ada", ""), w.editor, cluster("new")); err != nil {
		t.Fatal(err)
	}
	reach, err := sqlstore.RecordsOf(w.Store).Reach(t.Context())
	if err != nil || !reach.After(time.Now()) {
		t.Errorf("got %v, %v, want the time before which records were deleted", reach, err)
	}
	if n, err := sqlstore.RecordsOf(w.Store).Prune(t.Context(), time.Now().Add(-time.Hour), 2); err != nil || n != 0 {
		t.Errorf("got %d, %v, want to keep what is young", n, err)
	}
	if again, err := sqlstore.RecordsOf(w.Store).Reach(t.Context()); err != nil || !again.Equal(reach) {
		t.Errorf("got %v, %v, want %v: nothing more was deleted", again, err, reach)
	}
	if got := w.records(t); len(got) != 1 || got[0].Sequence != 6 {
		t.Errorf("got %v, want record 6", got)
	}
}

// BenchmarkApply1000 applies a thousand documents, new ones and unchanged ones, with records and
// without.
func BenchmarkApply1000(b *testing.B) {
	for name, isRecorded := range map[string]bool{"plain": false, "recorded": true} {
		for _, isNew := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/new=%t", name, isNew), func(b *testing.B) {
				store, err := sqlstore.Open(b.Context(), "sqlite://"+b.TempDir()+"/leat.db", sealing)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = store.Close() })
				if isRecorded {
					outputs, err := auditout.Open(b.Context(), auditout.Config{
						Outputs: []string{"file"}, File: b.TempDir() + "/audit.log", FailClosed: true, Queue: 16 << 20, Timeout: 5 * time.Second,
					}, auditout.Params{Service: "distributor", Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(outputs.Close)
					store = store.WithJournal(journal.New(journal.Params{
						Store: sqlstore.RecordsOf(store), Outputs: outputs, Describe: people.Describe, Retention: time.Hour, Logger: slog.New(slog.DiscardHandler),
					}))
				}
				editor := catalog.NewEditor(store)
				if _, err := editor.Apply(b.Context(), []catalog.Object{cluster("one"), repository("demo")}, false); err != nil {
					b.Fatal(err)
				}
				round := 0
				applyAll := func() {
					objects := make([]catalog.Object, catalog.MaxDocuments)
					for i := range objects {
						objects[i] = service(fmt.Sprintf("s%d-%d", round, i), "one", "demo")
					}
					if _, err := editor.Apply(as(b.Context(), "ada", "bench"), objects, false); err != nil {
						b.Fatal(err)
					}
				}
				for applyAll(); b.Loop(); applyAll() {
					if isNew {
						round++
					}
				}
			})
		}
	}
}
