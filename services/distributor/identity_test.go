// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/telemetry"
)

// TestIdentitiesAndCalls is the table of who may call what.
func TestIdentitiesAndCalls(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, clusterDocument("two"))
	one, two := h.enrol(t, "one"), h.enrol(t, "two")
	h.watchPlan(t, one.token, "").nextWith(t, content.snapshot.GetDigest())
	access, err := h.fleet(t, adminToken).CreateAccessToken(t.Context(), &fleetv1.CreateAccessTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	foreignKey := identity.NewIssuer(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	foreign, _, err := foreignKey.Issue(identity.Identity{Kind: identity.KindUser, Name: "eve", Groups: []string{"leat:admins"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	callers := map[string]string{
		"nobody": "", "wrong API token": "leat_wrong-token-of-this-test", "foreign JWT": foreign,
		"admin": adminToken, "admin JWT": access.GetAccessToken(), "agent": one.token, "other agent": two.token, "service": serviceToken(t),
	}
	calls := map[string]func(ctx context.Context, token string) error{
		"ListServices": func(ctx context.Context, token string) error {
			_, err := h.fleet(t, token).ListServices(ctx, &fleetv1.ListServicesRequest{})
			return err
		},
		"Apply": func(ctx context.Context, token string) error {
			_, err := h.fleet(t, token).Apply(ctx, &fleetv1.ApplyRequest{})
			return err
		},
		"CreateJoinToken": func(ctx context.Context, token string) error {
			_, err := h.fleet(t, token).CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
			return err
		},
		"CreateAccessToken": func(ctx context.Context, token string) error {
			_, err := h.fleet(t, token).CreateAccessToken(ctx, &fleetv1.CreateAccessTokenRequest{})
			return err
		},
		"WatchFleet": func(ctx context.Context, token string) error {
			stream, err := h.fleet(t, token).WatchFleet(ctx, &fleetv1.WatchFleetRequest{})
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			if stream.Receive() {
				return nil
			}
			return stream.Err()
		},
		"GetPlan": func(ctx context.Context, token string) error {
			_, err := h.agents(t, token).GetPlan(ctx, &distributorv1.GetPlanRequest{})
			return err
		},
		"WatchPlan": func(ctx context.Context, token string) error {
			stream, err := h.agents(t, token).WatchPlan(ctx, &distributorv1.WatchPlanRequest{})
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			if stream.Receive() {
				return nil
			}
			return stream.Err()
		},
		"GetServiceConfig": func(ctx context.Context, token string) error {
			_, err := h.agents(t, token).GetServiceConfig(ctx, &distributorv1.GetServiceConfigRequest{Service: "app"})
			return err
		},
		"ReportStatus": func(ctx context.Context, token string) error {
			_, err := h.agents(t, token).ReportStatus(ctx, &distributorv1.ReportStatusRequest{Instance: "i", Sequence: 1})
			return err
		},
		"CheckAccess": func(ctx context.Context, token string) error {
			_, err := h.access(t, token).CheckAccess(ctx, &distributorv1.CheckAccessRequest{Subject: "user:admin", Cluster: "one"})
			return err
		},
		"GET bundle": func(_ context.Context, token string) error {
			res, body := h.download(t, token, content.snapshot.GetDigest(), nil)
			res.Body = io.NopCloser(bytes.NewReader(body))
			return rpcerr.FromHTTP(res)
		},
	}
	const ok, invalid, denied = "UNSPECIFIED", "TOKEN_INVALID", "ACCESS_DENIED"
	people := map[string]string{"admin": ok, "admin JWT": ok}
	agents := map[string]string{"agent": ok, "other agent": ok}
	allowed := map[string]map[string]string{
		"ListServices": people, "Apply": people, "CreateJoinToken": people, "WatchFleet": people,
		"CreateAccessToken": {"admin": ok},
		"GetPlan":           agents, "WatchPlan": agents, "ReportStatus": agents,
		"GetServiceConfig": {"agent": ok, "other agent": "NOT_FOUND"},
		"GET bundle":       {"agent": ok, "other agent": "BUNDLE_NOT_FOUND"},
		"CheckAccess":      {"service": ok},
	}
	for name, call := range calls {
		for caller, token := range callers {
			want, listed := allowed[name][caller]
			switch {
			case listed:
			case caller == "nobody" || caller == "wrong API token" || caller == "foreign JWT":
				want = invalid
			default:
				want = denied
			}
			t.Run(name+" by "+caller, func(t *testing.T) { wantReason(t, call(t.Context(), token), want) })
		}
	}
}

func TestAnAgentsIdentityEndsAtOnce(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	admin := h.fleet(t, adminToken)
	getPlan := func(token string) error {
		_, err := h.agents(t, token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
		return err
	}
	first := h.enrol(t, "one")
	stream := h.watchPlan(t, first.token, "")
	stream.next(t)
	if _, err := admin.RevokeCluster(t.Context(), &fleetv1.RevokeClusterRequest{Cluster: "one"}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, getPlan(first.token), "TOKEN_INVALID")
	wantReason(t, stream.end(), "TOKEN_INVALID")
	assertion, err := identity.SignAssertion(first.key, "one")
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.agents(t, "").RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	wantReason(t, err, "CLUSTER_KEY_REJECTED")

	second := h.enrol(t, "one")
	wantReason(t, getPlan(second.token), "UNSPECIFIED")
	wantReason(t, getPlan(first.token), "TOKEN_INVALID")

	if _, err := admin.DeleteCluster(t.Context(), &fleetv1.DeleteClusterRequest{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, getPlan(second.token), "TOKEN_INVALID")
	h.apply(t, clusterDocument("one"))
	wantReason(t, getPlan(second.token), "TOKEN_INVALID")
}

func TestEnrolmentRefuses(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	agents := h.agents(t, "")
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	join, err := h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "one"})
	if err != nil {
		t.Fatal(err)
	}
	enrol := func(token string, key []byte) error {
		_, err := agents.Enroll(t.Context(), &distributorv1.EnrollRequest{JoinToken: token, PublicKey: key})
		return err
	}
	wantReason(t, enrol("", public), "FIELD_INVALID")
	wantReason(t, enrol(join.GetJoinToken(), public[:31]), "FIELD_INVALID")
	wantReason(t, enrol("leatjoin_unknown", public), "JOIN_TOKEN_INVALID")
	wantReason(t, enrol(join.GetJoinToken(), public), "UNSPECIFIED")
	wantReason(t, enrol(join.GetJoinToken(), bytes.Repeat([]byte{1}, 32)), "JOIN_TOKEN_INVALID")

	assertion, err := identity.SignAssertion(key, "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"UNSPECIFIED", "CLUSTER_KEY_REJECTED"} { // the second is a replay
		_, err = agents.RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
		wantReason(t, err, want)
	}
	_, err = agents.RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{Assertion: "nonsense"})
	wantReason(t, err, "CLUSTER_KEY_REJECTED")
	_, err = agents.RefreshToken(t.Context(), &distributorv1.RefreshTokenRequest{})
	wantReason(t, err, "FIELD_INVALID")
	_, err = h.fleet(t, adminToken).CreateJoinToken(t.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "none"})
	wantReason(t, err, "NOT_FOUND")
}

func TestCheckAccess(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	client := h.access(t, serviceToken(t))
	check := func(subject, cluster string, groups ...string) (*distributorv1.CheckAccessResponse, error) {
		return client.CheckAccess(t.Context(), &distributorv1.CheckAccessRequest{Subject: subject, Cluster: cluster, Groups: groups})
	}
	res, err := check("user:ada", "one", "leat:admins", "other")
	if err != nil || !res.GetAllowed() || res.GetUser() != "ada" || len(res.GetGroups()) != 1 || res.GetGroups()[0] != "leat:admins" || res.GetClusterUid() == "" {
		t.Errorf("got %v, %v, want allowed as ada of leat:admins", res, err)
	}
	if got := res.GetMaxAge().AsDuration(); got != 30*time.Second {
		t.Errorf("got max age %s, want 30s", got)
	}
	for _, refused := range [][]string{{"user:ada", "one", "other"}, {"user:ada", "none", "leat:admins"}} {
		if res, err := check(refused[0], refused[1], refused[2]); err != nil || res.GetAllowed() || res.GetUser() != "" {
			t.Errorf("%v: got %v, %v, want not allowed", refused, res, err)
		}
	}
	_, err = check("cluster:one", "one")
	wantReason(t, err, "FIELD_INVALID")
	_, err = check("user:ada", "")
	wantReason(t, err, "FIELD_INVALID")
}

func TestKeySetVerifiesAccessTokens(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	agent := h.enrol(t, "one")
	keys := identity.NewJWKS(identity.JWKSParams{URL: h.url + "/.well-known/jwks.json", HTTPClient: http.DefaultClient, Logger: telemetry.Noop().Logger()})
	id, err := keys.Verify(t.Context(), agent.token)
	if err != nil || id.Subject() != "cluster:one" {
		t.Errorf("got %v, %v, want cluster:one", id, err)
	}
}
