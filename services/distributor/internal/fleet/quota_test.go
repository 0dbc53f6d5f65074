// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

// newShops returns a view with one cluster, and the projects shop, whose quota is given, and guest, which
// has none, with a repository each.
func newShops(ctx context.Context, tb rapid.TB, quota int64) (*fleet.View, *log) {
	tb.Helper()
	l := &log{}
	v := fleet.New(fleet.Params{
		Store: l, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
		Plans: fanout.NewHub[string](0), Objects: fanout.NewHub[catalog.Key](0), PollInterval: time.Second,
	})
	l.add(catalog.Changes{
		Clusters: []*catalog.Cluster{cluster("c0")},
		Projects: []*catalog.Project{
			{Metadata: catalog.Metadata{Name: "shop", UID: "uid-shop"}, Spec: catalog.ProjectSpec{Quotas: catalog.ProjectQuotas{BundleBytes: &quota}}},
			{Metadata: catalog.Metadata{Name: "guest", UID: "uid-guest"}},
		},
		Repositories: []*catalog.Repository{
			{Metadata: catalog.Metadata{Name: "shop.demo", UID: "uid-1"}}, {Metadata: catalog.Metadata{Name: "guest.demo", UID: "uid-2"}},
		},
	})
	if err := v.Load(ctx); err != nil {
		tb.Fatal(err)
	}
	return v, l
}

// sizedSnapshot returns content of that size; equal sizes have equal content.
func sizedSnapshot(size int) *catalog.Snapshot {
	return &catalog.Snapshot{Commit: "c", Digest: digest.FromBytes(fmt.Append(nil, size)), ContentSize: int64(size)}
}

// TestBundleBooksAreTheCount changes services, content and repositories at random. The use of each
// project is always the sum over all its sources, and a project's with a quota within it.
func TestBundleBooksAreTheCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const quota = 20
		v, l := newShops(t.Context(), t, quota)
		change := func(t *rapid.T, changes catalog.Changes) {
			l.add(changes)
			if err := v.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		uids := 2
		names, repositories := rapid.SampledFrom([]string{"shop.a", "shop.b", "guest.c"}), rapid.SampledFrom([]string{"shop.demo", "guest.demo"})
		sources := rapid.Custom(func(t *rapid.T) catalog.Source {
			return catalog.Source{Repository: repositories.Draw(t, "repository"), Path: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "path")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				change(t, catalog.Changes{Services: []*catalog.Service{
					service(names.Draw(t, "name"), "c0", rapid.SliceOfN(sources, 1, 2).Draw(t, "sources")...),
				}})
			},
			"delete": func(t *rapid.T) {
				if s, ok := v.Catalog.Service(names.Draw(t, "name")); ok {
					change(t, catalog.Changes{Deleted: []catalog.Tombstone{{Key: s.Key(), UID: s.UID}}})
				}
			},
			"replace repository": func(t *rapid.T) {
				uids++
				change(t, catalog.Changes{Repositories: []*catalog.Repository{
					{Metadata: catalog.Metadata{Name: repositories.Draw(t, "repository"), UID: fmt.Sprint("uid-", uids)}},
				}})
			},
			"resolve": func(t *rapid.T) {
				source, next := sources.Draw(t, "source"), sizedSnapshot(rapid.IntRange(1, 15).Draw(t, "size"))
				if !v.Catalog.Wanted(source) {
					return // it is not asked for
				}
				release, refusal := v.BundleBooks.Reserve(source, next)
				if refusal != "" {
					return
				}
				v.Resolved(t.Context(), source, catalog.Resolution{Snapshot: next}, nil)
				release()
			},
			"": func(t *rapid.T) {
				for _, project := range []string{"shop", "guest"} {
					want := map[digest.Digest]int64{}
					var total, largest int64
					for _, source := range v.Catalog.Sources() {
						if s := v.Resolution(source).Snapshot; s != nil && objectname.Project(source.Repository) == project {
							want[s.Digest] = s.ContentSize
						}
					}
					for _, size := range want {
						total += size
						largest = max(largest, size)
					}
					use := v.BundleBooks.BundleUse(project)
					if use.Bytes != total || use.Bundles != len(want) || len(use.Largest) != min(len(want), 5) || total > 0 && use.Largest[0].Bytes != largest {
						t.Fatalf("%s: got %+v, want %d bytes in %v", project, use, total, want)
					}
					if project == "shop" && use.Bytes > quota {
						t.Fatalf("shop has %d bytes, and its quota is %d", use.Bytes, quota)
					}
				}
			},
		})
	})
}

// TestReservationsCount has 50 answers of ten bytes come at the same time: as many as fit are accepted.
func TestReservationsCount(t *testing.T) {
	t.Parallel()
	v, l := newShops(t.Context(), t, 100)
	var all []catalog.Source
	for i := range 50 {
		all = append(all, catalog.Source{Repository: "shop.demo", Path: fmt.Sprint(i)})
	}
	l.add(catalog.Changes{Services: []*catalog.Service{service("shop.a", "c0", all...)}})
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var answers sync.WaitGroup
	for i, source := range all {
		answers.Go(func() {
			next := sizedSnapshot(10)
			next.Digest = digest.FromBytes(fmt.Append(nil, "content ", i))
			release, refusal := v.BundleBooks.Reserve(source, next)
			if refusal != "" {
				return
			}
			v.Resolved(t.Context(), source, catalog.Resolution{Snapshot: next}, nil)
			release()
		})
	}
	answers.Wait()
	if use := v.BundleBooks.BundleUse("shop"); use.Bytes != 100 || use.Bundles != 10 {
		t.Errorf("got %+v, want ten bundles of ten bytes", use)
	}
	if _, refusal := v.BundleBooks.Reserve(all[0], sizedSnapshot(1000)); refusal == "" {
		t.Error("a reservation was kept: there is room for more than the quota")
	}
	// Accepted, and never put up: its room is free again.
	for _, source := range all {
		if v.Resolution(source).Snapshot == nil {
			continue
		}
		release, refusal := v.BundleBooks.Reserve(source, sizedSnapshot(5))
		if refusal != "" {
			t.Fatal(refusal)
		}
		release()
	}
}

// TestReservedRoomIsTaken reserves room without putting anything up: it is taken until it is released.
func TestReservedRoomIsTaken(t *testing.T) {
	t.Parallel()
	v, l := newShops(t.Context(), t, 100)
	first, second := catalog.Source{Repository: "shop.demo", Path: "x"}, catalog.Source{Repository: "shop.demo", Path: "y"}
	l.add(catalog.Changes{Services: []*catalog.Service{service("shop.a", "c0", first, second)}})
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	release, refusal := v.BundleBooks.Reserve(first, sizedSnapshot(60))
	if refusal != "" {
		t.Fatal(refusal)
	}
	if _, refusal := v.BundleBooks.Reserve(second, sizedSnapshot(41)); refusal == "" {
		t.Error("room was given to two sources")
	}
	release()
	if _, refusal := v.BundleBooks.Reserve(second, sizedSnapshot(41)); refusal != "" {
		t.Errorf("released room is still taken: %s", refusal)
	}
}

// TestReturningContentNeedsRoom deletes a service, gives its room to another one, and makes it again: the
// content that the hub still knows has no room any more.
func TestReturningContentNeedsRoom(t *testing.T) {
	t.Parallel()
	v, l := newShops(t.Context(), t, 100)
	first, second := catalog.Source{Repository: "shop.demo", Path: "x"}, catalog.Source{Repository: "shop.demo", Path: "y"}
	change := func(changes catalog.Changes) {
		t.Helper()
		l.add(changes)
		if err := v.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a, b := service("shop.a", "c0", first), service("shop.b", "c0", second)
	change(catalog.Changes{Services: []*catalog.Service{a}})
	v.Resolved(t.Context(), first, catalog.Resolution{Snapshot: sizedSnapshot(60)}, nil)
	change(catalog.Changes{Deleted: []catalog.Tombstone{{Key: a.Key(), UID: a.UID}}})
	change(catalog.Changes{Services: []*catalog.Service{b}})
	v.Resolved(t.Context(), second, catalog.Resolution{Snapshot: sizedSnapshot(61)}, nil)
	change(catalog.Changes{Services: []*catalog.Service{a}})
	if use := v.BundleBooks.BundleUse("shop"); use.Bytes != 61 || v.Resolution(first).Snapshot != nil {
		t.Errorf("got %+v and %v, want the second service's alone", use, v.Resolution(first))
	}
	v.Stored(t.Context(), first, catalog.Resolution{Snapshot: sizedSnapshot(60)})
	if use := v.BundleBooks.BundleUse("shop"); use.Bytes != 61 {
		t.Errorf("got %+v: what another replica stored before came back", use)
	}
}
