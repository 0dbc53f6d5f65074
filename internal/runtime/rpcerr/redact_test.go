// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpcerr_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const leak = "dial tcp 10.1.2.3:6379: password=hunter2"

func logTo(out *bytes.Buffer) *slog.Logger { return slog.New(slog.NewJSONHandler(out, nil)) }

func TestRedactMapsByCode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err    error
		code   connect.Code
		reason errorsv1.Reason
	}{
		"malformed":     {connect.NewError(connect.CodeInvalidArgument, errors.New(leak)), connect.CodeInvalidArgument, errorsv1.Reason_REASON_FIELD_INVALID},
		"too large":     {connect.NewError(connect.CodeResourceExhausted, errors.New(leak)), connect.CodeResourceExhausted, errorsv1.Reason_REASON_MESSAGE_TOO_LARGE},
		"unimplemented": {connect.NewError(connect.CodeUnimplemented, errors.New(leak)), connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED},
		"unreachable":   {connect.NewError(connect.CodeUnavailable, errors.New(leak)), connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE},
		"own time limit, caller still waits": {
			fmt.Errorf("%s: %w", leak, context.DeadlineExceeded), connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
		},
		"connection timed out, caller still waits": {
			fmt.Errorf("%s: %w", leak, os.ErrDeadlineExceeded), connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
		},
		"canceled by ourselves": {fmt.Errorf("%s: %w", leak, context.Canceled), connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL},
		"plain":                 {errors.New(leak), connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL},
		"not found, no reason":  {connect.NewError(connect.CodeNotFound, errors.New(leak)), connect.CodeInternal, errorsv1.Reason_REASON_INTERNAL},
		"wrapped reason": {
			fmt.Errorf("%s: %w", leak, rpcerr.NotFound("cluster", "demo")), connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			got := rpcerr.Redact(t.Context(), logTo(&log), tt.err)
			if got.Code() != tt.code || rpcerr.ReasonOf(got) != tt.reason {
				t.Errorf("got %s with %s, want %s with %s", got.Code(), rpcerr.ReasonOf(got), tt.code, tt.reason)
			}
			if strings.Contains(got.Error(), "10.1.2.3") || strings.Contains(fmt.Sprint(rpcerr.Metadata(got)), "hunter2") {
				t.Errorf("got %v %v, want none of the cause in it", got, rpcerr.Metadata(got))
			}
		})
	}
}

// TestRefusedTokenIsTheHubsMatter answers the caller of a service whose own token another service has refused. The caller's
// token is good, so the answer is not that it has to renew it. A refusal that this service itself makes passes unchanged.
func TestRefusedTokenIsTheHubsMatter(t *testing.T) {
	t.Parallel()
	own := rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, "obtain a new one")
	peers := connect.NewWireError(connect.CodeUnauthenticated, errors.New("its clock differs"))
	for _, detail := range own.Details() {
		peers.AddDetail(detail)
	}
	for name, tt := range map[string]struct {
		err     error
		reason  errorsv1.Reason
		message string
	}{
		"ours":     {own, errorsv1.Reason_REASON_TOKEN_INVALID, "obtain a new one"},
		"a peer's": {fmt.Errorf("ask: %w", peers), errorsv1.Reason_REASON_HUB_TOKEN_REFUSED, "its clock differs"},
		"a proxy's": {
			connect.NewWireError(connect.CodeUnauthenticated, errors.New(leak)), errorsv1.Reason_REASON_HUB_TOKEN_REFUSED, "clocks of their machines",
		},
	} {
		var log bytes.Buffer
		got := rpcerr.Redact(t.Context(), logTo(&log), tt.err)
		if rpcerr.ReasonOf(got) != tt.reason || !strings.Contains(got.Message(), tt.message) || strings.Contains(got.Message(), leak) {
			t.Errorf("%s: got %v, want %v with %q", name, got, tt.reason, tt.message)
		}
		isHubs := tt.reason == errorsv1.Reason_REASON_HUB_TOKEN_REFUSED
		if _, ok := rpcerr.RetryDelay(got); ok != isHubs || isHubs != (got.Code() == connect.CodeUnavailable) || isHubs != strings.Contains(log.String(), `"ERROR"`) {
			t.Errorf("%s: got %v and the log %q", name, got, &log)
		}
	}
}

// TestRedactLetsNotModifiedPass requires that the answer to a conditional GET, which Connect
// represents as an error, keeps its headers.
func TestRedactLetsNotModifiedPass(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	answer := connect.NewNotModifiedError(http.Header{"Etag": {`"1"`}})
	got := rpcerr.Redact(t.Context(), logTo(&log), answer)
	if !connect.IsNotModifiedError(got) || got.Meta().Get("Etag") != `"1"` || log.Len() > 0 {
		t.Errorf("got %v with %v and the log %q, want the same answer and no log", got, got.Meta(), &log)
	}
}

func TestRedactOfNilIsNil(t *testing.T) {
	t.Parallel()
	if got := rpcerr.Redact(t.Context(), slog.New(slog.DiscardHandler), nil); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

func TestRedactLogsTheCauseOnceUnderTheID(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	got := rpcerr.Redact(t.Context(), logTo(&log), errors.New(leak))
	var line struct{ Level, Error, ErrorID string }
	var raw map[string]any
	if err := json.Unmarshal(log.Bytes(), &raw); err != nil {
		t.Fatalf("want one line of log, got %q: %v", log.String(), err)
	}
	line.Level, _ = raw["level"].(string)
	line.Error, _ = raw["error"].(string)
	line.ErrorID, _ = raw["error_id"].(string)
	if line.Level != "ERROR" || line.Error != leak || line.ErrorID == "" {
		t.Errorf("got %+v, want the cause at level error with an id", line)
	}
	if id := rpcerr.Metadata(got)["error_id"]; id != line.ErrorID {
		t.Errorf("error id: got %q, want %q as in the log", id, line.ErrorID)
	}
}

func TestRedactTellsTheCallersEndFromOurs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got := rpcerr.ReasonOf(rpcerr.Redact(gone, logger, gone.Err())); got != errorsv1.Reason_REASON_CANCELED {
			t.Errorf("caller gone: got %s", got)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-late.Done()
		for _, err := range []error{late.Err(), os.ErrDeadlineExceeded, context.Canceled} {
			if got := rpcerr.ReasonOf(rpcerr.Redact(late, logger, err)); got != errorsv1.Reason_REASON_DEADLINE_EXCEEDED {
				t.Errorf("caller's deadline passed, %v: got %s", err, got)
			}
		}
	})
}
