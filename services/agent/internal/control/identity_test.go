// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/control"
)

// tokenHub issues tokens as its hook decides.
type tokenHub struct {
	distributorv1connect.DistributorServiceClient

	asked  []time.Time
	give   func(n int) error
	tunnel string
}

func (h *tokenHub) Enroll(context.Context, *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	return &distributorv1.EnrollResponse{Cluster: "mill"}, nil
}

func (h *tokenHub) RefreshToken(context.Context, *distributorv1.RefreshTokenRequest) (*distributorv1.RefreshTokenResponse, error) {
	h.asked = append(h.asked, time.Now())
	if err := h.give(len(h.asked)); err != nil {
		return nil, err
	}
	return &distributorv1.RefreshTokenResponse{AccessToken: "t", ExpireTime: timestamppb.New(time.Now().Add(time.Hour)), TunnelUrl: h.tunnel}, nil
}

func openIdentity(t *testing.T, h *tokenHub) *control.Identity {
	t.Helper()
	identity, err := control.OpenIdentity(control.IdentityParams{
		Dir: t.TempDir(), JoinToken: "leatjoin_x", Hub: h, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// TestTheHubsPauseIsHeeded has a hub that asks to wait, while every part of the agent repeatedly
// asks for a token.
func TestTheHubsPauseIsHeeded(t *testing.T) {
	h := &tokenHub{give: func(n int) error {
		if n == 1 {
			return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, "wait", rpcerr.RetryAfter(20*time.Second))
		}
		return nil
	}}
	identity := openIdentity(t, h)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for time.Since(began) < 30*time.Second {
			_, err := identity.Token(t.Context())
			if waited := time.Since(began); err != nil && rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_RATE_LIMITED || waited > 26*time.Second && err != nil {
				t.Errorf("got %v after %s, want a token as soon as the hub may be asked", err, waited)
			}
			<-time.After(100 * time.Millisecond)
		}
		if len(h.asked) != 2 || h.asked[1].Sub(h.asked[0]) < 20*time.Second {
			t.Errorf("asked at %v, want twice, and not before the hub said", h.asked)
		}
	})
}

// TestRenewalsDriftApart renews the tokens of agents that received them at the same instant.
func TestRenewalsDriftApart(t *testing.T) {
	h := &tokenHub{give: func(int) error { return nil }}
	identity := openIdentity(t, h)
	synctest.Test(t, func(t *testing.T) {
		var spans []time.Duration
		for len(h.asked) < 30 {
			if _, err := identity.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		for i, at := range h.asked[1:] {
			spans = append(spans, at.Sub(h.asked[i]))
		}
		least, most := time.Hour, time.Duration(0)
		for _, span := range spans {
			least, most = min(least, span), max(most, span)
		}
		if least < 30*time.Minute || most > 50*time.Minute || most-least < 5*time.Minute {
			t.Errorf("renewed after %s to %s, want that spread around two thirds of an hour", least, most)
		}
	})
}

// TestRenewLearnsTheTunnelsAddress renews tokens that are good for most of an hour, at a hub with
// another tunnel. A hub that does not answer costs the agent nothing.
func TestRenewLearnsTheTunnelsAddress(t *testing.T) {
	var down error
	h := &tokenHub{give: func(int) error { return down }, tunnel: "https://old.test"}
	identity := openIdentity(t, h)
	if _, err := identity.Token(t.Context()); err != nil || identity.TunnelURL() != "https://old.test" {
		t.Fatalf("got %v and the tunnel %q", err, identity.TunnelURL())
	}
	h.tunnel = "https://new.test"
	if _, err := identity.Token(t.Context()); err != nil || identity.TunnelURL() != "https://old.test" {
		t.Fatalf("got %v and the tunnel %q, want the token that is still good", err, identity.TunnelURL())
	}
	down = connect.NewError(connect.CodeUnavailable, errors.New("the hub is away"))
	if err := identity.ForTunnel().Renew(t.Context()); err == nil {
		t.Error("got no error of a hub that is away")
	}
	if token, err := identity.Token(t.Context()); token != "t" || err != nil {
		t.Errorf("got %q, %v, want the token that the agent has", token, err)
	}
	down = nil
	if err := identity.ForTunnel().Renew(t.Context()); err != nil || identity.TunnelURL() != "https://new.test" {
		t.Errorf("got %v and the tunnel %q, want the new one", err, identity.TunnelURL())
	}
}
