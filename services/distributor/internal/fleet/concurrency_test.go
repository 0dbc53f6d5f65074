// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestReadersSeeEditsWhole runs edits, commits and readers at once. Each edit changes three
// services of a cluster alike, and every tenth creates the cluster again under its name. The
// commits touch two of the services. No reader sees a part of an edit or of a commit, and the last
// plan is the plan of the last edit and the last commit.
func TestReadersSeeEditsWhole(t *testing.T) {
	t.Parallel()
	v, l, _ := newView(t)
	const edits, commits = 300, 900
	extra := catalog.Source{Repository: "demo", Path: "extra"}
	v.Resolved(t.Context(), extra, good("extra"), nil)
	var writing, reading sync.WaitGroup
	writing.Go(func() {
		for edit := range edits {
			l.add(editOf(edit, extra))
			if err := v.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	writing.Go(func() {
		for commit := range commits {
			v.Resolved(t.Context(), app, good(fmt.Sprint(commit)), nil)
		}
	})
	done := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				checkWhole(t, v)
				v.Records.Get(catalog.Key{Kind: catalog.KindCluster, Name: "one"})
				v.DropPlans(time.Now().Add(time.Minute))
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	last := checkWhole(t, v)
	if want := good(fmt.Sprint(commits - 1)).Snapshot.Digest; last.Apply().Namespace != namespaceOf(edits-1) || last.Bundles[0].Digest != want {
		t.Errorf("got %+v, want the plan of the last edit and the last commit", last)
	}
}

func namespaceOf(edit int) string { return fmt.Sprint("edit-", edit) }

// editOf returns the changes of one edit.
func editOf(edit int, extra catalog.Source) catalog.Changes {
	trio := func(edit int) []*catalog.Service {
		services := []*catalog.Service{service("a", "one", app), service("b", "one", extra), service("c", "one", app)}
		for _, s := range services {
			s.UID, s.Spec.Options = fmt.Sprintf("uid-%s-%d", s.Name, edit/10), &syncpolicy.Options{Namespace: namespaceOf(edit)}
		}
		return services
	}
	changes := catalog.Changes{Services: trio(edit)}
	if edit%10 > 0 {
		return changes
	}
	next, last := cluster("one"), "uid-one"
	next.UID = fmt.Sprint("uid-one-", edit)
	if edit > 0 {
		last = fmt.Sprint("uid-one-", edit-10)
		for _, s := range trio(edit - 1) {
			changes.Deleted = append(changes.Deleted, catalog.Tombstone{Key: s.Key(), UID: s.UID})
		}
	}
	changes.Deleted = append(changes.Deleted, catalog.Tombstone{Key: next.Key(), UID: last})
	changes.Clusters = []*catalog.Cluster{next}
	return changes
}

// checkWhole reads the plan, and returns the entry of one of the three services.
func checkWhole(t *testing.T, v *fleet.View) plan.Entry {
	t.Helper()
	p, ok := v.Plan("one")
	if !ok {
		t.Error("the cluster has no plan")
		return plan.Entry{}
	}
	a, _ := p.Entry("a")
	b, _ := p.Entry("b")
	c, _ := p.Entry("c")
	uid := func(e plan.Entry) string { return strings.TrimPrefix(e.UID.String(), "uid-"+e.Name) }
	if a.Apply().Namespace != b.Apply().Namespace || a.Apply().Namespace != c.Apply().Namespace || uid(a) != uid(b) || uid(a) != uid(c) {
		t.Errorf("got %+v, %+v and %+v, want all of one edit", a, b, c)
	}
	if !slices.Equal(a.Bundles, c.Bundles) {
		t.Errorf("got %+v and %+v, want both of one commit", a.Bundles, c.Bundles)
	}
	return a
}
