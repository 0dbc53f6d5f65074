// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/accessrule/rulewire"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// ReviewAccess implements FleetService.
func (s *Service) ReviewAccess(ctx context.Context, req *fleetv1.ReviewAccessRequest) (*fleetv1.ReviewAccessResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	mayAsk := c.rights.Allows(c.needs(), authz.Object{})
	if !mayAsk && (req.GetEverybody() || req.GetUser() != "" && req.GetUser() != c.Name) {
		return nil, wire.Error(c.rights.Denied(c.needs(), catalog.Key{}))
	}
	cluster, err := optionalPath("cluster", req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	if req.GetEverybody() {
		return s.reviewAll(req, cluster)
	}
	who, err := s.reviewed(c, req)
	if err != nil {
		return nil, err
	}
	res, err := s.review(who, cluster, mayAsk, req.GetAttributes())
	if limit, _ := who.Limit(); err == nil && limit != nil {
		res.Reason += "; the API token gives no more than " + limit.String()
	}
	return res, err
}

// review returns what a person may do in a cluster, or in the hub itself for "". A cluster that does
// not exist is an error for callers that may ask about others.
func (s *Service) review(
	person fleet.Person, cluster string, mayAsk bool, attributes *fleetv1.AccessAttributes,
) (*fleetv1.ReviewAccessResponse, error) {
	who := person.Identity()
	if cluster == "" {
		return s.reviewHub(person, attributes)
	}
	access, ok := s.d.View.Accounts().Access(person, cluster)
	if !ok && mayAsk {
		return nil, wire.NotFound(catalog.Key{Kind: catalog.KindCluster, Name: cluster})
	}
	if attributes == nil {
		return reviewInGeneral(who.Name, access), nil
	}
	q, err := attributesOf(attributes)
	if err != nil {
		return nil, err
	}
	if q.APIGroup == authz.Group {
		if !ok {
			return reviewPermission(who.Name, nil, q), nil
		}
		object := authz.OfCluster(access.Cluster)
		object.Namespace = q.Namespace
		return reviewPermission(who.Name, access.Rights.Why(authz.PermissionOf(q), object), q), nil
	}
	return reviewRequest(who.Name, access, q), nil
}

// reviewHub returns what a person may do in the hub itself.
func (s *Service) reviewHub(person fleet.Person, attributes *fleetv1.AccessAttributes) (*fleetv1.ReviewAccessResponse, error) {
	who, rights := person.Identity(), s.d.View.Accounts().Rights(person)
	if attributes == nil {
		held := rights.Permissions(catalog.Permissions(), authz.Object{})
		res := &fleetv1.ReviewAccessResponse{
			Allowed: len(held) > 0, User: who.Name, Reasons: reasonMessages(rights.Grants()), Permissions: permissionMessages(held),
			Reason: "no binding gives " + who.Name + " the hub as a whole",
		}
		if res.GetAllowed() {
			res.Reason = "has permissions in the hub by " + namesOf(hubGrants(rights))
		}
		return res, nil
	}
	q, err := attributesOf(attributes)
	if err != nil {
		return nil, err
	}
	if q.APIGroup != authz.Group {
		return nil, rpcerr.Field("attributes.api_group", "must be "+authz.Group+" without a cluster: the hub has no other resources")
	}
	return reviewPermission(who.Name, rights.Why(authz.PermissionOf(q), authz.Object{}), q), nil
}

// hubGrants returns the grants that give anything in the hub as a whole.
func hubGrants(rights *authz.Rights) []authz.Grant {
	return slices.DeleteFunc(slices.Clone(rights.Grants()), func(g authz.Grant) bool {
		return !slices.ContainsFunc(catalog.Permissions(), func(p catalog.Permission) bool { return g.Allows(p, authz.Object{}) })
	})
}

// reviewPermission returns whether grants give a permission of the hub's own.
func reviewPermission(user string, why []authz.Grant, q accessrule.Request) *fleetv1.ReviewAccessResponse {
	res := &fleetv1.ReviewAccessResponse{Allowed: len(why) > 0, User: user, Reasons: reasonMessages(why)}
	p := authz.PermissionOf(q)
	switch {
	case res.GetAllowed():
		res.Reason = fmt.Sprintf("%s is allowed by %s", q, namesOf(why))
	case !slices.Contains(catalog.Permissions(), p):
		res.Reason = fmt.Sprintf("%s is not a permission; docs/guides/access.md lists them", q)
	default:
		res.Reason = fmt.Sprintf("no binding gives %s the permission %q there", user, p)
	}
	return res
}

func permissionMessages(held []catalog.Permission) []*optionsv1.Permission {
	return wire.Each(held, func(p catalog.Permission) *optionsv1.Permission {
		return &optionsv1.Permission{Verb: p.Verb, Resource: p.Resource}
	})
}

// reviewed is the person whom the question is about: the caller as their token lets them act, or
// another person with all rights of their bindings.
func (s *Service) reviewed(c *caller, req *fleetv1.ReviewAccessRequest) (fleet.Person, error) {
	if req.GetUser() == "" || req.GetUser() == c.Name {
		return c.person, nil
	}
	if user, ok := s.d.View.Accounts().User(req.GetUser()); ok {
		return fleet.Named(user.Name, user.Spec.Groups), nil
	}
	if len(req.GetGroups()) == 0 {
		return fleet.Person{}, rpcerr.Field("user", fmt.Sprintf("there is no user %q here; say the groups of one whom others sign in", req.GetUser()))
	}
	return fleet.Named(req.GetUser(), req.GetGroups()), nil
}

func (s *Service) reviewAll(req *fleetv1.ReviewAccessRequest, cluster string) (*fleetv1.ReviewAccessResponse, error) {
	if req.GetUser() != "" || req.GetAttributes() != nil {
		return nil, rpcerr.Field("everybody", "excludes user and attributes")
	}
	if cluster == "" {
		return nil, rpcerr.Field("cluster", "is required for everybody")
	}
	access, ok := s.d.View.Accounts().AccessOfAll(cluster)
	if !ok {
		return nil, wire.NotFound(catalog.Key{Kind: catalog.KindCluster, Name: cluster})
	}
	return &fleetv1.ReviewAccessResponse{Allowed: true, Reason: "these reach the cluster", Reasons: reasonMessages(access.Grants)}, nil
}

func reviewInGeneral(user string, access fleet.Access) *fleetv1.ReviewAccessResponse {
	res := &fleetv1.ReviewAccessResponse{
		Allowed: len(access.Grants) > 0, User: user, Groups: access.Groups(authz.Grant.IsUnconditional), Reasons: reasonMessages(access.Grants),
	}
	if access.Cluster != nil {
		res.Permissions = permissionMessages(access.Rights.Permissions(catalog.Permissions(), authz.OfCluster(access.Cluster)))
	}
	if res.Reason = "no binding lets " + user + " reach the cluster"; res.GetAllowed() {
		res.Reason = "reaches the cluster by " + namesOf(access.Grants)
	}
	return res
}

func reviewRequest(user string, access fleet.Access, q accessrule.Request) *fleetv1.ReviewAccessResponse {
	allows := func(r authz.Grant) bool { return r.Selects(q) }
	matching := slices.DeleteFunc(slices.Clone(access.Grants), func(r authz.Grant) bool { return !allows(r) })
	res := &fleetv1.ReviewAccessResponse{User: user, Groups: access.Groups(allows), Reasons: reasonMessages(matching)}
	switch {
	case len(matching) > 0:
		res.Allowed, res.Reason = true, fmt.Sprintf("%s is let through by %s", q, namesOf(matching))
	case len(access.Grants) == 0:
		res.Reason = "no binding lets " + user + " reach the cluster"
	case q.Open():
		res.Allowed, res.Reason = true, fmt.Sprintf("%s is let through for everybody who reaches the cluster", q)
	default:
		res.Reason = fmt.Sprintf("no rule of %s chooses %s", namesOf(access.Grants), q)
	}
	return res
}

func namesOf(reasons []authz.Grant) string {
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

func reasonMessages(reasons []authz.Grant) []*fleetv1.AccessReason {
	var messages []*fleetv1.AccessReason
	for _, r := range reasons {
		m := &fleetv1.AccessReason{
			Binding: r.Name(), Subjects: r.Subjects, Role: codec.RoleMessage(r.Role()), RoleName: string(r.Role()), Groups: r.Groups(),
			Rules: rulewire.Messages(r.Rules()), ExpireTime: catalogwire.Timestamp(r.Ends()),
		}
		messages = append(messages, m)
	}
	return messages
}
