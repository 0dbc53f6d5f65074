// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpcerr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

func TestEveryReasonRoundTrips(t *testing.T) {
	t.Parallel()
	for number, name := range errorsv1.Reason_name {
		reason := errorsv1.Reason(number)
		if reason == errorsv1.Reason_REASON_UNSPECIFIED {
			continue // never sent
		}
		err := fmt.Errorf("wrapped: %w", rpcerr.New(connect.CodeAborted, reason, "message"))
		if got := rpcerr.ReasonOf(err); got != reason {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestNewCarriesEverything(t *testing.T) {
	t.Parallel()
	err := rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, "the upstream is down",
		rpcerr.With("repository", "demo"), rpcerr.RetryAfter(1500*time.Millisecond))
	if err.Code() != connect.CodeUnavailable || rpcerr.Message(err) != "the upstream is down" {
		t.Errorf("got %s %q, want unavailable and the message", err.Code(), rpcerr.Message(err))
	}
	if diff := cmp.Diff(map[string]string{"repository": "demo"}, rpcerr.Metadata(err)); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if delay, found := rpcerr.RetryDelay(err); delay != 1500*time.Millisecond || !found {
		t.Errorf("retry delay: got %s, %t, want 1.5s", delay, found)
	}
	if !rpcerr.HasReason(err) {
		t.Error("HasReason: got false")
	}
	value, valueErr := err.Details()[0].Value()
	info, _ := value.(*errdetails.ErrorInfo)
	if valueErr != nil || info.GetReason() != "UPSTREAM_UNREACHABLE" || info.GetDomain() != "leat.dev" {
		t.Errorf("got detail %v, %v, want the reason without its prefix and the domain leat.dev", value, valueErr)
	}
}

func TestShortForms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err      *connect.Error
		code     connect.Code
		reason   errorsv1.Reason
		message  string
		metadata map[string]string
	}{
		{
			rpcerr.Field("spec.url", "want https://"), connect.CodeInvalidArgument, errorsv1.Reason_REASON_FIELD_INVALID,
			"spec.url: want https://",
			map[string]string{"field": "spec.url"},
		},
		{
			rpcerr.NotFound("cluster", "demo"), connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND,
			`cluster "demo" does not exist`,
			map[string]string{"kind": "cluster", "name": "demo"},
		},
	}
	for _, tt := range tests {
		if tt.err.Code() != tt.code || rpcerr.ReasonOf(tt.err) != tt.reason || tt.err.Message() != tt.message {
			t.Errorf("got %v with %s, want %s %q with %s", tt.err, rpcerr.ReasonOf(tt.err), tt.code, tt.message, tt.reason)
		}
		if diff := cmp.Diff(tt.metadata, rpcerr.Metadata(tt.err)); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
	}
}

func TestReasonOfErrorsWithoutOne(t *testing.T) {
	t.Parallel()
	foreign, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "NOT_FOUND", Domain: "example.com"})
	if err != nil {
		t.Fatalf("make detail: %v", err)
	}
	otherDomain := connect.NewError(connect.CodePermissionDenied, errors.New("no"))
	otherDomain.AddDetail(foreign)
	newer, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: "INVENTED_LATER", Domain: rpcerr.Domain})
	if err != nil {
		t.Fatalf("make detail: %v", err)
	}
	unknownReason := connect.NewError(connect.CodeAborted, errors.New("no"))
	unknownReason.AddDetail(newer)
	tests := map[string]struct {
		err  error
		want errorsv1.Reason
	}{
		"nil":               {nil, errorsv1.Reason_REASON_UNSPECIFIED},
		"plain":             {errors.New("x"), errorsv1.Reason_REASON_INTERNAL},
		"context canceled":  {fmt.Errorf("x: %w", context.Canceled), errorsv1.Reason_REASON_CANCELED},
		"context deadline":  {context.DeadlineExceeded, errorsv1.Reason_REASON_DEADLINE_EXCEEDED},
		"canceled":          {connect.NewError(connect.CodeCanceled, nil), errorsv1.Reason_REASON_CANCELED},
		"deadline":          {connect.NewError(connect.CodeDeadlineExceeded, nil), errorsv1.Reason_REASON_DEADLINE_EXCEEDED},
		"invalid":           {connect.NewError(connect.CodeInvalidArgument, nil), errorsv1.Reason_REASON_FIELD_INVALID},
		"unauthenticated":   {connect.NewError(connect.CodeUnauthenticated, nil), errorsv1.Reason_REASON_TOKEN_INVALID},
		"denied":            {otherDomain, errorsv1.Reason_REASON_ACCESS_DENIED},
		"exhausted":         {connect.NewError(connect.CodeResourceExhausted, nil), errorsv1.Reason_REASON_MESSAGE_TOO_LARGE},
		"unavailable":       {connect.NewError(connect.CodeUnavailable, nil), errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE},
		"unimplemented":     {connect.NewError(connect.CodeUnimplemented, nil), errorsv1.Reason_REASON_UNIMPLEMENTED},
		"data loss":         {connect.NewError(connect.CodeDataLoss, nil), errorsv1.Reason_REASON_INTERNAL},
		"a reason we don't": {unknownReason, errorsv1.Reason_REASON_INTERNAL},
	}
	for name, tt := range tests {
		if got := rpcerr.ReasonOf(tt.err); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
	if _, found := rpcerr.RetryDelay(errors.New("x")); found {
		t.Error("retry delay of a plain error: got one")
	}
	if got := rpcerr.Message(errors.New("x")); got != "x" {
		t.Errorf("message of a plain error: got %q, want its text", got)
	}
	if got := rpcerr.Message(nil) + fmt.Sprint(len(rpcerr.Metadata(nil))); got != "0" {
		t.Errorf("nil: got %q, want no message and no metadata", got)
	}
}

func TestDetailThatCannotBeEncodedIsDropped(t *testing.T) {
	t.Parallel()
	err := rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND, "gone", rpcerr.With("path", "\xff"))
	if err.Code() != connect.CodeNotFound || err.Message() != "gone" {
		t.Errorf("got %v, want code and message kept", err)
	}
}
