// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package access asks the distributor who may reach which cluster.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/accessrule/rulewire"
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
		Subject: q.Subject, SubjectUid: q.SubjectUID, Credential: q.Credential, Groups: q.Groups, Cluster: q.Cluster,
	})
	if err != nil {
		return policy.Decision{}, translate(err)
	}
	return decisionOf(res)
}

// errReserved is the error for a decision by which a person would be one of Kubernetes' own, such
// as system:masters. No binding can express that, so a decision that claims it is not obeyed.
var errReserved = errors.New("distributor's decision names an identity of Kubernetes itself")

func decisionOf(res *distributorv1.CheckAccessResponse) (policy.Decision, error) {
	d := policy.Decision{
		Allowed: res.GetAllowed(), User: res.GetUser(), UID: res.GetUid(), Groups: res.GetGroups(), Narrowed: res.GetNarrowed(),
		ClusterUID: res.GetClusterUid(), MaxAge: res.GetMaxAge().AsDuration(),
	}
	for _, p := range res.GetPermissions() {
		d.Permissions = append(d.Permissions, policy.Permission{Verb: p.GetVerb(), Resource: p.GetResource()})
	}
	names := append([]string{d.User}, d.Groups...)
	for _, extra := range res.GetExtra() {
		if d.Extra == nil {
			d.Extra = map[string][]string{}
		}
		d.Extra[extra.GetKey()] = extra.GetValues()
	}
	for _, grant := range res.GetGrants() {
		names = append(names, grant.GetGroups()...)
		rules, err := rulewire.Rules(grant.GetRules())
		if err != nil || len(rules) == 0 {
			continue // an unknown form lets nothing through
		}
		d.Grants = append(d.Grants, policy.Grant{Binding: grant.GetBinding(), Groups: grant.GetGroups(), Rules: rules})
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(strings.ToLower(name), "system:") }) {
		return policy.Decision{}, errReserved
	}
	return d, nil
}

// translate marks the errors after which asking again may help. A refusal of the tunnel's own token
// is not one of them: the hub is set up wrongly.
func translate(err error) error {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeInvalidArgument, connect.CodeUnimplemented:
		return fmt.Errorf("ask distributor for access: %w", err)
	default:
		return fmt.Errorf("ask distributor for access: %w", errors.Join(policy.ErrUnavailable, err))
	}
}
