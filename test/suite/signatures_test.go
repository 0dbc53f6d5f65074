// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/signtest"
)

// TestOnlySignedCommitsAreDelivered pushes unsigned commits: the service keeps its content, and its
// source reports why.
func TestOnlySignedCommitsAreDelivered(t *testing.T) {
	h, signer := startHub(t), signtest.New(t)
	repo := h.upstream.Repo(t, "shop")
	content := func(value string) map[string]string {
		return map[string]string{"app/settings.yaml": configMap("settings", value)}
	}
	signed := signer.Commit(t, repo, "main", content("signed"))
	shop := repository("shop", repo.URL())
	shop.GetRepository().GetSpec().Verification = &gitcachev1.Verification{
		Mode: gitcachev1.VerificationMode_VERIFICATION_MODE_COMMIT, SshAllowedSigners: signer.PublicKey(),
	}
	h.apply(t, shop, service("careful", "shop", "app"))
	h.waitService(t, "careful", "healthy at first", healthyAt(signed))

	unsigned := repo.Commit(t, "main", content("unsigned"))
	h.sync(t, "careful")
	h.waitService(t, "careful", "healthy with the signed content", func(s *fleetv1.ServiceStatus) bool {
		p := s.GetSources()[0].GetProblem()
		return healthyAt(signed)(s) && p.GetReason() == errorsv1.Reason_REASON_UPSTREAM_SIGNATURE_REJECTED && strings.Contains(p.GetMessage(), unsigned)
	})
	_, body := h.kubeGet(t, "/api/v1/namespaces/careful/configmaps/settings")
	if !strings.Contains(body, `"signed"`) || strings.Contains(body, `"unsigned"`) {
		t.Errorf("got %s in the cluster, want the signed content", body)
	}

	// An unsigned commit cannot be previewed either, by its branch or by its id.
	repo.Commit(t, "feature", content("feature"))
	for _, ref := range []*typev1.GitRef{
		{Selector: &typev1.GitRef_Branch{Branch: "feature"}}, {Selector: &typev1.GitRef_Commit{Commit: unsigned}},
	} {
		answer, err := h.fleet.PreviewService(t.Context(), &fleetv1.PreviewServiceRequest{Name: "careful", Ref: ref})
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_UPSTREAM_SIGNATURE_REJECTED {
			t.Errorf("preview of %v: got %v, %s, want UPSTREAM_SIGNATURE_REJECTED", ref, answer, codeOf(err))
		}
	}

	again := signer.Commit(t, repo, "main", content("signed again"))
	h.sync(t, "careful")
	h.waitService(t, "careful", "healthy at the next signed commit", func(s *fleetv1.ServiceStatus) bool {
		return healthyAt(again)(s) && s.GetSources()[0].GetProblem() == nil
	})
}
