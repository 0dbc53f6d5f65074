// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// storeOf returns the settings of a hub's database for backup and restore.
func storeOf(cfg distributor.Config) distributor.StoreConfig {
	return distributor.StoreConfig{DatabaseURL: cfg.DatabaseURL, DataDir: cfg.DataDir, Service: cfg.Service, Keys: cfg.Keys}
}

// backUp backs a hub up while it runs, and returns the file.
func (h *hub) backUp(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hub.backup")
	var messages strings.Builder
	if err := distributor.Backup(t.Context(), distributor.BackupConfig{StoreConfig: storeOf(h.cfg), File: file, Messages: &messages}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(messages.String(), "it opens with the root local/") {
		t.Errorf("got %q, want the name of the root", &messages)
	}
	return file
}

// restore restores a backup into the database of a hub, which does not run.
func restore(t *testing.T, file string, cfg distributor.Config, change ...func(*distributor.RestoreConfig)) (messages string, err error) {
	t.Helper()
	var out strings.Builder
	c := distributor.RestoreConfig{
		StoreConfig: storeOf(cfg), File: file, Messages: &out,
		Audit: auditout.Config{Outputs: []string{"none"}}, Telemetry: telemetry.Config{LogOutput: t.Output()},
	}
	for _, f := range change {
		f(&c)
	}
	err = distributor.Restore(t.Context(), c)
	return out.String(), err
}

// planOf returns the plan that an agent is sent.
func planOf(t *testing.T, h *hub, agent *agentKey, known string) *distributorv1.Plan {
	t.Helper()
	var res *distributorv1.GetPlanResponse
	var err error
	await.True(t, "a plan", func() bool {
		res, err = h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: known})
		return connect.CodeOf(err) != connect.CodeUnavailable // agents call again
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetPlan()
}

// renew has the agent obtain a token with its key.
func (a *agentKey) renew(t *testing.T, h *hub) {
	t.Helper()
	assertion, err := identity.SignAssertion(a.key, a.cluster)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		t.Fatalf("the agent does not get a token: %v", err)
	}
	a.token = tokens.GetAccessToken()
}

func releaseCluster(t *testing.T, h *hub, cluster string) {
	t.Helper()
	if _, err := h.fleet(t, adminToken).ReleaseCluster(t.Context(), &fleetv1.ReleaseClusterRequest{Cluster: cluster}); err != nil {
		t.Fatal(err)
	}
}

// TestRestoredHub backs a hub up on SQLite while people edit, edits more, and restores it into an
// empty PostgreSQL, with two new replicas. Agents keep their identities and see the same entries
// for what existed, removals are held until a person releases the cluster, and nothing that was
// ended after the backup is valid again.
func TestRestoredHub(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, configDocument("app", "one", nil, map[string]string{"PASSWORD": hunter2}))
	agent := h.enrol(t, "one")
	admin := h.fleet(t, adminToken)
	if _, err := fleetcalls.Create(t.Context(), admin, &fleetv1.User{Metadata: &typev1.Metadata{Name: "ada"}}); err != nil {
		t.Fatal(err)
	}
	token, err := admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{User: "ada", Label: "pipeline"})
	if err != nil {
		t.Fatal(err)
	}
	join, err := admin.CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
	if err != nil {
		t.Fatal(err)
	}
	var before *distributorv1.Plan
	await.True(t, "the content of the service", func() bool {
		before = planOf(t, h, agent, "")
		return len(before.GetServices()) == 1 && len(before.GetServices()[0].GetBundles()) == 1
	})

	ctx, stop := context.WithCancel(t.Context())
	var editors sync.WaitGroup
	editors.Go(func() { // a pair of clusters in one edit each: the snapshot has both or neither
		for n := 0; ctx.Err() == nil; n++ {
			h.apply(t, clusterDocument(fmt.Sprintf("left-%d", n)), clusterDocument(fmt.Sprintf("right-%d", n)))
		}
	})
	await.True(t, "edits", func() bool {
		all, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), admin, &fleetv1.ListRequest{})
		return err == nil && len(all.Objects) > 10
	})
	file := h.backUp(t)
	stop()
	editors.Wait()

	h.apply(t, serviceDocument("later", "one", "demo", "app"))
	if _, err := admin.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: token.GetToken().GetId()}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the new service in the plan", func() bool { return len(planOf(t, h, agent, "").GetServices()) == len(before.GetServices())+1 })
	newest := planOf(t, h, agent, "")
	h.stop(t)

	url := postgrestest.New(t).Database(t)
	change := func(c *distributor.Config) { c.DatabaseURL = url }
	cfg := h.cfg
	change(&cfg)
	messages, err := restore(t, file, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(messages, "API tokens ended") || !strings.Contains(messages, "leat cluster release") {
		t.Errorf("got %q, want what ended and what to do", messages)
	}
	if _, err := restore(t, file, cfg); !errors.Is(err, sqlstore.ErrNotEmpty) {
		t.Errorf("second restore: got %v, want that the database is not empty", err)
	}

	first := startReplica(t, h.git, change)
	replicas := []*hub{first, startReplica(t, h.git, change)}
	for i, replica := range replicas {
		agent.renew(t, replica)
		plan := planOf(t, replica, agent, newest.GetVersion())
		if len(plan.GetServices()) != len(before.GetServices()) || plan.GetRemovalsHeldSince() == nil {
			t.Fatalf("replica %d: got %v, want the services of the backup, and that removals are held", i, plan)
		}
		for j, entry := range plan.GetServices() {
			was := before.GetServices()[j]
			entry.Traceparent, was.Traceparent = "", ""
			if !proto.Equal(entry, was) {
				t.Errorf("replica %d: got entry %v, want %v", i, entry, was)
			}
		}
		config, err := replica.agents(t, agent.token).GetServiceConfig(t.Context(), &distributorv1.GetServiceConfigRequest{Service: "app"})
		if err != nil || string(config.GetSecrets()["PASSWORD"]) != hunter2 {
			t.Errorf("replica %d: got %v, want the secret", i, err)
		}
		_, err = fleetcalls.List[*fleetv1.Cluster](t.Context(), replica.fleet(t, token.GetSecret()), &fleetv1.ListRequest{})
		wantReason(t, err, "TOKEN_INVALID")
		_, err = replica.agents(t, "").Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: join.GetJoinToken(), PublicKey: bytes.Repeat([]byte{1}, 32)})
		wantReason(t, err, "JOIN_TOKEN_INVALID")
	}
	all, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), first.fleet(t, adminToken), &fleetv1.ListRequest{})
	if err != nil || len(all.Objects)%2 != 1 {
		t.Errorf("got %d clusters, %v, want one and pairs", len(all.Objects), err)
	}
	cluster, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), first.fleet(t, adminToken), "one")
	if err != nil {
		t.Fatal(err)
	}
	records, err := first.fleet(t, adminToken).ListAuditRecords(t.Context(), &fleetv1.ListAuditRecordsRequest{Verb: "restore"})
	if err != nil || len(records.GetRecords()) != 1 || !strings.Contains(records.GetRecords()[0].GetReason(), "restored from the backup") {
		t.Errorf("got %v, %v, want a record of the restore", records, err)
	}

	holders, err := first.fleet(t, adminToken).ListAccessHolders(t.Context(), &fleetv1.ListAccessHoldersRequest{
		Cluster: "one", Attributes: &fleetv1.AccessAttributes{Verb: "delete", Resource: "pods"}, Since: cluster.GetMetadata().GetCreateTime(),
	})
	if err != nil || len(holders.GetGaps()) != 1 || !strings.Contains(holders.GetGaps()[0], "restored from the backup") {
		t.Errorf("got %v, %v, want that nothing is known of the time between the backup and the restore", holders.GetGaps(), err)
	}

	releaseCluster(t, first, "one")
	for i, replica := range replicas {
		await.True(t, fmt.Sprintf("replica %d to release the cluster", i), func() bool { return planOf(t, replica, agent, "").GetRemovalsHeldSince() == nil })
		if plan := planOf(t, replica, agent, ""); plan.GetVersion() != before.GetVersion() {
			t.Errorf("replica %d: got version %s, want that of before the restore, %s", i, plan.GetVersion(), before.GetVersion())
		}
	}
	releaseCluster(t, first, "one") // changes nothing
}

// TestRestoreEndsAReplicaThatRuns replaces the database beneath a running replica, which must not
// serve or edit objects that are gone.
func TestRestoreEndsAReplicaThatRuns(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	h := startHub(t, func(c *distributor.Config) { c.DatabaseURL = url })
	h.demo(t, newFolder(t, "c1", "one"))
	file := h.backUp(t)
	h.apply(t, clusterDocument("later"))

	if _, err := restore(t, file, h.cfg); !errors.Is(err, sqlstore.ErrNotEmpty) {
		t.Errorf("got %v, want that the database is not empty", err)
	}
	keep := func(c *distributor.RestoreConfig) { c.Replace, c.KeepTokens = true, true }
	messages, err := restore(t, file, h.cfg, keep)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(messages, "is valid again") {
		t.Errorf("got %q, want the API tokens that were kept", messages)
	}
	if err := <-h.done; err == nil || !strings.Contains(err.Error(), "restored from a backup while this replica used it") {
		t.Errorf("got %v, want that the replica has ended", err)
	}
	h.done = nil
	h.start(t)
	all, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{})
	if err != nil || len(all.Objects) != 1 {
		t.Errorf("got %v, %v, want the cluster of the backup", all, err)
	}
}

// TestSecRestoreWritesNothingOfABadBackup has restores refused: each reports why, and leaves
// neither a row nor a table behind.
func TestSecRestoreWritesNothingOfABadBackup(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	file := h.backUp(t)
	h.stop(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	altered := bytes.Clone(whole)
	altered[len(altered)/2] ^= 1
	for name, tc := range map[string]struct {
		content []byte
		service string
		want    string
	}{
		"truncated":    {content: whole[:len(whole)-100], want: "the backup is damaged"},
		"altered":      {content: altered, want: "the backup is damaged"},
		"foreign":      {content: []byte("PGDMP"), want: "not a backup that this release reads"},
		"another root": {content: whole, service: identity.ServiceTunnel, want: "set the service secret or the sealing keys"},
	} {
		cfg := h.cfg
		cfg.DatabaseURL = "sqlite://" + filepath.Join(dir, name, "leat.db")
		if tc.service != "" {
			cfg.Service = hubkeys.Config(tc.service)
		}
		bad := filepath.Join(dir, name+".backup")
		if err := os.WriteFile(bad, tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t, bad, cfg, func(c *distributor.RestoreConfig) { c.Replace = true }); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v, want that no database was made", name, err)
		}
	}
	cfg := h.cfg
	cfg.DatabaseURL = "sqlite://" + filepath.Join(dir, "checked", "leat.db")
	messages, err := restore(t, "", cfg, func(c *distributor.RestoreConfig) { c.Check, c.Stdin = true, bytes.NewReader(whole) })
	if err != nil || !strings.Contains(messages, "the backup is whole") {
		t.Errorf("check: got %q, %v", messages, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "checked")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("check: got %v, want that no database was made", err)
	}
	if err := distributor.Backup(t.Context(), distributor.BackupConfig{StoreConfig: storeOf(cfg)}); err == nil || !strings.Contains(err.Error(), "holds no hub") {
		t.Errorf("backup of no database: got %v", err)
	}
}

// TestBackupPage runs the commands of docs/operations/backup.md as they are written there.
func TestBackupPage(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	page, err := os.ReadFile("../../docs/operations/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, target := h.cfg.DatabaseURL, "sqlite://"+filepath.Join(dir, "new", "leat.db")
	ran := 0
	for line := range strings.Lines(string(page)) {
		args := strings.Fields(strings.ReplaceAll(line, "/backups/", dir+"/"))
		if len(args) < 2 || args[0] != "distributor" || args[1] != "backup" && args[1] != "restore" {
			continue
		}
		environment := hubkeys.Env("distributor", map[string]string{
			"LEAT_DISTRIBUTOR_DATABASE_URL": map[string]string{"backup": source, "restore": target}[args[1]], "LEAT_DISTRIBUTOR_AUDIT_OUTPUT": "none",
		})
		set := config.New("distributor", func(name string) (string, bool) {
			value, ok := environment[name]
			return value, ok
		})
		b, r := distributor.BackupConfig{Messages: t.Output()}, distributor.RestoreConfig{Messages: t.Output()}
		run := func(ctx context.Context) error { return distributor.Backup(ctx, b) }
		if args[1] == "backup" {
			b.Bind(set)
		} else {
			r.Bind(set)
			run = func(ctx context.Context) error { return distributor.Restore(ctx, r) }
		}
		if code := app.Execute(t.Context(), app.Params{Program: "distributor", Args: args[2:], Settings: set, Run: run, Stdout: t.Output(), Stderr: t.Output()}); code != 0 {
			t.Fatalf("%s: got code %d, want 0", line, code)
		}
		ran++
	}
	if ran != 3 {
		t.Errorf("got %d commands on the page, want backup, check and restore", ran)
	}
	h.stop(t)
	h.cfg.DatabaseURL = target
	h.start(t)
	all, err := fleetcalls.List[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{})
	if err != nil || len(all.Objects) != 1 {
		t.Errorf("got %v, %v, want the service of the backup", all, err)
	}
}
