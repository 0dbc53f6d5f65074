// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
	"github.com/leatdev/leat/services/distributor/internal/keys/rotation"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// sealedObjects has a value in every sealed column.
func sealedObjects(n int) []catalog.Object {
	objects := []catalog.Object{cluster("one")}
	for i := range n {
		r := repository(fmt.Sprintf("demo-%d", i))
		r.Spec.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: "u", Password: "hunter2-in-the-clear"}
		r.Spec.WebhookSecret = "a webhook secret that is long enough"
		r.Spec.ProxyURL = "http://u:hunter2-in-the-clear@proxy:3128"
		s := service(fmt.Sprintf("app-%d", i), "one", r.Name)
		s.Spec.Config = &catalog.Config{Values: values{"A": "seen"}, Secrets: secrets{"P": secret.Text(fmt.Sprintf("hunter2-%d", i))}}
		objects = append(objects, r, s)
	}
	return objects
}

// opensAll opens every sealed value of sealedObjects by way of a store.
func opensAll(ctx context.Context, s *sqlstore.Store, uids []string) error {
	definitions, _, err := s.Definitions(ctx)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if d.Spec.Credential.Password.Reveal() != "hunter2-in-the-clear" || d.Spec.WebhookSecret == "" || !strings.Contains(d.Spec.ProxyURL.Reveal(), "hunter2") {
			return fmt.Errorf("repository %s has lost its secrets", d.Name)
		}
	}
	for i, uid := range uids {
		if config, _, err := s.Config(ctx, uid); err != nil || config.Secrets["P"].Reveal() != fmt.Sprintf("hunter2-%d", i) {
			return fmt.Errorf("service %d: got %v, %w", i, plain(config), err)
		}
	}
	_, err = sqlstore.NewRotation(s).SigningKeys(ctx)
	return err
}

func uidsOf(outcomes []catalog.Outcome) (uids []string) {
	for _, outcome := range outcomes {
		if outcome.Object.Key().Kind == catalog.KindService {
			uids = append(uids, outcome.Object.Meta().UID)
		}
	}
	return uids
}

// resealed carries a rotation out in steps of a size, and returns how many values were sealed
// again.
func resealed(t *testing.T, s *sqlstore.Store, size int) int {
	t.Helper()
	n := 0
	for step := (rotation.Step{}); !step.End; {
		var err error
		if step, err = sqlstore.NewRotation(s).Reseal(t.Context(), step.Next, size); err != nil {
			t.Fatal(err)
		}
		if step.Sealed > size || len(step.Unreadable) > 0 {
			t.Fatalf("got %+v, want at most %d values and all of them readable", step, size)
		}
		n += step.Sealed
	}
	return n
}

func testRotation(t *testing.T, s subject) {
	ctx := t.Context()
	uids := uidsOf(apply(t, s, sealedObjects(3)...))
	if _, err := sqlstore.NewRotation(s.Store).SigningKeys(ctx); err != nil {
		t.Fatal(err)
	}
	const values = 3*4 + 1
	state, err := sqlstore.NewRotation(s.Store).SealingKeys(ctx)
	if err != nil || len(state.Keys) != 1 || state.Keys[0].Values != values || state.WithoutKey != 0 || !state.Keys[0].Current {
		t.Fatalf("got %+v, %v, want one key that has sealed %d values", state, err, values)
	}
	former, before := state.Keys[0].ID, changes(t, s, 0)
	copied := s.columns(t)

	if _, err := sqlstore.NewRotation(s.Store).RotateSealingKey(ctx, "0000000000000000"); !errors.Is(err, rotation.ErrNotCurrent) {
		t.Errorf("got %v, want %v", err, rotation.ErrNotCurrent)
	}
	next, err := sqlstore.NewRotation(s.Store).RotateSealingKey(ctx, former)
	if err != nil || next == former {
		t.Fatalf("got %s, %v, want another key than %s", next, err, former)
	}
	if _, err := sqlstore.NewRotation(s.Store).RotateSealingKey(ctx, ""); !errors.Is(err, rotation.ErrUnfinished) {
		t.Errorf("got %v, want %v", err, rotation.ErrUnfinished)
	}
	if retired, err := sqlstore.NewRotation(s.Store).RetireSealingKeys(ctx); err != nil || retired {
		t.Errorf("got %t, %v, want that the old key is kept while it is needed", retired, err)
	}
	if got := resealed(t, s.Store, 2); got != values {
		t.Errorf("got %d values sealed again, want %d", got, values)
	}
	if got := resealed(t, s.Store, 2); got != 0 {
		t.Errorf("got %d values sealed twice", got)
	}
	if retired, err := sqlstore.NewRotation(s.Store).RetireSealingKeys(ctx); err != nil || !retired {
		t.Errorf("got %t, %v, want the old key deleted", retired, err)
	}
	state, err = sqlstore.NewRotation(s.Store).SealingKeys(ctx)
	if err != nil || len(state.Keys) != 1 || state.Keys[0].ID != next || state.Keys[0].Values != values || state.Waiting() != 0 {
		t.Errorf("got %+v, %v, want the new key alone", state, err)
	}
	for name, store := range map[string]*sqlstore.Store{"this replica": s.Store, "a new replica": open(t, s.url)} {
		if err := opensAll(ctx, store, uids); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	after := changes(t, s, 0)
	if len(changes(t, s, before.Revision).Repositories) != 0 || after.Revision != before.Revision {
		t.Errorf("got revision %d, want %d: a rotation is no change of the catalog", after.Revision, before.Revision)
	}

	// Values that were copied before open nowhere.
	for place, sealed := range copied {
		s.restore(t, place, sealed)
	}
	if err := opensAll(ctx, open(t, s.url), uids); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("got %v, want that the old key opens nothing", err)
	}
}

// columns returns the sealed values of the repositories, by uid and column.
func (s subject) columns(t *testing.T) map[[2]string][]byte {
	t.Helper()
	found := map[[2]string][]byte{}
	for _, column := range []string{"credential", "proxy_sealed", "webhook_secret"} {
		rows, err := s.raw(t).QueryContext(t.Context(), "SELECT uid, "+column+" FROM repositories")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var uid string
			var sealed []byte
			if err := rows.Scan(&uid, &sealed); err != nil {
				t.Fatal(err)
			}
			found[[2]string{uid, column}] = sealed
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func (s subject) restore(t *testing.T, place [2]string, sealed []byte) {
	t.Helper()
	if _, err := s.raw(t).ExecContext(t.Context(), "UPDATE repositories SET "+place[1]+" = $1 WHERE uid = $2", sealed, place[0]); err != nil {
		t.Fatal(err)
	}
}

// testRotationUnderLoad rotates several times while two replicas write and read.
func testRotationUnderLoad(t *testing.T, s subject) {
	const objects, rounds = 8, 4
	uids := uidsOf(apply(t, s, sealedObjects(objects)...))
	replicas := []*sqlstore.Store{s.Store, open(t, s.url)}
	// A connection to SQLite asks again and again for the lock of the file, and gets it by luck. Beside two that
	// never pause it may have none within its timeout, so one request of the load follows another there.
	turn := func() func() { return func() {} }
	if strings.HasPrefix(s.url, "sqlite:") {
		var one sync.Mutex
		turn = func() func() { one.Lock(); return one.Unlock }
	}
	var load sync.WaitGroup
	defer load.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i, replica := range replicas {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := repository(fmt.Sprintf("demo-%d", n%objects))
				r.Spec.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: fmt.Sprintf("u-%d-%d", i, n), Password: "hunter2-in-the-clear"}
				r.Spec.WebhookSecret = "a webhook secret that is long enough"
				r.Spec.ProxyURL = "http://u:hunter2-in-the-clear@proxy:3128"
				done := turn()
				if _, err := catalog.NewEditor(replica).Apply(t.Context(), []catalog.Object{r}, false); err != nil && !errors.Is(err, catalog.ErrConflict) {
					t.Errorf("replica %d: write: %v", i, err)
				}
				done()
			}
		})
		load.Go(func() {
			for ctx.Err() == nil {
				done := turn()
				if err := opensAll(t.Context(), replica, uids); err != nil {
					t.Errorf("replica %d: read: %v", i, err)
				}
				done()
			}
		})
	}
	for round := range rounds {
		rotating, other := replicas[round%2], replicas[(round+1)%2]
		if _, err := sqlstore.NewRotation(rotating).RotateSealingKey(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		for retired := false; !retired; {
			resealed(t, other, 5)
			var err error
			if retired, err = sqlstore.NewRotation(other).RetireSealingKeys(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	load.Wait()
	state, err := sqlstore.NewRotation(s.Store).SealingKeys(t.Context())
	if err != nil || len(state.Keys) != 1 || state.Waiting() != 0 {
		t.Errorf("got %+v, %v, want one key", state, err)
	}
}

// testFormerSecrets gives the database values in the form without key ids, as an earlier release
// has sealed them with the service's secret.
func testFormerSecrets(t *testing.T, s subject) {
	ctx := t.Context()
	uids := uidsOf(apply(t, s, sealedObjects(1)...))
	for place := range s.columns(t) {
		plain := map[string]string{
			"credential":     `{"method":"basic","username":"u","secret":"hunter2-in-the-clear"}`,
			"proxy_sealed":   "http://u:hunter2-in-the-clear@proxy:3128",
			"webhook_secret": "a webhook secret that is long enough",
		}[place[1]]
		purpose, aad := "repository credential", place[0]
		switch place[1] {
		case "proxy_sealed":
			aad += "/proxy_url"
		case "webhook_secret":
			purpose = "repository webhook secret"
		}
		s.restore(t, place, sealedWithoutID(t, sealing, purpose, plain, aad))
	}
	if err := opensAll(ctx, s.Store, uids); err != nil {
		t.Errorf("before: %v", err)
	}
	if state, err := sqlstore.NewRotation(s.Store).SealingKeys(ctx); err != nil || state.WithoutKey != 3 || state.Waiting() != 3 {
		t.Errorf("got %+v, %v, want 3 values without a key", state, err)
	}
	if got := resealed(t, s.Store, 10); got != 3 {
		t.Errorf("got %d values sealed again, want 3", got)
	}
	// From now on the service's secret is not needed, if the keys have another root.
	other := roots(t, "another root that is as long as a key", string(sealing))
	if _, err := sqlstore.OpenWith(ctx, s.url, sqlstore.Keys{Roots: other[:1]}); !errors.Is(err, keyroot.ErrRefused) {
		t.Errorf("got %v, want %v", err, keyroot.ErrRefused)
	}
	changing, err := sqlstore.OpenWith(ctx, s.url, sqlstore.Keys{Roots: other})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = changing.Close() }()
	alone, err := sqlstore.OpenWith(ctx, s.url, sqlstore.Keys{Roots: other[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alone.Close() }()
	for name, store := range map[string]*sqlstore.Store{"a replica with both": changing, "one with the new root": alone, "one with the old root": s.Store} {
		if err := opensAll(ctx, store, uids); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sqlstore.Open(ctx, s.url, sealing); !errors.Is(err, keyroot.ErrRefused) {
		t.Errorf("got %v, want that the former root opens nothing", err)
	}
}

// roots returns the roots of secrets.
func roots(t *testing.T, texts ...string) (made []keyroot.Root) {
	t.Helper()
	for _, text := range texts {
		root, err := keyroot.NewLocal([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, root)
	}
	return made
}

func testRootAway(t *testing.T, s subject) {
	away := &awayRoot{Root: roots(t, string(sealing))[0]}
	store, err := sqlstore.OpenWith(t.Context(), s.url, sqlstore.Keys{Roots: []keyroot.Root{away}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	away.away = true
	apply(t, subject{Store: store, url: s.url}, sealedObjects(1)...)
	if _, err := sqlstore.NewRotation(store).RotateSealingKey(t.Context(), ""); !errors.Is(err, catalog.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, catalog.ErrUnavailable)
	}
	if _, err := sqlstore.OpenWith(t.Context(), s.url, sqlstore.Keys{Roots: []keyroot.Root{away}}); !errors.Is(err, catalog.ErrUnavailable) {
		t.Errorf("got %v, want %v, so that the start is tried again", err, catalog.ErrUnavailable)
	}
}

// awayRoot is a root that can stop answering.
type awayRoot struct {
	keyroot.Root
	away bool
}

func (r *awayRoot) Wrap(ctx context.Context, key []byte, place string) ([]byte, error) {
	if r.away {
		return nil, keyroot.ErrUnavailable
	}
	return r.Root.Wrap(ctx, key, place)
}

func (r *awayRoot) Unwrap(ctx context.Context, wrapped []byte, place string) ([]byte, error) {
	if r.away {
		return nil, keyroot.ErrUnavailable
	}
	return r.Root.Unwrap(ctx, wrapped, place)
}

// notSealed are the columns of bytes that hold no sealed value.
var notSealed = []string{
	"clusters.public_key", "join_tokens.hash", "bootstrap_tokens.hash", "api_tokens.hash", "sealing_keys.wrapped", "issuer_keys.sealed",
	"sessions.challenge", "session_tokens.hash", "session_tokens.successor",
}

// testEverySealedColumnIsRotated reads the schema: a column that is missing in sealedColumns would
// keep its values under the old key, and be lost with it.
func testEverySealedColumnIsRotated(t *testing.T, s subject) {
	const sqlite = "SELECT m.name || '.' || p.name FROM sqlite_master AS m, pragma_table_info(m.name) AS p WHERE m.type = 'table' AND p.type = 'BLOB'"
	const postgres = "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND data_type = 'bytea'"
	query := sqlite
	if strings.HasPrefix(s.url, "postgres") {
		query = postgres
	}
	rows, err := s.raw(t).QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(notSealed, name) {
			got = append(got, name)
		}
	}
	want := sqlstore.SealedColumns()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || rows.Err() != nil {
		t.Errorf("columns of bytes: got %v, want %v (%v): add a new one to sealedColumns, or to notSealed in this test", got, want, rows.Err())
	}
}

func testSigningKeys(t *testing.T, s subject) {
	policy := rotation.Policy{Every: time.Hour, Lead: time.Minute, Overlap: 2 * time.Hour}
	keys, err := sqlstore.NewRotation(s.Store).SigningKeys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("got %d keys, %v, want one", len(keys), err)
	}
	var replicas sync.WaitGroup
	var mu sync.Mutex
	unfinished := 0
	for range 5 {
		replicas.Go(func() {
			err := sqlstore.NewRotation(s.Store).ChangeSigningKeys(t.Context(), policy.Rotate)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, rotation.ErrUnfinished):
				unfinished++
			case err != nil:
				t.Errorf("rotate: %v", err)
			}
		})
	}
	replicas.Wait()
	after, err := sqlstore.NewRotation(open(t, s.url)).SigningKeys(t.Context())
	if err != nil || len(after) != 2 || unfinished != 4 {
		t.Fatalf("got %d keys, %v, and %d refusals, want two and four", len(after), err, unfinished)
	}
	if after[0].ID != keys[0].ID || !after[0].Private.Equal(keys[0].Private) || after[0].EndsAt.IsZero() || after[1].SignsAt.Sub(after[1].CreatedAt) != policy.Lead {
		t.Errorf("got %+v, want the first key with an end, and the second with its times", after)
	}
	later := func(keys []rotation.SigningKey, _ time.Time) ([]rotation.SigningKey, bool, error) {
		return policy.Scheduled(keys, after[0].EndsAt)
	}
	if err := sqlstore.NewRotation(s.Store).ChangeSigningKeys(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	last, err := sqlstore.NewRotation(s.Store).SigningKeys(t.Context())
	if err != nil || len(last) != 2 || slices.ContainsFunc(last, func(k rotation.SigningKey) bool { return k.ID == keys[0].ID }) {
		t.Errorf("got %d keys, %v, want the first one gone and a third one", len(last), err)
	}
}

// testFormerSigningKey has the key of a database of an earlier release.
func testFormerSigningKey(t *testing.T, s subject) {
	seed := strings.Repeat("s", 32)
	text := sealedWithoutID(t, sealing, "issuer key", seed, "issuer key")
	if _, err := s.raw(t).ExecContext(t.Context(), "INSERT INTO issuer_keys (id, sealed, created_at) VALUES (1, $1, 1000000)", text); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		keys, err := sqlstore.NewRotation(s.Store).SigningKeys(t.Context())
		if err != nil || len(keys) != 1 || string(keys[0].Private.Seed()) != seed || keys[0].CreatedAt.Unix() != 1 {
			t.Fatalf("got %d keys, %v, want the former one", len(keys), err)
		}
	}
	var n int
	if err := s.raw(t).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM issuer_keys").Scan(&n); err != nil || n != 0 {
		t.Errorf("got %d rows, %v, want the former key moved", n, err)
	}
}

// sealedWithoutID seals as releases did before texts named their keys.
func sealedWithoutID(t *testing.T, secret []byte, purpose, plain, aad string) []byte {
	t.Helper()
	derived, err := hkdf.Key(sha256.New, secret, nil, "leat seal v1: "+purpose, 32)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{1}, aead.Seal(nil, nil, []byte(plain), append([]byte{1}, aad...))...)
}
