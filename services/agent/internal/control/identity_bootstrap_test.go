// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/control"
)

// bootstrapHub enrols agents as its hook decides.
type bootstrapHub struct {
	tokenHub

	enrolments []*distributorv1.EnrollRequest
	answer     error
}

func (h *bootstrapHub) Enroll(_ context.Context, r *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	h.enrolments = append(h.enrolments, r)
	if h.answer != nil {
		return nil, h.answer
	}
	return &distributorv1.EnrollResponse{Cluster: "shop.edge-1"}, nil
}

func newBootstrapHub() *bootstrapHub {
	return &bootstrapHub{tokenHub: tokenHub{give: func(int) error { return nil }}}
}

// TestBootstrapTokensAreSentWithTheCluster expects the name and the uid of the cluster with a bootstrap
// token, in each attempt with the same key, and neither with a join token.
func TestBootstrapTokensAreSentWithTheCluster(t *testing.T) {
	t.Parallel()
	away := errors.New("the API server is away")
	h, uidErr := newBootstrapHub(), away
	open := func(token string) *control.Identity {
		identity, err := control.OpenIdentity(control.IdentityParams{
			Dir: t.TempDir(), JoinToken: token, ClusterName: "edge-1", Hub: h, Logger: slog.New(slog.DiscardHandler),
			KubernetesUID: func(context.Context) (string, error) { return "uid-of-kube-system", uidErr },
		})
		if err != nil {
			t.Fatal(err)
		}
		return identity
	}
	i := open("leatboot_x")
	if _, err := i.Token(t.Context()); !errors.Is(err, away) || len(h.enrolments) != 0 {
		t.Errorf("got %v and %d enrolments, want none without the uid", err, len(h.enrolments))
	}
	uidErr, h.answer = nil, connect.NewError(connect.CodeUnavailable, errors.New("the answer is lost"))
	if _, err := i.Token(t.Context()); err == nil {
		t.Error("got a token without an answer")
	}
	h.answer = nil
	if _, err := i.Token(t.Context()); err != nil || i.Cluster() != "shop.edge-1" {
		t.Errorf("got %v and the cluster %q", err, i.Cluster())
	}
	if len(h.enrolments) != 2 || !bytes.Equal(h.enrolments[0].GetPublicKey(), h.enrolments[1].GetPublicKey()) {
		t.Fatalf("got %v, want two with one key", h.enrolments)
	}
	for _, r := range h.enrolments {
		if r.GetJoinToken() != "leatboot_x" || r.GetClusterName() != "edge-1" || r.GetKubernetesUid() != "uid-of-kube-system" {
			t.Errorf("got %v", r)
		}
	}
	if _, err := open("leatjoin_x").Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := h.enrolments[2]; r.GetClusterName() != "" || r.GetKubernetesUid() != "" {
		t.Errorf("got %v, want nothing of the cluster with a join token", r)
	}
}

// TestBootstrapRefusalsWaitForAPerson has the hub refuse the agent for each reason that a person can
// remove: the agent logs it once, asks once a minute, and enrols as soon as the reason is gone.
func TestBootstrapRefusalsWaitForAPerson(t *testing.T) {
	for _, why := range []errorsv1.Reason{
		errorsv1.Reason_REASON_JOIN_TOKEN_INVALID, errorsv1.Reason_REASON_BOOTSTRAP_TOKEN_SPENT, errorsv1.Reason_REASON_CLUSTER_NAME_REFUSED,
		errorsv1.Reason_REASON_CLUSTER_NAME_TAKEN, errorsv1.Reason_REASON_CLUSTER_ENROLLED,
	} {
		t.Run(why.String(), func(t *testing.T) {
			h, log := newBootstrapHub(), new(bytes.Buffer)
			h.answer = rpcerr.New(connect.CodeFailedPrecondition, why, "what to do")
			i, err := control.OpenIdentity(control.IdentityParams{
				Dir: t.TempDir(), JoinToken: "leatboot_x", Hub: h, Logger: slog.New(slog.NewTextHandler(log, nil)),
				KubernetesUID: func(context.Context) (string, error) { return "uid", nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				for range 100 {
					if _, err := i.Token(t.Context()); rpcerr.ReasonOf(err) != why {
						t.Fatalf("got %v, want the hub's reason", err)
					}
					<-time.After(time.Second) // virtual
				}
				if n := len(h.enrolments); n != 2 {
					t.Errorf("the agent asked %d times in 100 seconds, want 2", n)
				}
				if text := log.String(); strings.Count(text, "hub does not accept this agent") != 1 || !strings.Contains(text, "what to do") {
					t.Errorf("got the log %s, want it once, with what to do", text)
				}
				h.answer = nil
				<-time.After(time.Minute) // virtual
				if _, err := i.Token(t.Context()); err != nil || i.Cluster() != "shop.edge-1" {
					t.Errorf("got %v and the cluster %q", err, i.Cluster())
				}
			})
		})
	}
}
