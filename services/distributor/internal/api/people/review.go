// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/internal/accessrule/rulewire"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// ReviewAccess implements FleetService.
func (s *Service) ReviewAccess(ctx context.Context, req *fleetv1.ReviewAccessRequest) (*fleetv1.ReviewAccessResponse, error) {
	id, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	if !isAdmin(id) && (req.GetEverybody() || req.GetUser() != "" && req.GetUser() != id.Name) {
		return nil, errNotAdmin()
	}
	cluster, err := keyOf(catalog.KindCluster, "cluster", req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	if req.GetEverybody() {
		return s.reviewAll(req, cluster)
	}
	who, err := s.reviewed(id, req)
	if err != nil {
		return nil, err
	}
	access, ok := s.d.View.Access(who.Name, who.Groups, cluster.Name)
	if !ok && isAdmin(id) {
		return nil, wire.NotFound(cluster)
	}
	if req.GetAttributes() == nil {
		return reviewInGeneral(who.Name, access), nil
	}
	q, err := attributesOf(req.GetAttributes())
	if err != nil {
		return nil, err
	}
	return reviewRequest(who.Name, access, q), nil
}

// reviewed is the person whom the question is about.
func (s *Service) reviewed(caller identity.Identity, req *fleetv1.ReviewAccessRequest) (identity.Identity, error) {
	if req.GetUser() == "" || req.GetUser() == caller.Name {
		return caller, nil
	}
	if user, ok := s.d.View.User(req.GetUser()); ok {
		return identity.Identity{Name: user.Name, Groups: user.Spec.Groups}, nil
	}
	if len(req.GetGroups()) == 0 {
		return identity.Identity{}, rpcerr.Field("user", fmt.Sprintf("there is no user %q here; say the groups of one whom others sign in", req.GetUser()))
	}
	return identity.Identity{Name: req.GetUser(), Groups: req.GetGroups()}, nil
}

func (s *Service) reviewAll(req *fleetv1.ReviewAccessRequest, cluster catalog.Key) (*fleetv1.ReviewAccessResponse, error) {
	if req.GetUser() != "" || req.GetAttributes() != nil {
		return nil, rpcerr.Field("everybody", "excludes user and attributes")
	}
	access, ok := s.d.View.AccessOfAll(cluster.Name)
	if !ok {
		return nil, wire.NotFound(cluster)
	}
	return &fleetv1.ReviewAccessResponse{Allowed: true, Reason: "these reach the cluster", Reasons: reasonMessages(access.Reasons)}, nil
}

func reviewInGeneral(user string, access fleet.Access) *fleetv1.ReviewAccessResponse {
	res := &fleetv1.ReviewAccessResponse{
		Allowed: len(access.Reasons) > 0, User: user, Groups: access.Groups(fleet.AccessReason.IsUnconditional), Reasons: reasonMessages(access.Reasons),
	}
	if res.Reason = "no binding lets " + user + " reach the cluster"; res.GetAllowed() {
		res.Reason = "reaches the cluster by " + namesOf(access.Reasons)
	}
	return res
}

func reviewRequest(user string, access fleet.Access, q accessrule.Request) *fleetv1.ReviewAccessResponse {
	allows := func(r fleet.AccessReason) bool { return r.Allows(q) }
	matching := slices.DeleteFunc(slices.Clone(access.Reasons), func(r fleet.AccessReason) bool { return !allows(r) })
	res := &fleetv1.ReviewAccessResponse{User: user, Groups: access.Groups(allows), Reasons: reasonMessages(matching)}
	switch {
	case len(matching) > 0:
		res.Allowed, res.Reason = true, fmt.Sprintf("%s is let through by %s", q, namesOf(matching))
	case len(access.Reasons) == 0:
		res.Reason = "no binding lets " + user + " reach the cluster"
	case q.Open():
		res.Allowed, res.Reason = true, fmt.Sprintf("%s is let through for everybody who reaches the cluster", q)
	default:
		res.Reason = fmt.Sprintf("no rule of %s chooses %s", namesOf(access.Reasons), q)
	}
	return res
}

func namesOf(reasons []fleet.AccessReason) string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		if names[i] = "binding " + r.Name(); r.Binding == nil {
			names[i] = "membership in leat:admins"
		}
	}
	return strings.Join(names, ", ")
}

func attributesOf(m *fleetv1.AccessAttributes) (accessrule.Request, error) {
	resource, subresource, _ := strings.Cut(m.GetResource(), "/")
	q := accessrule.Request{
		Verb: m.GetVerb(), APIGroup: m.GetApiGroup(), Resource: resource, Subresource: subresource, Namespace: m.GetNamespace(), Path: m.GetNonResourcePath(),
	}
	switch {
	case q.Verb == "":
		return q, rpcerr.Field("attributes.verb", "is required")
	case q.Resource == "" && q.Path == "":
		return q, rpcerr.Field("attributes.resource", "is required, or a path of no resource")
	case q.Path != "" && (q.Resource != "" || q.Namespace != "" || q.APIGroup != ""):
		return q, rpcerr.Field("attributes.non_resource_path", "excludes resource, namespace and API group")
	}
	return q, nil
}

func reasonMessages(reasons []fleet.AccessReason) []*fleetv1.AccessReason {
	var messages []*fleetv1.AccessReason
	for _, r := range reasons {
		m := &fleetv1.AccessReason{
			Binding: r.Name(), Subjects: r.Subjects, Role: roleMessage(r.Role), Groups: r.Groups, Rules: rulewire.Messages(r.Rules),
		}
		if r.Binding != nil {
			m.ExpireTime = catalogwire.Timestamp(r.Binding.Spec.ExpiresAt)
		}
		messages = append(messages, m)
	}
	return messages
}
