// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"net/http"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// TestSelectionIsWhatArrives delivers a part of a repository: files that an exclude pattern or an
// ignore file omits never reach the cluster, and omitting a file later removes its objects.
func TestSelectionIsWhatArrives(t *testing.T) {
	h := startHub(t)
	repo := h.upstream.Repo(t, "shop")
	repo.Commit(t, "main", map[string]string{
		"app/overlay/kustomization.yaml": "resources: [../base, local.yaml]\n", "app/overlay/local.yaml": configMap("local", "1"),
		"app/base/kustomization.yaml": "resources: [base.yaml]\n", "app/base/base.yaml": configMap("base", "1"),
		"plain/kept.yaml": configMap("kept", "1"), "plain/excluded.yaml": configMap("excluded", "1"), "plain/ignored.yaml": configMap("ignored", "1"),
		"plain/test/broken.yaml": "kind: [\n", "extra/one.yaml": configMap("one", "1"), "extra/two.yaml": configMap("two", "1"),
		".leatignore": "/plain/*.yaml\n!kept.yaml\n!excluded.yaml\n",
	})
	overlay, plain := service("overlay", "shop", "app/overlay"), service("plain", "shop", "plain")
	sources := func(s *fleetv1.Service) *typev1.Source { return s.GetSpec().GetSources()[0] }
	sources(overlay.GetService()).Folders = []string{"app/base"}
	sources(plain.GetService()).Exclude = []string{"excluded.yaml", "test/"}
	h.apply(t, repository("shop", repo.URL()), overlay, plain)

	healthy := func(s *fleetv1.ServiceStatus) bool {
		return s.GetSynced() && s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY
	}
	holds := func(namespace string, want map[string]bool) {
		t.Helper()
		for name, there := range want {
			code, body := h.kubeGet(t, "/api/v1/namespaces/"+namespace+"/configmaps/"+name)
			if (code == http.StatusOK) != there || (!there && code != http.StatusNotFound) {
				t.Errorf("%s in %s: got %d %s, want it there: %v", name, namespace, code, body, there)
			}
		}
	}
	h.waitService(t, "overlay", "healthy", healthy)
	holds("overlay", map[string]bool{"local": true, "base": true})
	before := h.waitService(t, "plain", "healthy", healthy).GetSources()[0].GetSnapshot()
	holds("plain", map[string]bool{"kept": true, "excluded": false, "ignored": false})

	second := repo.Commit(t, "main", map[string]string{"plain/excluded.yaml": configMap("excluded", "2"), "plain/test/broken.yaml": "kind: {\n"})
	h.sync(t, "plain")
	after := h.waitService(t, "plain", "healthy at the second commit", healthyAt(second)).GetSources()[0].GetSnapshot()
	if after.GetDigest() != before.GetDigest() {
		t.Errorf("got digest %s after a commit to an excluded file, want %s", after.GetDigest(), before.GetDigest())
	}

	less := service("plain", "shop", "plain")
	sources(less.GetService()).Include = []string{"excluded.yaml"} // the same folder, the other part of it
	h.apply(t, less)
	h.waitService(t, "plain", "healthy with the other selection", func(s *fleetv1.ServiceStatus) bool {
		return healthy(s) && s.GetSources()[0].GetSnapshot().GetDigest() != before.GetDigest()
	})
	holds("plain", map[string]bool{"kept": false, "excluded": true, "ignored": false})

	sources(less.GetService()).Exclude = []string{"*"}
	h.apply(t, less)
	h.waitService(t, "plain", "failed", failedWith(errorsv1.Reason_REASON_PATH_NOT_FOUND, "exclude", "plain"))
	holds("plain", map[string]bool{"excluded": true})
}
