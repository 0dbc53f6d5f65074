// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// ErrStop ends Follow without an error when its function returns it.
var ErrStop = errors.New("stop watching")

// Follow calls see with every change of the watched objects, starting with the current objects.
// When the stream breaks it opens a new one, which starts with the current objects again, until ctx
// is done. It returns the cause when ctx is done, see's error unless that is ErrStop, and any
// answer of the hub that a retry would not change.
func (c *Client) Follow(ctx context.Context, what *fleetv1.WatchRequest, see func(*fleetv1.WatchResponse) error) error {
	failures := 0
	for {
		progress, err := c.watchOnce(ctx, what, see)
		switch {
		case errors.Is(err, ErrStop):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case progress && (c.params.Session != nil || c.params.Workload != nil) && connect.CodeOf(err) == connect.CodeUnauthenticated:
			continue // the access token has ended, and the next stream begins with a new one
		case !worthRetrying(err):
			return unwrapSeen(err)
		}
		if progress {
			failures = 0
		}
		if err := backoff.Wait(ctx, retryDelay(err, failures)); err != nil {
			return err
		}
		failures++
	}
}

// seenError marks an error that came from the caller's function.
type seenError struct{ error }

func unwrapSeen(err error) error {
	if seen, ok := errors.AsType[seenError](err); ok {
		return seen.error
	}
	return err
}

// watchOnce follows one stream to its end. progress reports whether anything arrived.
func (c *Client) watchOnce(ctx context.Context, what *fleetv1.WatchRequest, see func(*fleetv1.WatchResponse) error) (progress bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Watch(ctx, what)
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }() // cancelled, so it may return an error
	for stream.Receive() {
		progress = true
		if err := see(stream.Msg()); errors.Is(err, ErrStop) {
			return true, ErrStop
		} else if err != nil {
			return true, seenError{err}
		}
	}
	if err := stream.Err(); err != nil {
		return progress, err
	}
	return progress, io.EOF // the server has ended the stream because it restarts
}

// IsTransient reports whether err is an answer of the hub, or of the network, that a later call may not
// have.
func IsTransient(err error) bool {
	_, isAnswer := errors.AsType[*connect.Error](err)
	return isAnswer && worthRetrying(err)
}

func worthRetrying(err error) bool {
	if _, seen := errors.AsType[seenError](err); seen {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeUnimplemented, connect.CodeFailedPrecondition:
		return false
	default:
		return true
	}
}

func retryDelay(err error, failures int) time.Duration {
	wait := backoff.Default().Delay(failures)
	if hint, ok := rpcerr.RetryDelay(err); ok {
		wait = max(wait, hint)
	}
	return wait
}
