// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"crypto/ed25519"
	"net/http"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

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

	if err := fleetcalls.Delete[*fleetv1.Cluster](t.Context(), admin, "one"); err != nil {
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
	for groups, want := range map[string]bool{"leat:admins": true, "other": false} {
		if res, err := check("user:ada", "", groups); err != nil || res.GetAllowed() != want || (res.GetUser() == "ada") != want {
			t.Errorf("the hub itself, as one of %s: got %v, %v, want allowed %t", groups, res, err, want)
		}
	}
}

func TestKeySetVerifiesAccessTokens(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	agent := h.enrol(t, "one")
	keys := identity.NewJWKS(identity.JWKSParams{Audience: identity.ServiceDistributor, URL: h.url + "/.well-known/jwks.json", HTTPClient: http.DefaultClient, Logger: telemetry.Noop().Logger()})
	id, err := keys.Verify(t.Context(), agent.token)
	if err != nil || id.Subject() != "cluster:one" {
		t.Errorf("got %v, %v, want cluster:one", id, err)
	}
}
