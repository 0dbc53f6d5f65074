// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/admission"
)

// accessMaxAge is for how long a decision may be kept.
const accessMaxAge = 30 * time.Second

// CheckAccess implements AccessService.
func (s *Access) CheckAccess(ctx context.Context, req *distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
	if err := service(ctx); err != nil {
		return nil, err
	}
	kind, name, err := identity.ParseSubject(req.GetSubject())
	if err != nil || kind != identity.KindUser {
		return nil, rpcerr.Field("subject", "must be user:NAME")
	}
	if req.GetCluster() == "" {
		return nil, rpcerr.Field("cluster", "is required")
	}
	res := &distributorv1.CheckAccessResponse{MaxAge: durationpb.New(accessMaxAge)}
	cluster, ok := s.d.View.Cluster(req.GetCluster())
	if !ok || !slices.Contains(req.GetGroups(), admission.AdminGroup) {
		return res, nil
	}
	res.Allowed = true
	res.User = name
	res.Groups = []string{admission.AdminGroup}
	// The same uid as in the agent's token: a tunnel that was opened before a revocation is not the cluster's any more.
	res.ClusterUid = admission.IdentityUID(cluster.UID, cluster.Agent.KeyGeneration)
	return res, nil
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
