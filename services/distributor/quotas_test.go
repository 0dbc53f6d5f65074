// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"strings"
	"testing"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
)

// sized returns a folder whose bundle has more than the given bytes. Another seed gives other content.
func sized(t *testing.T, commit string, seed, bytes int) *folder {
	t.Helper()
	return newFolder(t, commit, fmt.Sprintf("seed: %d\n", seed)+strings.Repeat("a: b\n", bytes/5))
}

// push puts content at a path of a repository, and has the hub notified.
func (h *hub) push(repository, path string, content *folder) {
	h.git.set(repository, path, content)
	h.git.announce(repository, "", "refs/heads/main")
}

// bounded returns a project with quotas of bytes; zero stands for none.
func bounded(name string, all, each int64) *fleetv1.Document {
	quotas := &fleetv1.ProjectQuotas{}
	if all > 0 {
		quotas.BundleBytes = &all
	}
	if each > 0 {
		quotas.BytesPerBundle = &each
	}
	return projectDocument(name, &fleetv1.ProjectSpec{Quotas: quotas})
}

// projectStatus returns a project's status.
func (h *hub) projectStatus(t *testing.T, name string) *fleetv1.ProjectStatus {
	t.Helper()
	res, err := fleetcalls.Get[*fleetv1.Project](t.Context(), h.fleet(t, adminToken), name)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetStatus()
}

// source returns the hub's state of a service's only source.
func (h *hub) source(t *testing.T, service string) *fleetv1.SourceStatus {
	t.Helper()
	res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), service)
	if err != nil {
		t.Fatal(err)
	}
	if sources := res.GetStatus().GetSources(); len(sources) == 1 {
		return sources[0]
	}
	return nil
}

func (h *hub) sync(t *testing.T, service string) {
	t.Helper()
	if _, err := h.fleet(t, adminToken).SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: service}); err != nil {
		t.Fatal(err)
	}
}

// delivers reports whether the service's source holds the folder's content.
func (h *hub) delivers(t *testing.T, service string, content *folder) bool {
	t.Helper()
	return h.source(t, service).GetSnapshot().GetDigest() == content.snapshot.GetDigest()
}

// isRefused reports whether a quota keeps the service's source from its latest content.
func (h *hub) isRefused(t *testing.T, service string) bool {
	t.Helper()
	return h.source(t, service).GetProblem().GetReason() == errorsv1.Reason_REASON_PROJECT_QUOTA_EXCEEDED
}

// TestQuotaOfBundles commits more to a project than its quota allows: the service keeps what it
// has, also after a restart, others continue, and the content is delivered when there is room.
func TestQuotaOfBundles(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	second := startReplica(t, h.git, func(c *distributor.Config) { c.DatabaseURL = h.cfg.DatabaseURL })
	first, other := sized(t, "c1", 1, 4000), sized(t, "c1", 2, 4000)
	unit := first.snapshot.GetContentSize()
	h.push("shop.demo", "a", first)
	h.push("shop.demo", "b", other)
	h.push("shop.demo", "copy", first)
	h.apply(t, bounded("shop", 3*unit, 0), in("shop", clusterDocument("one")), in("shop", repositoryDocument("demo")),
		in("shop", serviceDocument("a", "one", "demo", "a")), in("shop", serviceDocument("b", "one", "demo", "b")),
		in("shop", serviceDocument("copy", "one", "demo", "copy")))
	agent := h.enrolPath(t, "shop/one", "shop.one")
	// A replica that does not know yet what the project holds would have room for the large one.
	for _, replica := range []*hub{h, second} {
		await.True(t, "both contents at each replica", func() bool {
			return replica.delivers(t, "shop/a", first) && replica.delivers(t, "shop/b", other) && replica.delivers(t, "shop/copy", first)
		})
	}
	if s := h.projectStatus(t, "shop"); s.GetBundleBytes() != 2*unit || s.GetBundles() != 2 || len(s.GetLargestBundles()) != 2 || s.GetLargestBundles()[0].GetRepository() != "demo" {
		t.Errorf("got %v, want two bundles of %d bytes: equal content counts once", s, unit)
	}

	large := sized(t, "c2", 3, 12000)
	h.push("shop.demo", "b", large)
	failed := h.waitService(t, "shop/b", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_FAILED
	})
	if p := failed.GetStatus().GetProblem(); p.GetReason() != errorsv1.Reason_REASON_PROJECT_QUOTA_EXCEEDED || !strings.Contains(p.GetMessage(), "spec.quotas.bundleBytes") ||
		!strings.Contains(p.GetMessage(), fmt.Sprint(2*unit)) || !strings.Contains(p.GetMessage(), fmt.Sprint(3*unit)) {
		t.Errorf("got %v, want the quota, the use and the limit", p)
	}
	wantPlan := func() {
		t.Helper()
		for _, s := range h.watchPlan(t, agent.token, "").next(t).GetServices() {
			if s.GetName() == "shop.b" && (len(s.GetBundles()) != 1 || s.GetBundles()[0].GetDigest() != other.snapshot.GetDigest()) {
				t.Errorf("the plan has %v, want the content that service b had", s.GetBundles())
			}
		}
	}
	wantPlan()
	if h.source(t, "shop/b").GetSnapshot().GetCommit() != "c1" {
		t.Errorf("got %v, want commit c1", h.source(t, "shop/b"))
	}
	await.True(t, "the refusal at the other replica", func() bool { return second.isRefused(t, "shop/b") })
	if !second.delivers(t, "shop/b", other) || second.projectStatus(t, "shop").GetBundleBytes() != 2*unit {
		t.Errorf("the other replica delivers %v, and the project has %v", second.source(t, "shop/b"), second.projectStatus(t, "shop"))
	}

	h.stop(t)
	h.start(t)
	await.True(t, "the refusal after a restart", func() bool { return h.isRefused(t, "shop/b") })
	wantPlan()
	smaller := sized(t, "c3", 4, 3000)
	h.push("shop.demo", "a", smaller)
	await.True(t, "a service that is not refused", func() bool { return h.delivers(t, "shop/a", smaller) })

	h.apply(t, bounded("shop", 20*unit, 0))
	h.sync(t, "shop/b")
	await.True(t, "the content that has room now", func() bool { return h.delivers(t, "shop/b", large) && !h.isRefused(t, "shop/b") })
	want := first.snapshot.GetContentSize() + smaller.snapshot.GetContentSize() + large.snapshot.GetContentSize()
	await.True(t, "the use", func() bool { return h.projectStatus(t, "shop").GetBundleBytes() == want })

	// A lowered quota takes nothing away, and what becomes smaller is delivered.
	h.apply(t, bounded("shop", unit, unit))
	half := sized(t, "c4", 5, 8000)
	h.push("shop.demo", "b", half)
	await.True(t, "less than before", func() bool { return h.delivers(t, "shop/b", half) })
	for _, service := range []string{"a", "copy"} {
		if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "shop/"+service); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := h.projectStatus(t, "shop"), half.snapshot.GetContentSize(); got.GetBundleBytes() != want || got.GetBundles() != 1 {
		t.Errorf("got %v, want the %d bytes of the last service", got, want)
	}
}

// TestSecQuotaOfBundlesHolds tries to get more bytes of bundles than a quota allows: many at a time, by
// deleting services and making them again, and through another project's services.
func TestSecQuotaOfBundlesHolds(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	const sources = 12
	var contents []*folder
	services := func(prefix string) (all []*fleetv1.Document) {
		for i := range sources {
			all = append(all, in("shop", serviceDocument(fmt.Sprintf("%s%d", prefix, i), "one", "demo", fmt.Sprintf("p%d", i))))
		}
		return all
	}
	for i := range sources {
		contents = append(contents, sized(t, "c1", i, 4000))
		h.push("shop.demo", fmt.Sprintf("p%d", i), contents[i])
	}
	unit := contents[sources-1].snapshot.GetContentSize()
	quota := 3*unit + unit/2
	h.push("guest.demo", "own", sized(t, "c1", 100, 40000))
	shop := bounded("shop", quota, 0)
	shop.GetProject().Spec.Shares = []*fleetv1.ProjectShare{{Projects: &fleetv1.Selection{All: true}, Repositories: &fleetv1.Selection{All: true}}}
	h.apply(t, shop, projectDocument("guest", nil), in("shop", clusterDocument("one")), in("shop", repositoryDocument("demo")),
		in("guest", clusterDocument("one")), in("guest", repositoryDocument("demo")))
	h.apply(t, services("a")...)
	settled := func(prefix string) (held int) {
		await.True(t, "an answer for each source of "+prefix, func() bool {
			held = 0
			for i := range sources {
				service := fmt.Sprintf("shop/%s%d", prefix, i)
				isDelivered := h.delivers(t, service, contents[i])
				if isDelivered {
					held++
				}
				if !isDelivered && !h.isRefused(t, service) {
					return false
				}
			}
			return true
		})
		return held
	}
	wantBounded := func(what string, held int) {
		t.Helper()
		s := h.projectStatus(t, "shop")
		if held != 3 || s.GetBundles() != 3 || s.GetBundleBytes() > quota {
			t.Errorf("%s: %d sources are delivered, and the project has %v; want three of them, within %d bytes", what, held, s, quota)
		}
	}
	wantBounded("all at a time", settled("a"))

	// Delivered ones make way for the others, which the hub knows from then on.
	for round := range 3 {
		for i := range sources {
			service := fmt.Sprintf("shop/a%d", i)
			if h.delivers(t, service, contents[i]) {
				if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), service); err != nil {
					t.Fatal(err)
				}
				h.push("shop.demo", fmt.Sprintf("p%d", (i+1)%sources), contents[(i+1)%sources])
				break
			}
		}
		await.True(t, fmt.Sprint("another one in round ", round), func() bool {
			for i := range sources {
				if res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), fmt.Sprintf("shop/a%d", i)); err == nil && res.GetStatus().GetProblem().GetReason() == errorsv1.Reason_REASON_PROJECT_QUOTA_EXCEEDED {
					h.sync(t, fmt.Sprintf("shop/a%d", i))
				}
			}
			return h.projectStatus(t, "shop").GetBundles() == 3
		})
		h.apply(t, services("a")...)
	}
	wantBounded("after services were deleted and made again", settled("a"))

	// Another project's services count for the owner of the content, and its own content does not.
	h.apply(t, in("guest", serviceDocument("own", "one", "demo", "own")))
	await.True(t, "the other project's own content", func() bool { return h.source(t, "guest/own").GetSnapshot() != nil })
	h.push("shop.demo", "more", sized(t, "c1", 200, 4000))
	h.apply(t, in("guest", serviceDocument("more", "one", "shop/demo", "more")))
	await.True(t, "the refusal of what another project adds", func() bool { return h.isRefused(t, "guest/more") })
	wantBounded("through another project", settled("a"))
}
