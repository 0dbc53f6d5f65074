// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/gittest"
)

// failedWith returns the condition "failed for this reason, with a message that contains these
// words".
func failedWith(reason errorsv1.Reason, words ...string) func(*fleetv1.ServiceStatus) bool {
	return func(s *fleetv1.ServiceStatus) bool {
		if s.GetPhase() != typev1.ServicePhase_SERVICE_PHASE_FAILED || s.GetProblem().GetReason() != reason {
			return false
		}
		for _, word := range words {
			if !strings.Contains(s.GetProblem().GetMessage(), word) {
				return false
			}
		}
		return true
	}
}

// TestBadInputIsAState makes common mistakes. Each mistake appears as a state with a reason and a
// message with advice, the last good state stays applied, and correcting the mistake heals the
// service.
func TestBadInputIsAState(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	good := map[string]string{"app/settings.yaml": configMap("settings", "good")}
	repo.Commit(t, "main", good)
	h.apply(t, repository("shop", repo.URL()))

	for _, tc := range []struct {
		name   string
		broken func(t *testing.T, s *fleetv1.Service) // breaks the service or an object that it names
		mend   func(t *testing.T)
		reason errorsv1.Reason
		words  []string
	}{
		{
			name: "unknown-ref",
			broken: func(_ *testing.T, s *fleetv1.Service) {
				s.GetSpec().GetSources()[0].Ref = &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "absent"}}
			},
			reason: errorsv1.Reason_REASON_REF_NOT_FOUND, words: []string{"absent"},
		},
		{
			name:   "missing-folder",
			broken: func(_ *testing.T, s *fleetv1.Service) { s.GetSpec().GetSources()[0].Path = "nowhere" },
			reason: errorsv1.Reason_REASON_PATH_NOT_FOUND, words: []string{"nowhere"},
		},
		{
			name: "invalid-yaml",
			broken: func(t *testing.T, _ *fleetv1.Service) {
				repo.Commit(t, "main", map[string]string{"app/broken.yaml": "kind: ConfigMap\n  name: [\n"})
			},
			mend: func(t *testing.T) {
				repo.CommitFiles(t, "main", map[string]gittest.File{"app/broken.yaml": gittest.Deleted()})
			},
			reason: errorsv1.Reason_REASON_MANIFEST_INVALID, words: []string{"broken.yaml"},
		},
		{
			name: "rejected-manifest",
			broken: func(t *testing.T, _ *fleetv1.Service) {
				repo.Commit(t, "main", map[string]string{"app/broken.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: broken}\nspec: {ports: [{port: 99999999}]}\n"})
			},
			mend: func(t *testing.T) {
				repo.CommitFiles(t, "main", map[string]gittest.File{"app/broken.yaml": gittest.Deleted()})
			},
			reason: errorsv1.Reason_REASON_APPLY_REJECTED, words: []string{"port"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			document := service(tc.name, "shop", "app")
			h.apply(t, document)
			healthy := func(s *fleetv1.ServiceStatus) bool {
				return s.GetSynced() && s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY
			}
			h.waitService(t, tc.name, "healthy at first", healthy)

			broken := service(tc.name, "shop", "app")
			tc.broken(t, broken.GetService())
			h.apply(t, broken)
			h.sync(t, tc.name)
			h.waitService(t, tc.name, "failed for "+tc.reason.String(), failedWith(tc.reason, tc.words...))
			code, body := h.kubeGet(t, "/api/v1/namespaces/"+tc.name+"/configmaps/settings")
			if code != http.StatusOK || !strings.Contains(body, `"good"`) {
				t.Errorf("the last good state: got %d %s, want it to stay applied", code, body)
			}

			if tc.mend != nil {
				tc.mend(t)
			}
			h.apply(t, document)
			h.sync(t, tc.name)
			h.waitService(t, tc.name, "healthy again", healthy)
		})
	}

	t.Run("a folder that shrinks too much", func(t *testing.T) { testPruneGuard(t, h, repo) })
	t.Run("unreachable upstream", func(t *testing.T) {
		h.apply(t, repository("unreachable", "http://127.0.0.1:1/none.git"), service("unreachable", "unreachable", "."))
		h.waitService(t, "unreachable", "failed", failedWith(errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE))
	})
	t.Run("a repository that is not there", func(t *testing.T) {
		h.apply(t, repository("absent", h.upstream.URL()+"/absent.git"), service("absent", "absent", "."))
		h.waitService(t, "absent", "failed", failedWith(errorsv1.Reason_REASON_REPOSITORY_NOT_FOUND))
	})
	t.Run("refused credentials", func(t *testing.T) {
		h.upstream.SetBasicAuth("robot", "right")
		h.apply(t, repository("closed", repo.URL()), service("closed", "closed", "app"))
		h.waitService(t, "closed", "failed", failedWith(errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED))
	})
}

// testPruneGuard removes most manifests at once: the objects stay until a person agrees, and are
// then deleted.
func testPruneGuard(t *testing.T, h *hub, repo *gittest.Repo) {
	t.Helper()
	const objects = 10
	full, emptied := map[string]string{}, map[string]gittest.File{}
	for i := range objects {
		file := fmt.Sprintf("many/config-%d.yaml", i)
		full[file] = configMap(fmt.Sprintf("config-%d", i), "x")
		if i > 0 {
			emptied[file] = gittest.Deleted()
		}
	}
	before := repo.Commit(t, "main", full)
	document := service("many", "shop", "many")
	h.apply(t, document)
	h.sync(t, "many")
	h.waitService(t, "many", "healthy", healthyAt(before))

	after := repo.CommitFiles(t, "main", emptied)
	h.sync(t, "many")
	stopped := h.waitService(t, "many", "stopped by the guard",
		failedWith(errorsv1.Reason_REASON_PRUNE_GUARDED, "9 of 10", "sync.pruneConfirmation"))
	last := fmt.Sprintf("/api/v1/namespaces/many/configmaps/config-%d", objects-1)
	if code, body := h.kubeGet(t, last); code != http.StatusOK {
		t.Errorf("an object that the guard keeps: got %d %s, want it to stay", code, body)
	}

	confirmation := stopped.GetReport().GetGuardedSpecDigest()
	if len(stopped.GetReport().GetGuarded()) != objects-1 || !strings.Contains(stopped.GetProblem().GetMessage(), confirmation) {
		t.Errorf("the problem's message: got %q, want it to name %s and %d objects, got %v", stopped.GetProblem().GetMessage(), confirmation, objects-1,
			stopped.GetReport().GetGuarded())
	}
	document.GetService().GetSpec().Sync = &fleetv1.SyncOptions{PruneConfirmation: confirmation}
	h.apply(t, document)
	h.waitService(t, "many", "pruned after the confirmation", healthyAt(after))
	if code, _ := h.kubeGet(t, last); code != http.StatusNotFound {
		t.Errorf("an object after the confirmed prune: got %d, want 404", code)
	}
}
