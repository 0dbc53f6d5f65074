// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/tunnel/internal/access"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// client answers a call with a function.
type client func(*distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error)

func (c client) CheckAccess(_ context.Context, req *distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
	return c(req)
}

func TestCheck(t *testing.T) {
	distributor := access.New(client(func(req *distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
		return &distributorv1.CheckAccessResponse{
			Allowed: true, User: req.GetSubject(), Groups: append(req.GetGroups(), "leat:viewers"),
			MaxAge: durationpb.New(3 * time.Second), ClusterUid: "uid-" + req.GetCluster(),
		}, nil
	}))
	got, err := distributor.Check(t.Context(), policy.Question{Subject: "user:ada", Groups: []string{"team"}, Cluster: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Decision{
		Allowed: true, User: "user:ada", Groups: []string{"team", "leat:viewers"}, ClusterUID: "uid-demo", MaxAge: 3 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision differs (-want +got):\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	for code, unavailable := range map[connect.Code]bool{
		connect.CodeUnavailable: true, connect.CodeDeadlineExceeded: true, connect.CodeInternal: true,
		connect.CodeUnauthenticated: false, connect.CodePermissionDenied: false,
	} {
		distributor := access.New(client(func(*distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
			return nil, connect.NewError(code, errors.New("no"))
		}))
		if _, err := distributor.Check(t.Context(), policy.Question{}); errors.Is(err, policy.ErrUnavailable) != unavailable || err == nil {
			t.Errorf("%v: got %v, want unavailable=%v", code, err, unavailable)
		}
	}
}
