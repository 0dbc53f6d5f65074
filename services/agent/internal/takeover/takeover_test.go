// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/takeover"
)

// stage is a cluster in which an agent of version 1 leads, and one of version 2 wants to.
type stage struct {
	leader     takeover.Leader
	leaderErr  error
	rehearsal  reconcile.Rehearsal
	rehearsErr error
	agreesAt   time.Time // from when on rehearsals find nothing; zero: never
	renews     bool      // the leader renews its lease before each look
	looks      int
	warnings   []string
	candidate  *takeover.Candidate
}

func newStage() *stage {
	s := &stage{leader: takeover.Leader{Version: "1", Sign: "a"}}
	s.candidate = takeover.New(takeover.Params{
		Version: "2",
		Leader: func(context.Context) (takeover.Leader, error) {
			if s.renews {
				s.leader.Sign += "a"
			}
			return s.leader, s.leaderErr
		},
		Rehearse: func(context.Context) (reconcile.Rehearsal, error) {
			s.looks++
			if !s.agreesAt.IsZero() && !time.Now().Before(s.agreesAt) {
				return reconcile.Rehearsal{}, nil
			}
			return s.rehearsal, s.rehearsErr
		},
		Warn:   func(_ context.Context, message string) { s.warnings = append(s.warnings, message) },
		Logger: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)),
	})
	return s
}

func deviations(services ...string) reconcile.Rehearsal {
	r := reconcile.Rehearsal{Compared: len(services)}
	for _, s := range services {
		r.Deviations = append(r.Deviations, reconcile.Deviation{Service: s, Problem: &reason.Problem{Reason: reason.RenderLimit, Message: "the password is hunter2"}})
	}
	return r
}

// await lets the candidate look for so long, and returns whether it may take over then.
func (s *stage) await(t *testing.T, most time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	if err := s.candidate.Ready(ctx); err == nil {
		t.Error("it is ready before it has looked")
	}
	s.candidate.Await(ctx)
	synctest.Wait()
	return s.candidate.Ready(ctx) == nil
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, s *stage){
		"no agent has led": func(t *testing.T, s *stage) {
			s.leader = takeover.Leader{}
			if !s.await(t, time.Minute) || s.looks != 0 {
				t.Errorf("want it to take over at once, got %v after %d rehearsals", s.candidate.Ready(t.Context()), s.looks)
			}
		},
		"the leader is of the same version": func(t *testing.T, s *stage) {
			s.leader.Version, s.rehearsal = "2", deviations("web")
			if !s.await(t, time.Minute) || s.looks != 0 {
				t.Errorf("want it to take over at once, got %v after %d rehearsals", s.candidate.Ready(t.Context()), s.looks)
			}
		},
		"both agree": func(t *testing.T, s *stage) {
			s.rehearsal = reconcile.Rehearsal{Compared: 3}
			if !s.await(t, time.Minute) || s.looks != 1 || len(s.warnings) != 0 {
				t.Errorf("want it to take over after one rehearsal, got %v after %d", s.candidate.Ready(t.Context()), s.looks)
			}
		},
		"they agree later": func(t *testing.T, s *stage) {
			s.renews, s.rehearsal, s.agreesAt = true, deviations("web"), time.Now().Add(30*time.Minute)
			if !s.await(t, time.Hour) {
				t.Errorf("want it to take over, got %v", s.candidate.Ready(t.Context()))
			}
		},
		"they never agree while the leader works": func(t *testing.T, s *stage) {
			s.renews, s.rehearsal = true, deviations("a", "b", "c", "d")
			if s.await(t, 24*time.Hour) {
				t.Error("it takes over from an agent that works")
			}
			const want = "this version does not do what version 1 does: it would fail in service a (RENDER_LIMIT); " +
				"would fail in service b (RENDER_LIMIT); would fail in service c (RENDER_LIMIT); and 1 more"
			if len(s.warnings) != 1 || s.warnings[0] != want {
				t.Errorf("warnings: got %q, want %q once", s.warnings, want)
			}
			if s.looks < 24*60/7 || s.looks > 24*60/3 {
				t.Errorf("got %d rehearsals in a day, want one in about five minutes", s.looks)
			}
		},
		"they never agree, and nobody works": func(t *testing.T, s *stage) {
			s.rehearsal = deviations("web")
			began := time.Now()
			if !s.await(t, time.Hour) {
				t.Fatalf("it never takes over: %v", s.candidate.Ready(t.Context()))
			}
			if took := time.Since(began); took < takeover.Patience || took > takeover.Patience+time.Minute {
				t.Errorf("it took over after %s, want %s", took, takeover.Patience)
			}
		},
		"the API server does not answer": func(t *testing.T, s *stage) {
			s.leaderErr = errors.New("connection refused")
			if s.await(t, time.Hour) || len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "connection refused") {
				t.Errorf("want it to wait, and to say why once; got %q", s.warnings)
			}
		},
		"the hub does not answer": func(t *testing.T, s *stage) {
			s.renews, s.rehearsErr = true, errors.New("hub is unavailable")
			if s.await(t, time.Hour) || len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "hub is unavailable") {
				t.Errorf("want it to wait, and to say why once; got %q", s.warnings)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, newStage()) })
		})
	}
}
