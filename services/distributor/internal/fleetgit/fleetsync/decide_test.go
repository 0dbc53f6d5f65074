// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync_test

import (
	"fmt"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestJudge has removals be due, held and kept.
func TestJudge(t *testing.T) {
	t.Parallel()
	source := func(change func(*catalog.FleetSourceSpec)) *catalog.FleetSource {
		f := &catalog.FleetSource{Metadata: catalog.Metadata{Name: "fleet"}, Spec: catalog.FleetSourceSpec{Source: catalog.Source{Repository: "fleet"}}}
		if change != nil {
			change(&f.Spec)
		}
		return f
	}
	plain := source(nil)
	for _, tt := range []struct {
		name          string
		source        *catalog.FleetSource
		managed, gone int
		isPartial     bool
		due, held     int
	}{
		{"nothing is gone", plain, 100, 0, false, 0, 0},
		{"the limit", plain, 100, 10, false, 10, 0},
		{"beyond the limit", plain, 100, 11, false, 0, 11},
		{"half", plain, 4, 2, false, 2, 0},
		{"more than half", plain, 4, 3, false, 0, 3},
		{"an empty folder of one object", plain, 1, 1, false, 0, 1},
		{"another limit", source(func(s *catalog.FleetSourceSpec) { s.PruneLimit = 50 }), 100, 50, false, 50, 0},
		{"half counts with any limit", source(func(s *catalog.FleetSourceSpec) { s.PruneLimit = 10_000 }), 100, 51, false, 0, 51},
		{"a file cannot be read", plain, 100, 1, true, 0, 1},
		{"no pruning", source(func(s *catalog.FleetSourceSpec) { s.KeepsRemoved = true }), 100, 100, false, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			managed := []catalog.Key{tt.source.Key(), {Kind: catalog.KindRepository, Name: "fleet"}}
			desired := map[catalog.Key]struct{}{}
			for i := range tt.managed {
				key := catalog.Key{Kind: catalog.KindCluster, Name: fmt.Sprintf("c%d", i)}
				managed = append(managed, key)
				if i >= tt.gone {
					desired[key] = struct{}{}
				}
			}
			due, held, kept, digest := fleetsync.Judge(tt.source, managed, desired, tt.isPartial, "")
			if len(due) != tt.due || held != tt.held || kept != 2+tt.gone-tt.due-tt.held {
				t.Errorf("got %d due, %d held, %d kept", len(due), held, kept)
			}
			if canConfirm := tt.held > 0 && !tt.isPartial; (digest != "") != canConfirm {
				t.Errorf("got the digest %q", digest)
			} else if canConfirm {
				if due, _, _, _ := fleetsync.Judge(tt.source, managed, desired, false, digest); len(due) != tt.held {
					t.Errorf("confirmed: got %d due, want %d", len(due), tt.held)
				}
				delete(desired, managed[len(managed)-1])
				if due, _, _, _ := fleetsync.Judge(tt.source, managed[:len(managed)-1], desired, false, "other"); len(due) != 0 {
					t.Errorf("another confirmation: got %d due", len(due))
				}
			}
		})
	}
}

// TestJudgeOrder removes objects before the ones that they name.
func TestJudgeOrder(t *testing.T) {
	t.Parallel()
	source := &catalog.FleetSource{Metadata: catalog.Metadata{Name: "fleet"}}
	managed := []catalog.Key{
		{Kind: catalog.KindProject, Name: "shop"},
		{Kind: catalog.KindService, Name: "web@a"},
		{Kind: catalog.KindCluster, Name: "a"},
		{Kind: catalog.KindRole, Name: "r"},
		{Kind: catalog.KindAccessBinding, Name: "b"},
	}
	_, _, _, digest := fleetsync.Judge(source, managed, nil, false, "")
	due, _, _, _ := fleetsync.Judge(source, managed, nil, false, digest)
	place := map[catalog.Kind]int{}
	for i, key := range due {
		place[key.Kind] = i
	}
	if len(due) != 5 || place[catalog.KindService] > place[catalog.KindCluster] || place[catalog.KindCluster] > place[catalog.KindProject] ||
		place[catalog.KindAccessBinding] > place[catalog.KindRole] {
		t.Errorf("got %v", due)
	}
}
