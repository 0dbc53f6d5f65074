// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// still is a connection that does nothing.
type still struct{ http.RoundTripper }

func (still) Status() session.Status         { return session.Ready }
func (still) LastSeen() time.Time            { return time.Unix(2, 0) }
func (still) Shutdown(context.Context) error { return nil }
func (still) Close() error                   { return nil }

func (still) Leave(context.Context, time.Duration) error { return nil }
func (still) Done() <-chan struct{}                      { return nil }

func TestPages(t *testing.T) {
	table := session.NewTable(session.DefaultLimits())
	var want []string
	for _, cluster := range []string{"b", "a", "c"} {
		for i := range 3 {
			id := fmt.Sprintf("%s-%d", cluster, i)
			info := session.Info{ID: id, Cluster: cluster, Transport: "upgrade", ConnectedAt: time.Unix(1, 0)}
			if _, _, err := table.Add(info, still{}); err != nil {
				t.Fatal(err)
			}
			want = append(want, id)
		}
	}
	slices.SortFunc(want, func(a, b string) int { // by cluster, newest first
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		return int(b[2]) - int(a[2])
	})
	service := api.New(api.Deps{Table: table, Replica: "r", Peers: api.Alone, Sink: audit.Fan{}})
	ctx := identity.NewContext(t.Context(), identity.Identity{Kind: identity.KindService, Name: "distributor"})
	for _, size := range []int32{1, 2, 4, 9, 0} {
		var got []string
		page := &typev1.Page{Size: size}
		for {
			res, err := service.ListSessions(ctx, &tunnelv1.ListSessionsRequest{Page: page})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range res.GetSessions() {
				got = append(got, s.GetId())
			}
			if page.Token = res.GetNextPageToken(); page.GetToken() == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %v, want %v", size, got, want)
		}
	}
	res, err := service.ListSessions(ctx, &tunnelv1.ListSessionsRequest{Cluster: "a"})
	if err != nil || len(res.GetSessions()) != 3 {
		t.Errorf("one cluster: got %v, %v, want 3 sessions", res, err)
	}
	for _, page := range []*typev1.Page{{Size: -1}, {Token: "%"}, {Token: "e30"}} {
		_, err := service.ListSessions(ctx, &tunnelv1.ListSessionsRequest{Page: page})
		if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_FIELD_INVALID {
			t.Errorf("page %v: got %v, want FIELD_INVALID", page, err)
		}
	}
}
