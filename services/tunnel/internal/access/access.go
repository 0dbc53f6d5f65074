// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package access asks the distributor who may reach which cluster.
package access

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// Distributor is a [policy.Access] behind the distributor's AccessService.
type Distributor struct {
	client distributorv1connect.AccessServiceClient
}

var _ policy.Access = (*Distributor)(nil)

// New returns an access that asks through client, which carries a service's token.
func New(client distributorv1connect.AccessServiceClient) *Distributor {
	return &Distributor{client: client}
}

// Check implements [policy.Access].
func (d *Distributor) Check(ctx context.Context, q policy.Question) (policy.Decision, error) {
	res, err := d.client.CheckAccess(ctx, &distributorv1.CheckAccessRequest{
		Subject: q.Subject, Groups: q.Groups, Cluster: q.Cluster,
	})
	if err != nil {
		return policy.Decision{}, translate(err)
	}
	return policy.Decision{
		Allowed: res.GetAllowed(), User: res.GetUser(), Groups: res.GetGroups(),
		ClusterUID: res.GetClusterUid(), MaxAge: res.GetMaxAge().AsDuration(),
	}, nil
}

// translate marks the errors after which asking again may help. A refusal of our own token is none of them: it is a
// mistake of who set the hub up.
func translate(err error) error {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeInvalidArgument, connect.CodeUnimplemented:
		return fmt.Errorf("ask distributor for access: %w", err)
	default:
		return fmt.Errorf("ask distributor for access: %w", errors.Join(policy.ErrUnavailable, err))
	}
}
