// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestSecQueriesOfOnePersonAreBounded: a person whose queries took too long, with whatever tokens, is
// refused with what to do, and others are not.
func TestSecQueriesOfOnePersonAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewQueries(QueriesDeps{People: &Service{}})
		eve := &caller{Identity: identity.Identity{Kind: identity.KindUser, Name: "eve"}}
		ada := &caller{Identity: identity.Identity{Kind: identity.KindUser, Name: "ada"}}
		var ends []func()
		for range queriesAtOnce {
			end, err := s.begin(t.Context(), eve)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		waits, cancel := context.WithCancel(t.Context())
		for range queriesWaiting {
			go func() { _, _ = s.begin(waits, eve) }()
		}
		synctest.Wait()
		_, err := s.begin(t.Context(), eve)
		refused(t, err, "wait for their answers")
		cancel()
		synctest.Wait()

		time.Sleep(queryBurst/queriesAtOnce + 2*time.Second)
		for _, end := range ends {
			end()
		}
		_, err = s.begin(t.Context(), eve)
		refused(t, err, "narrow them by a project")
		end, err := s.begin(t.Context(), ada)
		if err != nil {
			t.Fatalf("another person: %v", err)
		}
		end()
	})
}

func refused(t *testing.T, err error, advice string) {
	t.Helper()
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || e.Code() != connect.CodeResourceExhausted || rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_RATE_LIMITED || !strings.Contains(err.Error(), advice) {
		t.Errorf("got %v, want RATE_LIMITED with %q", err, advice)
	}
}

// TestSentWindow compares windows one after the other, and asks what a caller is sent of each.
func TestSentWindow(t *testing.T) {
	t.Parallel()
	row := func(ref, message string) *fleetv1.FleetRow {
		return &fleetv1.FleetRow{Ref: ref, Message: message, Labels: map[string]string{"a": "1", "b": "2", "c": "3"}}
	}
	sent := sentWindow{}
	for _, step := range []struct {
		name  string
		rows  []*fleetv1.FleetRow
		total int32
		want  *fleetv1.WatchQueryResponse
	}{
		{
			"the first, though it is empty", nil, 0,
			&fleetv1.WatchQueryResponse{HasWindow: true, HasCounts: true},
		},
		{
			"two rows",
			[]*fleetv1.FleetRow{row("a", ""), row("b", "")},
			2,
			&fleetv1.WatchQueryResponse{
				Rows: []*fleetv1.FleetRow{row("a", ""), row("b", "")}, Window: []string{"a", "b"}, HasWindow: true, Total: 2, HasCounts: true,
			},
		},
		{"the same", []*fleetv1.FleetRow{row("a", ""), row("b", "")}, 2, nil},
		{
			"one changed",
			[]*fleetv1.FleetRow{row("a", ""), row("b", "it failed")},
			2,
			&fleetv1.WatchQueryResponse{Rows: []*fleetv1.FleetRow{row("b", "it failed")}},
		},
		{
			"the other order",
			[]*fleetv1.FleetRow{row("b", "it failed"), row("a", "")},
			2,
			&fleetv1.WatchQueryResponse{Window: []string{"b", "a"}, HasWindow: true},
		},
		{
			"one left",
			[]*fleetv1.FleetRow{row("a", "")},
			1,
			&fleetv1.WatchQueryResponse{Window: []string{"a"}, HasWindow: true, Total: 1, HasCounts: true},
		},
		{
			"it came back as it was",
			[]*fleetv1.FleetRow{row("a", ""), row("b", "it failed")},
			2,
			&fleetv1.WatchQueryResponse{
				Rows: []*fleetv1.FleetRow{row("b", "it failed")}, Window: []string{"a", "b"}, HasWindow: true, Total: 2, HasCounts: true,
			},
		},
	} {
		got, err := sent.update(step.rows, &fleetv1.WatchQueryResponse{Total: step.total})
		if err != nil || (got == nil) != (step.want == nil) || !proto.Equal(got, step.want) {
			t.Errorf("%s: got %v, %v, want %v", step.name, got, err, step.want)
		}
	}
}

// TestWatchLooksOnlyIfSomethingCanDiffer decides for pages that are open while nothing, or something, happens.
func TestWatchLooksOnlyIfSomethingCanDiffer(t *testing.T) {
	t.Parallel()
	rights := func(groups ...string) *authz.Rights { return authz.NewRights(nil, "ada", groups, nil, time.Time{}) }
	one := rights(catalog.AdminGroup)
	now := time.Now()
	for name, tc := range map[string]struct {
		params     find.Params
		generation uint64
		rights     *authz.Rights
		documents  bool
		age        time.Duration
		isBeat     bool
		want       bool
	}{
		"nothing happened":                      {},
		"a beat":                                {isBeat: true},
		"a change in the fleet":                 {generation: 2, want: true},
		"other rights":                          {rights: rights(), want: true},
		"documents, at a beat":                  {documents: true, isBeat: true, want: true},
		"documents, between beats":              {documents: true},
		"a filter of times, at a beat":          {params: find.Params{Filter: "since>2h"}, isBeat: true, want: true},
		"a filter of times, between beats":      {params: find.Params{Filter: "since>2h"}},
		"states of the database, after a while": {params: find.Params{Kind: catalog.KindFleetSource}, age: standingPause, want: true},
		"states of the database, just looked":   {params: find.Params{Kind: catalog.KindFleetSource}, age: standingPause - 1},
	} {
		tc.params.Kind = cmp.Or(tc.params.Kind, catalog.KindService)
		query, err := find.NewQuery(tc.params)
		if err != nil {
			t.Fatal(err)
		}
		w := &queryWatch{
			caller: &caller{rights: cmp.Or(tc.rights, one)}, query: query, hasDocuments: tc.documents,
			generation: 1, rights: one, looked: now.Add(-tc.age),
		}
		if got := w.isDue(cmp.Or(tc.generation, 1), now, tc.isBeat); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	if w := (&queryWatch{caller: &caller{rights: one}}); !w.isDue(0, now, false) {
		t.Error("the first look: got none, want one")
	}
}
