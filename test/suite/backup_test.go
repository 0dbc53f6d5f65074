// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// resourceVersion returns the version of the service's ConfigMap in the cluster, or "" if it is not
// there.
func (h *hub) resourceVersion(t *testing.T, service string) string {
	t.Helper()
	code, body := h.kubeGet(t, "/api/v1/namespaces/"+service+"/configmaps/"+service)
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(body), &object); err != nil || code != http.StatusOK {
		return ""
	}
	return object.Metadata.ResourceVersion
}

// clusterStatus returns the status of the cluster.
func (h *hub) clusterStatus(t *testing.T) *fleetv1.ClusterStatus {
	t.Helper()
	answer, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet, "demo")
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus()
}

// TestRestoredHubPrunesNothing loses a hub with its database and its Redis while an agent is
// connected, and restores it from a backup that is older than a service: the agent applies nothing
// again, and keeps the service that the hub does not know, also if it loses its disk, until a
// person releases the cluster.
func TestRestoredHubPrunesNothing(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	content := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	commit := repo.Commit(t, "main", map[string]string{"kept/a.yaml": content("kept"), "made/a.yaml": content("made")})
	h.apply(t, repository("shop", repo.URL()), service("kept", "shop", "kept"))
	h.waitService(t, "kept", "healthy", healthyAt(commit))

	database := filepath.Join(h.dir, "leat.db")
	settings := map[string]string{"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + database, "LEAT_BACKUP_FILE": filepath.Join(h.dir, "hub.backup")}
	var backup distributor.BackupConfig
	if err := configure("distributor", &backup, settings); err != nil {
		t.Fatal(err)
	}
	backup.Messages = t.Output()
	if err := distributor.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	backedUp := h.clusterStatus(t).GetPlanVersion()
	h.apply(t, service("made", "shop", "made"))
	h.waitService(t, "made", "healthy", healthyAt(commit))
	kept, made := h.resourceVersion(t, "kept"), h.resourceVersion(t, "made")
	if kept == "" || made == "" {
		t.Fatalf("got versions %q and %q, want both objects", kept, made)
	}
	lost := h.clusterStatus(t).GetPlanVersion()

	h.distributor.stop()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(database + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := h.redis.Admin(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	var restore distributor.RestoreConfig
	if err := configure("distributor", &restore, map[string]string{
		"LEAT_DISTRIBUTOR_DATABASE_URL": settings["LEAT_DISTRIBUTOR_DATABASE_URL"], "LEAT_RESTORE_FILE": settings["LEAT_BACKUP_FILE"],
		"LEAT_DISTRIBUTOR_AUDIT_OUTPUT": "none",
	}); err != nil {
		t.Fatal(err)
	}
	restore.Messages = t.Output()
	if err := distributor.Restore(t.Context(), restore); err != nil {
		t.Fatal(err)
	}

	unchanged := func(when string) {
		t.Helper()
		if got := [2]string{h.resourceVersion(t, "kept"), h.resourceVersion(t, "made")}; got != [2]string{kept, made} {
			t.Errorf("%s: got the versions %q of kept and made, want %q: the agent has changed something", when, got, [2]string{kept, made})
		}
	}
	h.distributor.start(t)
	held := ""
	adopted := func(what string, is func(*fleetv1.ClusterStatus) bool) {
		t.Helper()
		await.Poll(t, what, pause, func() (bool, string) {
			answer, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet, "demo")
			if err != nil {
				return false, err.Error()
			}
			status := answer.GetStatus()
			return is(status), status.String()
		})
	}
	adopted("the agent works on the restored plan", func(s *fleetv1.ClusterStatus) bool {
		held = s.GetPlanVersion()
		return held != backedUp && held != lost && s.GetRemovalsHeldSince() != nil
	})
	h.sync(t, "kept") // a run of a service that waits for nothing
	first := held
	adopted("the agent works on the plan with the sync", func(s *fleetv1.ClusterStatus) bool {
		held = s.GetPlanVersion()
		return held != first && s.GetRemovalsHeldSince() != nil
	})
	h.waitService(t, "kept", "healthy", healthyAt(commit))
	unchanged("after the restore")

	h.agent.stop()
	if err := os.RemoveAll(filepath.Join(h.dir, "agent")); err != nil {
		t.Fatal(err)
	}
	began := h.clusterStatus(t).GetReport().GetStartedAt().AsTime()
	h.agent.start(t)
	adopted("the agent works on the plan without its disk", func(s *fleetv1.ClusterStatus) bool {
		return s.GetReport().GetStartedAt().AsTime().After(began) && s.GetPlanVersion() == held
	})
	h.waitService(t, "kept", "healthy", healthyAt(commit))
	if h.resourceVersion(t, "made") != made {
		t.Error("the agent without its disk has changed the service that the hub does not know")
	}

	if _, err := h.fleet.ReleaseCluster(t.Context(), &fleetv1.ReleaseClusterRequest{Cluster: "demo"}); err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "the removal of the service that nobody knows", pause, func() (bool, string) {
		return h.resourceVersion(t, "made") == "", "it is there"
	})
	if h.resourceVersion(t, "kept") == "" {
		t.Error("the release removed a service of the plan")
	}
}
