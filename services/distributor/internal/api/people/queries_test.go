// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// TestSecQueriesOfOnePersonAreBounded: a person whose queries took too long, with whatever tokens, is
// refused with what to do, and others are not.
func TestSecQueriesOfOnePersonAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewQueries(QueriesDeps{People: &Service{}})
		eve := &caller{Identity: identity.Identity{Kind: identity.KindUser, Name: "eve"}}
		ada := &caller{Identity: identity.Identity{Kind: identity.KindUser, Name: "ada"}}
		var ends []func()
		for range queriesAtOnce {
			end, err := s.begin(t.Context(), eve)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		waits, cancel := context.WithCancel(t.Context())
		for range queriesWaiting {
			go func() { _, _ = s.begin(waits, eve) }()
		}
		synctest.Wait()
		_, err := s.begin(t.Context(), eve)
		refused(t, err, "wait for their answers")
		cancel()
		synctest.Wait()

		time.Sleep(queryBurst/queriesAtOnce + 2*time.Second)
		for _, end := range ends {
			end()
		}
		_, err = s.begin(t.Context(), eve)
		refused(t, err, "narrow them by a project")
		end, err := s.begin(t.Context(), ada)
		if err != nil {
			t.Fatalf("another person: %v", err)
		}
		end()
	})
}

func refused(t *testing.T, err error, advice string) {
	t.Helper()
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || e.Code() != connect.CodeResourceExhausted || rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_RATE_LIMITED || !strings.Contains(err.Error(), advice) {
		t.Errorf("got %v, want RATE_LIMITED with %q", err, advice)
	}
}
