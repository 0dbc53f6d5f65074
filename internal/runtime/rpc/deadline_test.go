// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
)

func TestHandlerEndsBeforeItsCaller(t *testing.T) {
	t.Parallel()
	for shape, call := range calls() {
		for wait, want := range map[time.Duration]time.Duration{
			time.Second: 950 * time.Millisecond, time.Minute: time.Minute - 250*time.Millisecond,
		} {
			t.Run(shape+" "+wait.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					stack := serveStack(t, both(func(ctx context.Context) error {
						<-ctx.Done()
						return ctx.Err()
					}))
					ctx, cancel := context.WithTimeout(t.Context(), wait)
					defer cancel()
					began := time.Now()
					err := call(ctx, stack.client(t, "good"))
					assertReason(t, err, connect.CodeDeadlineExceeded, errorsv1.Reason_REASON_DEADLINE_EXCEEDED)
					if took := time.Since(began); took < want-time.Millisecond || took > want {
						t.Errorf("took %s, want %s", took, want)
					}
					if err := stack.server.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				})
			})
		}
	}
}

func TestNoDeadlineIsInvented(t *testing.T) {
	t.Parallel()
	stack := started(t, both(func(ctx context.Context) error {
		if deadline, found := ctx.Deadline(); found {
			t.Errorf("got deadline %s, want none", deadline)
		}
		return nil
	}))
	for shape, call := range calls() {
		if err := call(t.Context(), stack.client(t, "good")); err != nil {
			t.Errorf("%s: got %v", shape, err)
		}
	}
}

func TestOwnTimeLimitIsNotTheCallersFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack := serveStack(t, both(func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assertReason(t, unary(ctx, stack.client(t, "good")), connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE)
		if err := stack.server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
