// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun/schema"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

var sealing = []byte("the secret that seals what these tests store")

// TestMain gives bun a cheap plural. It computes a plural for each model of each store, with dozens of
// regular expressions, before it reads that the model names its table.
func TestMain(m *testing.M) {
	schema.SetTableNameInflector(func(model string) string { return model + "s" })
	os.Exit(m.Run())
}

// subject is a store and the database behind it.
type subject struct {
	*sqlstore.Store
	url string
}

func open(t *testing.T, url string) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), url, sealing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	conformance(t, sqliteURL)
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	empty := server.Database(t)
	if err := makeEmpty(empty); err != nil {
		t.Fatal(err)
	}
	conformance(t, func(t *testing.T) string { return server.Copy(t, empty) })
}

// makeEmpty makes the tables of a database, as the first start of a distributor does. The migrations take
// longer than most tests, so tests begin with copies.
func makeEmpty(url string) error {
	store, err := sqlstore.Open(context.Background(), url, sealing)
	if err != nil {
		return err
	}
	return store.Close()
}

// emptySQLite returns a SQLite file after makeEmpty, whose folder the store has made.
var emptySQLite = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "leat-sqlstore")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "folder that is made", "leat.db")
	if err := makeEmpty("sqlite://" + filepath.ToSlash(file)); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// sqliteURL returns the URL of an empty database with the tables of a store.
func sqliteURL(t *testing.T) string {
	t.Helper()
	content, err := emptySQLite()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "leat.db")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite://" + filepath.ToSlash(file)
}

// newSQLiteURL returns the URL of a database that does not exist yet, in a folder that does not, either.
func newSQLiteURL(t *testing.T) string {
	t.Helper()
	return "sqlite://" + filepath.ToSlash(filepath.Join(t.TempDir(), "folder that is made", "leat.db"))
}

// conformance is the suite that every database has to pass.
func conformance(t *testing.T, newURL func(t *testing.T) string) {
	for name, test := range map[string]func(*testing.T, subject){
		"edits":       testEdits,
		"references":  testReferences,
		"rollback":    testRollback,
		"serialised":  testSerialised,
		"changes":     testChanges,
		"credentials": testCredentials,
		"webhooks":    testWebhookSecrets,

		"credential stays with its server": testCredentialStaysWithItsServer,
		"registry credentials":             testRegistryCredentials,
		"push credentials":                 testPushCredentials,

		"proxy":         testProxy,
		"verification":  testVerification,
		"partial clone": testPartialClone,
		"enrolment":     testEnrolment,
		"enrol race":    testEnrolRace,
		"join tokens":   testJoinTokensTakeNoLock,

		"bootstrap":         testBootstrap,
		"bootstrap race":    testBootstrapRace,
		"bootstrap ends":    testBootstrapsEnd,
		"bootstrap restore": testBootstrapsEndWithARestore,

		"reports":      testReports,
		"report order": testReportOrder,
		"full reports": testFullReports,

		"derived reports": testDerivedReports,
		"damaged reports": testDamagedReports,

		"overview":      testOverview,
		"bad report":    testBadReport,
		"history":       testHistory,
		"history ends":  testHistoryEnds,
		"presence":      testPresence,
		"now":           testNow,
		"snapshots":     testSnapshots,
		"late snapshot": testSnapshotsInOrder,
		"people":        testPeople,
		"sessions":      testSessions,
		"users":         testUsers,
		"tokens":        testTokens,
		"bindings":      testBindings,
		"roles":         testRoles,
		"issuer":        testIssuer,
		"open at once":  testOpenAtOnce,
		"closed":        testClosed,

		"specs of earlier versions":        testSpecsOfEarlierVersions,
		"repositories of earlier versions": testRepositoriesOfEarlierVersions,
		"services of earlier versions":     testServicesOfEarlierVersions,
		"managers of earlier versions":     testManagersOfEarlierVersions,
		"reserved keys stay":               testReservedKeysStay,
		"questions of every kind":          testQuestionsOfEveryKind,
		"empty set":                        testEmptySet,
		"plain tables":                     testPlainTables,
		"access requests":                  testAccessRequests,
		"access request authors":           testAccessRequestAuthors,
		"access request race":              testAccessRequestRace,
		"access request bounds":            testAccessRequestBounds,
		"access requests lapse":            testAccessRequestsLapse,
		"admissions of earlier versions":   testAdmissionsOfEarlierVersions,
		"rollouts of earlier versions":     testRolloutsOfEarlierVersions,
		"members of rollouts":              testRolloutMembers,
		"clusters of waves":                testWaveClusters,
		"references are read once":         testReadsOnce,
		"reads beside an edit":             testReadsBesideAnEdit,
		"staged specs":                     testStagedSpecs,
		"authors":                          testAuthors,
		"many authors":                     testManyAuthors,
		"authors of configurations":        testAuthorsOfConfigs,
		"held configurations":              testHeldConfigs,
		"configurations of rollouts":       testConfigsOfRollouts,
		"held references":                  testHeldReferences,
		"configurations without names":     testConfigsOfEarlierVersions,
		"held repositories stay":           testHeldRepositoriesStay,

		"steps":   testSteps,
		"sources": testSourcesFitTheirRepositories,
		"room":    testRoomInPlans,

		"config entries": testConfigEntries,
		"config sets":    testConfigSets,
		"variants":       testVariants,
		"config facts":   testConfigFacts,
		"config shares":  testConfigShares,

		"grants": testGrants,
		"backup": testBackup,

		"rotation":            testRotation,
		"rotation under load": testRotationUnderLoad,
		"former secrets":      testFormerSecrets,
		"root away":           testRootAway,
		"sealed columns":      testEverySealedColumnIsRotated,
		"signing keys":        testSigningKeys,
		"former signing key":  testFormerSigningKey,
		"records of edits":    testRecordsOfEdits,
		"records fail closed": testRecordsFailClosed,
		"records of authors":  testRecordsOfAuthors,
		"records of sign-ins": testRecordsOfSignIns,
		"find records":        testFindRecords,
		"prune records":       testPruneRecords,
		"undo records":        testUndoRecords,

		"fence of rollouts":                  testRolloutFence,
		"versions of rollouts":               testRolloutMoved,
		"contention for rollouts":            testRolloutContention,
		"fence of rollouts over a link":      testRolloutLink,
		"fence of fleet sources over a link": testFleetSourceLink,
		"fence of fleet sources":             testFleetSourceFence,
		"contention for fleet sources":       testFleetSourceContention,
		"fence of notifications":             testNotificationFence,
		"fence of image policies":            testImagePolicyFence,
		"states of image policies":           testImagePolicyStates,

		"config":         testConfig,
		"config digest":  testConfigDigest,
		"config sealed":  testConfigSealed,
		"config refused": testConfigRefused,
	} {
		t.Run(name, func(t *testing.T) {
			url := newURL(t)
			test(t, subject{Store: open(t, url), url: url})
		})
	}
}

func cluster(name string) *catalog.Cluster {
	return &catalog.Cluster{Metadata: catalog.Metadata{Name: name, Labels: map[string]string{"env": "prod"}}, Spec: catalog.ClusterSpec{
		Description: "it's the first \\ ? \"line\"\nsecond", Settings: syncpolicy.AgentSettings{LockDown: true, RefreshInterval: time.Hour},
	}}
}

func repository(name string) *catalog.Repository {
	return &catalog.Repository{Metadata: catalog.Metadata{Name: name}, Spec: catalog.RepositorySpec{Definition: upstream.Definition{
		URL: "https://git.example/" + name, PollInterval: 30 * time.Second, Suspended: true,
	}}}
}

func service(name, cluster string, repositories ...string) *catalog.Service {
	s := &catalog.Service{Metadata: catalog.Metadata{Name: objectname.ServicePath(name, cluster), Annotations: map[string]string{"a": "b"}}, Spec: catalog.ServiceSpec{
		Cluster: cluster, Options: &syncpolicy.Options{
			Namespace: "ns", Renderer: syncpolicy.RenderPlain, Prune: new(false), HealthTimeout: time.Minute, DryRun: true,
			Policy: syncpolicy.Policy{
				Drift: syncpolicy.DriftReport, Deletion: syncpolicy.Deletion{Timeout: time.Minute}, Tests: &syncpolicy.Tests{Path: "t"},
				DependsOn: []syncpolicy.Dependency{{Object: &syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "x"}}},
			},
		},
	}}
	for _, r := range repositories {
		s.Spec.Sources = append(s.Spec.Sources, catalog.Source{
			Repository: r, Ref: catalog.Ref{Kind: catalog.RefTag, Value: "v1"}, Path: "a/b", Root: "a",
			Folders: catalog.NewList([]string{"c"}), Files: catalog.NewList([]string{"d", "e"}), Include: catalog.NewList([]string{"*"}), Exclude: catalog.NewList([]string{"\"", "!x"}),
		})
	}
	return s
}

func apply(t *testing.T, s subject, objects ...catalog.Object) []catalog.Outcome {
	t.Helper()
	outcomes, err := catalog.NewEditor(s).Apply(t.Context(), objects, false)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

func changes(t *testing.T, s subject, since int64) catalog.Changes {
	t.Helper()
	c, err := s.Changes(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testEdits(t *testing.T, s subject) {
	editor, ctx := catalog.NewEditor(s), t.Context()
	objects := []catalog.Object{service("app", "one", "demo", "demo"), repository("demo"), cluster("one")}
	for i, want := range []catalog.Action{catalog.ActionCreated, catalog.ActionUnchanged} {
		for j, outcome := range apply(t, s, objects...) {
			if outcome.Action != want || outcome.Object.Key() != objects[j].Key() {
				t.Errorf("apply %d: got %v of %v, want %v of %v", i, outcome.Action, outcome.Object.Key(), want, objects[j].Key())
			}
		}
	}
	if got := changes(t, s, 0).Revision; got != 1 {
		t.Errorf("got revision %d after one change, want 1", got)
	}
	dry, err := editor.Apply(ctx, []catalog.Object{cluster("two")}, true)
	if err != nil || dry[0].Action != catalog.ActionCreated {
		t.Errorf("got %v, %v, want created", dry, err)
	}
	if _, err := create(ctx, editor, cluster("one")); !errors.Is(err, catalog.ErrAlreadyExists) {
		t.Errorf("got %v, want already exists", err)
	}
	if _, err := update(ctx, editor, cluster("two")); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("got %v, want not found: a dry run stores nothing", err)
	}
	stored := changes(t, s, 0)
	next := *stored.Services[0]
	paused := next.Spec.Wanted()
	paused.Paused = true
	next.Spec.Options = &paused
	updated, err := update(ctx, editor, &next)
	if err != nil {
		t.Fatal(err)
	}
	if got := updated.Meta(); got.Generation != 2 || got.ResourceVersion != 2 || got.UID != next.UID {
		t.Errorf("got %+v, want generation 2 and resource version 2", got)
	}
	if _, err := update(ctx, editor, &next); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("got %v, want a conflict: the version is old", err)
	}
	if diff := cmp.Diff(updated, catalog.Object(changes(t, s, 1).Services[0])); diff != "" {
		t.Errorf("stored object differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(cluster("one").Spec, stored.Clusters[0].Spec); diff != "" {
		t.Errorf("stored cluster differs (-want +got):\n%s", diff)
	}
	plain := *stored.Clusters[0]
	plain.Spec.Settings = syncpolicy.AgentSettings{}
	if _, err := update(ctx, editor, &plain); err != nil || !changes(t, s, 2).Clusters[0].Spec.Settings.IsZero() {
		t.Errorf("got %v and settings %+v, want none", err, changes(t, s, 2).Clusters)
	}
}

func testReferences(t *testing.T, s subject) {
	editor, ctx := catalog.NewEditor(s), t.Context()
	_, err := editor.Apply(ctx, []catalog.Object{cluster("one"), service("app", "one", "demo")}, false)
	missing, ok := errors.AsType[*catalog.ReferenceError](err)
	if !ok || missing.Path != "documents[1].spec.sources[0].repository" || missing.Key.Name != "demo" {
		t.Errorf("got %v, want a missing reference to demo", err)
	}
	if got := changes(t, s, 0); len(got.Clusters) != 0 {
		t.Errorf("got %v, want nothing: all or nothing", got.Clusters)
	}
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	for _, key := range []catalog.Key{{Kind: catalog.KindCluster, Name: "one"}, {Kind: catalog.KindRepository, Name: "demo"}} {
		_, err := editor.Delete(ctx, key)
		if used, ok := errors.AsType[*catalog.InUseError](err); !ok || cmp.Diff(used.Names(), []string{"app@one"}) != "" {
			t.Errorf("delete %v: got %v, want in use by app", key, err)
		}
	}
	for _, key := range []catalog.Key{
		{Kind: catalog.KindService, Name: "app@one"}, {Kind: catalog.KindRepository, Name: "demo"}, {Kind: catalog.KindCluster, Name: "one"},
	} {
		if _, err := editor.Delete(ctx, key); err != nil {
			t.Errorf("delete %v: %v", key, err)
		}
	}
	if got := changes(t, s, 1); len(got.Deleted) != 3 || got.Deleted[0].Key.Name != "app@one" {
		t.Errorf("got %v, want three tombstones", got.Deleted)
	}
}

func testRollback(t *testing.T, s subject) {
	boom := errors.New("boom")
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		c := cluster("one")
		c.UID = "u"
		if err := tx.Put(ctx, c); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) || err.Error() != boom.Error() {
		t.Errorf("got %v, want the error of the edit itself", err)
	}
	if got := changes(t, s, 0); got.Revision != 0 || len(got.Clusters) != 0 {
		t.Errorf("got %+v, want nothing", got)
	}
}

func testSerialised(t *testing.T, s subject) {
	other := subject{Store: s.Store, url: s.url}
	var edits sync.WaitGroup
	for i := range 20 {
		edits.Go(func() {
			if _, err := create(t.Context(), catalog.NewEditor(other), cluster(fmt.Sprintf("c%d", i))); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	edits.Wait()
	got := changes(t, s, 0)
	versions := map[int64]bool{}
	for _, c := range got.Clusters {
		versions[c.ResourceVersion] = true
	}
	if got.Revision != 20 || len(versions) != 20 {
		t.Errorf("got revision %d and %d versions, want 20 of each", got.Revision, len(versions))
	}
}

func testChanges(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	first := changes(t, s, 0)
	if got := changes(t, s, first.Revision); len(got.Clusters)+len(got.Repositories)+len(got.Services)+len(got.Deleted) != 0 {
		t.Errorf("got %+v, want no changes", got)
	}
	if _, err := catalog.NewEditor(s).RequestSync(t.Context(), "app@one", true); err != nil {
		t.Fatal(err)
	}
	got := changes(t, s, first.Revision)
	if len(got.Services) != 1 || len(got.Clusters) != 0 || got.Services[0].SyncRequest == "" {
		t.Fatalf("got %+v, want the service alone", got)
	}
	if got.Services[0].ResourceVersion != first.Services[0].ResourceVersion {
		t.Error("a sync request changed the resource version")
	}
}

func testSnapshots(t *testing.T, s subject) {
	ctx := t.Context()
	apply(t, s, repository("demo"))
	uid := changes(t, s, 0).Repositories[0].UID
	short := catalog.Source{Repository: "demo", Path: "app", Ref: catalog.Ref{Kind: catalog.RefBranch, Value: "main"}}
	long, longer := short, short // than an index of PostgreSQL takes
	long.Exclude = catalog.NewList([]string{randomText(5000), "a"})
	longer.Exclude = catalog.NewList(append(long.Exclude.Items(), "b"))
	want := map[catalog.Source]catalog.Resolution{}
	for _, content := range []string{"one", "two"} {
		for i, source := range []catalog.Source{short, long, longer} {
			snapshot := &catalog.Snapshot{Commit: content, Version: "v" + content, Digest: digest.FromBytes([]byte(content)), ContentSize: 1, StoredSize: 2, Files: i}
			want[source] = catalog.Resolution{ResolvedAt: time.Unix(5, 0).UTC(), Snapshot: snapshot}
			if err := s.SaveSnapshot(ctx, uid, source, want[source]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.SaveSnapshot(ctx, "no such uid", catalog.Source{Repository: "x"}, want[short]); err != nil {
		t.Errorf("got %v, want nothing to happen", err)
	}
	load := func() map[catalog.Source]catalog.Resolution {
		got, err := s.LoadSnapshots(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if diff := cmp.Diff(want, load(), cmp.Comparer(func(a, b digest.Digest) bool { return a == b })); diff != "" {
		t.Errorf("snapshots differ (-want +got):\n%s", diff)
	}
	if got, err := s.SnapshotsOf(ctx, []catalog.Source{long, {Repository: "demo", Path: "unknown"}}); err != nil || len(got) != 1 || got[long].Snapshot == nil {
		t.Errorf("got %v, %v, want the one that is stored", got, err)
	}
	apply(t, s, cluster("one"), service("app", "one", "demo"))
	if err := s.PruneSnapshots(ctx, 0, func(catalog.Source) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if len(load()) != len(want) {
		t.Error("who knows an older catalog pruned what it does not know")
	}
	for _, keep := range []bool{true, false} {
		if err := s.PruneSnapshots(ctx, changes(t, s, 0).Revision, func(catalog.Source) bool { return keep }); err != nil {
			t.Fatal(err)
		}
		if got := len(load()) == len(want); got != keep {
			t.Errorf("keep %v: got kept %v", keep, got)
		}
	}
}

// testSnapshotsInOrder has replicas store what they saw in the wrong order.
func testSnapshotsInOrder(t *testing.T, s subject) {
	apply(t, s, repository("demo"))
	uid := changes(t, s, 0).Repositories[0].UID
	source := catalog.Source{Repository: "demo"}
	for _, step := range []struct {
		fresh   time.Time
		content string
		want    string
	}{
		{time.Unix(20, 0), "two", "two"},
		{time.Unix(10, 0), "one", "two"},
		{time.Unix(20, 0), "two again", "two again"},
		{time.Unix(30, 0), "three", "three"},
		{time.Time{}, "of a time nobody knows", "of a time nobody knows"},
		{time.Unix(5, 0), "after that", "after that"},
	} {
		saved := catalog.Resolution{FreshAt: step.fresh, Snapshot: &catalog.Snapshot{Commit: step.content, Digest: digest.FromBytes(nil)}}
		if err := s.SaveSnapshot(t.Context(), uid, source, saved); err != nil {
			t.Fatal(err)
		}
		got, err := s.SnapshotsOf(t.Context(), []catalog.Source{source})
		if err != nil || got[source].Snapshot.Commit != step.want {
			t.Errorf("after %s: got %v, %v, want %s", step.content, got, err, step.want)
		}
	}
}

// randomText is one that no database can make shorter.
func randomText(length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = 'a' + byte(rand.IntN(26))
	}
	return string(text)
}

func testIssuer(t *testing.T, s subject) {
	ids := make([]string, 8)
	var replicas sync.WaitGroup
	for i := range ids {
		replicas.Go(func() {
			keys, err := sqlstore.NewRotation(s.Store).SigningKeys(t.Context())
			if err != nil || len(keys) != 1 {
				t.Errorf("signing keys: got %d, %v", len(keys), err)
				return
			}
			ids[i] = keys[0].ID
		})
	}
	replicas.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatal("replicas have different signing keys")
		}
	}
	wrongSecret(t, s)
}

// wrongSecret fails the test if another secret than the stores' opens the database.
func wrongSecret(t *testing.T, s subject) {
	t.Helper()
	other, err := sqlstore.Open(t.Context(), s.url, bytes.Repeat([]byte("x"), 32))
	if !errors.Is(err, keyroot.ErrRefused) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want %v and no secret", err, keyroot.ErrRefused)
	}
	if err == nil {
		_ = other.Close()
	}
}

func testOpenAtOnce(t *testing.T, s subject) {
	var replicas sync.WaitGroup
	for range 5 {
		replicas.Go(func() {
			store, err := sqlstore.Open(t.Context(), s.url, sealing)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			_ = store.Close()
		})
	}
	replicas.Wait()
}

func testClosed(t *testing.T, s subject) {
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("got %v, want an answer", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Changes(t.Context(), 0); err == nil {
		t.Error("a closed store answers")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for url, unavailable := range map[string]bool{
		"postgres://u:p@" + silent.Addr().String() + "/none?connect_timeout=1": true,
		"mysql://host/name":                     false,
		"sqlite://host/file.db":                 false,
		"sqlite:":                               false,
		"postgres://u:p@127.0.0.1:1/none":       true,
		"postgres://u:%zz@127.0.0.1:1/password": false,
	} {
		_, err := sqlstore.Open(t.Context(), url, sealing)
		if err == nil || errors.Is(err, catalog.ErrUnavailable) != unavailable {
			t.Errorf("%s: got %v, want an error, unavailable %v", url, err, unavailable)
		}
	}
	if _, err := sqlstore.Open(t.Context(), newSQLiteURL(t), []byte("short")); err == nil {
		t.Error("a short secret was taken")
	}
}

// create stores a new object.
func create(ctx context.Context, editor *catalog.Editor, object catalog.Object) (catalog.Object, error) {
	return applyOne(ctx, editor.Creating(), object)
}

// update replaces an object.
func update(ctx context.Context, editor *catalog.Editor, object catalog.Object) (catalog.Object, error) {
	return applyOne(ctx, editor.Updating(), object)
}

func applyOne(ctx context.Context, editor *catalog.Editor, object catalog.Object) (catalog.Object, error) {
	outcomes, err := editor.Apply(ctx, []catalog.Object{object}, false)
	if err != nil {
		return nil, err
	}
	return outcomes[0].Object, nil
}
