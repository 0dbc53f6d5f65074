// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/contract/accessrule/rulewire"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// accessMaxAge is for how long a decision may be kept.
const accessMaxAge = 30 * time.Second

// CheckAccess implements AccessService.
func (s *Access) CheckAccess(ctx context.Context, req *distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
	if err := checkTunnel(ctx); err != nil {
		return nil, err
	}
	kind, name, err := identity.ParseSubject(req.GetSubject())
	if err != nil || kind != identity.KindUser {
		return nil, rpcerr.Field("subject", "must be user:NAME")
	}
	id := identity.Identity{
		Kind: kind, Name: name, UID: req.GetSubjectUid(), Groups: req.GetGroups(), Credential: req.GetCredential(),
	}
	person, ok, err := s.view.AdmitPerson(ctx, id)
	if err != nil {
		return nil, wire.Error(err)
	}
	if !ok {
		return &distributorv1.CheckAccessResponse{MaxAge: durationpb.New(accessMaxAge)}, nil
	}
	s.uses.Note(person.Identity(), "")
	if req.GetCluster() == "" {
		return atHub(person.Identity(), s.view.Accounts().Rights(person)), nil
	}
	access, ok := s.view.Accounts().Access(person, req.GetCluster())
	res := decision(person.Identity(), access)
	if ok {
		res.Permissions = permissions(access.Rights, authz.OfCluster(access.Cluster), agentv1.File_leat_agent_v1_agent_proto)
	}
	return res, nil
}

// permissions returns the permissions for calls of the services in a file that the person has for
// everything in the object.
func permissions(rights *authz.Rights, object authz.Object, file protoreflect.FileDescriptor) []*optionsv1.Permission {
	var held []*optionsv1.Permission
	for i := range file.Services().Len() {
		methods := file.Services().Get(i).Methods()
		for j := range methods.Len() {
			access, _ := permission.Of(methods.Get(j))
			p := catalog.Permission{Verb: access.Verb, Resource: access.Resource}
			if p.Verb != "" && rights.Allows(p, object) {
				held = append(held, &optionsv1.Permission{Verb: p.Verb, Resource: p.Resource})
			}
		}
	}
	return held
}

// atHub returns the decision about a person's access to the tunnel's own calls.
func atHub(id identity.Identity, rights *authz.Rights) *distributorv1.CheckAccessResponse {
	res := &distributorv1.CheckAccessResponse{
		MaxAge: durationpb.New(accessMaxAge), Permissions: permissions(rights, authz.Object{}, tunnelv1.File_leat_tunnel_v1_tunnel_proto),
	}
	if len(res.GetPermissions()) > 0 {
		res.Allowed, res.User, res.Uid = true, id.Name, id.UID
	}
	return res
}

// Attributes that a person has in a cluster beside name, uid and groups.
const (
	extraCluster  = "leat.dev/cluster"
	extraGroups   = "leat.dev/groups"
	extraBindings = "leat.dev/bindings"
)

// decision is the answer about a person. Narrowed permissions are apart from the others, so that a
// role never counts for more than the rules that it came with.
func decision(id identity.Identity, access fleet.Access) *distributorv1.CheckAccessResponse {
	res := &distributorv1.CheckAccessResponse{MaxAge: durationpb.New(accessMaxAge)}
	if !access.Until.IsZero() {
		res.MaxAge = durationpb.New(min(accessMaxAge, max(time.Until(access.Until), time.Millisecond)))
	}
	if len(access.Grants) == 0 {
		return res
	}
	res.Allowed, res.User, res.Uid = true, id.Name, id.UID
	res.Groups = access.Groups(authz.Grant.IsUnconditional)
	// The same uid as in the agent's token: a tunnel that was opened before a revocation is not the
	// cluster's any more.
	res.ClusterUid = admission.IdentityUID(access.Cluster.UID, access.Cluster.Agent.KeyGeneration)
	res.Narrowed = true
	var bindings []string
	for _, reason := range access.Grants {
		switch {
		case len(reason.Rules()) > 0:
			res.Grants = append(res.Grants, &distributorv1.NarrowedGrant{
				Binding: reason.Name(), Groups: reason.Groups(), Rules: rulewire.Messages(reason.Rules()),
			})
			continue
		case reason.Binding != nil:
			bindings = append(bindings, reason.Name())
		}
		res.Narrowed = false
	}
	for _, extra := range []*distributorv1.ExtraAttribute{
		{Key: extraBindings, Values: bindings}, {Key: extraCluster, Values: []string{access.Cluster.Name}}, {Key: extraGroups, Values: id.Groups},
	} {
		if len(extra.GetValues()) > 0 {
			res.Extra = append(res.Extra, extra)
		}
	}
	return res
}

// JWKSPattern is where KeySet is mounted.
const JWKSPattern = "GET /.well-known/jwks.json"

// KeySet returns the handler of the keys that access tokens verify with. It is open to everybody.
func KeySet(issuer *identity.Issuer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys, err := issuer.JWKS()
		if err != nil {
			rpcerr.WriteHTTP(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write(keys) // the caller has gone when this fails
	})
}
