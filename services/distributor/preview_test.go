// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

func branch(name string) *typev1.GitRef {
	return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: name}}
}

// TestPreviewIsForItsClusterOnly has two replicas, and two clusters of which one is granted a
// bundle that is in no plan.
func TestPreviewIsForItsClusterOnly(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	git := startFakeGit(t)
	here := startReplica(t, git, func(c *distributor.Config) { c.DatabaseURL = url })
	there := startReplica(t, git, func(c *distributor.Config) { c.DatabaseURL, c.Intervals.CatalogPoll = url, time.Hour })
	now, next := newFolder(t, "c1", "one"), newFolder(t, "c2", "two")
	here.demo(t, now)
	here.apply(t, clusterDocument("two"))
	git.set("demo", "app@next", next)
	one, two := here.enrol(t, "one"), here.enrol(t, "two")
	before := here.watchPlan(t, one.token, "").nextWith(t, now.snapshot.GetDigest())
	read := func(h *hub, a *agentKey) int {
		t.Helper()
		res, body := h.download(t, a.token, next.snapshot.GetDigest(), nil)
		if res.StatusCode == http.StatusOK && !bytes.Equal(body, next.bytes) {
			t.Errorf("got %d other bytes", len(body))
		}
		return res.StatusCode
	}
	if got := read(here, one); got != http.StatusNotFound {
		t.Fatalf("before the preview: got %d, want 404", got)
	}

	asked := time.Now()
	res, err := here.fleet(t, adminToken).PreviewService(t.Context(), &fleetv1.PreviewServiceRequest{Name: "app", Ref: branch("next")})
	if err != nil {
		t.Fatal(err)
	}
	service := res.GetService()
	if got := service.GetBundles(); res.GetCluster() != "one" || len(got) != 1 || got[0].GetDigest() != next.snapshot.GetDigest() || got[0].GetCommit() != "c2" {
		t.Errorf("got %v, want the content of the branch", res)
	}
	if want := before.GetServices()[0]; service.GetSpecDigest() != want.GetSpecDigest() || service.GetUid() != want.GetUid() {
		t.Errorf("got %v, want the service as it is otherwise: %v", service, want)
	}
	if life := res.GetExpireTime().AsTime().Sub(asked); life < 14*time.Minute || life > 16*time.Minute {
		t.Errorf("got a grant for %s, want 15 min", life)
	}
	for name, h := range map[string]*hub{"here": here, "there": there} {
		await.True(t, "the granted bundle "+name, func() bool { return read(h, one) == http.StatusOK }) // a miss just before makes it wait
		if got := read(h, two); got != http.StatusNotFound {
			t.Errorf("%s: another cluster got %d, want 404", name, got)
		}
	}
	here.apply(t, serviceDocument("other", "one", "demo", "app"))
	plan := here.watchPlan(t, one.token, before.GetVersion()).next(t)
	for _, s := range plan.GetServices() {
		for _, b := range s.GetBundles() {
			if b.GetDigest() == next.snapshot.GetDigest() {
				t.Errorf("the preview got into the plan: %v", plan)
			}
		}
	}
}

// TestPreviewsThatAreRefused end without a grant, and report why.
func TestPreviewsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.git.set("other", "", newFolder(t, "c1", "other"))
	both := serviceDocument("both", "one", "demo", "app")
	both.GetService().Spec.Sources = append(both.GetService().Spec.Sources, &typev1.Source{Repository: "other"})
	h.apply(t, repositoryDocument("other"), both)
	preview := func(req *fleetv1.PreviewServiceRequest) error {
		_, err := h.fleet(t, adminToken).PreviewService(t.Context(), req)
		return err
	}
	wantReason(t, preview(&fleetv1.PreviewServiceRequest{Name: "none", Ref: branch("x")}), "NOT_FOUND")
	for field, req := range map[string]*fleetv1.PreviewServiceRequest{
		"ref":                        {Name: "app"},
		"repository":                 {Name: "both", Ref: branch("x")},
		"spec.sources[0].ref.branch": {Name: "app", Ref: branch("a..b")},
	} {
		err := preview(req)
		wantReason(t, err, "FIELD_INVALID")
		if got := rpcerr.Metadata(err)[rpcerr.MetadataField]; got != field {
			t.Errorf("got field %q, want %q", got, field)
		}
	}
	wantReason(t, preview(&fleetv1.PreviewServiceRequest{Name: "app", Ref: branch("x"), Repository: "other"}), "FIELD_INVALID")
	for reason, code := range map[string]connect.Code{
		"UPSTREAM_SIGNATURE_REJECTED": connect.CodeFailedPrecondition, "REF_NOT_FOUND": connect.CodeNotFound,
		"REPOSITORY_NOT_READY": connect.CodeUnavailable, "BUNDLE_TOO_LARGE": connect.CodeFailedPrecondition,
	} {
		h.git.refuse("demo", rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason(errorsv1.Reason_value["REASON_"+reason]), "no"))
		err := preview(&fleetv1.PreviewServiceRequest{Name: "app", Ref: branch("x")})
		if wantReason(t, err, reason); connect.CodeOf(err) != code {
			t.Errorf("%s: got code %s, want %s", reason, connect.CodeOf(err), code)
		}
	}
}

// TestPreviewOfOneRepository leaves the sources of others as they are.
func TestPreviewOfOneRepository(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	main, next, other := newFolder(t, "c1", "one"), newFolder(t, "c2", "two"), newFolder(t, "c3", "other")
	h.demo(t, main)
	h.git.set("demo", "app@next", next)
	h.git.set("other", "", other)
	both := serviceDocument("both", "one", "demo", "app")
	both.GetService().Spec.Sources = append(both.GetService().Spec.Sources, &typev1.Source{Repository: "other"})
	h.apply(t, repositoryDocument("other"), both)
	var got string
	await.True(t, "both repositories", func() bool {
		res, err := h.fleet(t, adminToken).PreviewService(t.Context(), &fleetv1.PreviewServiceRequest{Name: "both", Ref: branch("next"), Repository: "demo"})
		got = fmt.Sprint(res.GetService().GetBundles())
		return err == nil
	})
	if bundles := fmt.Sprint(next.snapshot.GetDigest(), other.snapshot.GetDigest()); !bytes.Contains([]byte(got), []byte(next.snapshot.GetDigest())) ||
		!bytes.Contains([]byte(got), []byte(other.snapshot.GetDigest())) {
		t.Errorf("got %s, want %s", got, bundles)
	}
}
