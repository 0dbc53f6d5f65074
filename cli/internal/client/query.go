// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
)

// MaxWindow is the largest window of a query.
const MaxWindow = 500

// Query returns the documents of everything that a query selects, window after window. One that changes
// its place meanwhile is returned once.
func (c *Client) Query(ctx context.Context, query *fleetv1.FleetQuery) ([]*fleetv1.Document, error) {
	var found []*fleetv1.Document
	seen := map[string]struct{}{}
	next := proto.CloneOf(query)
	for next.Size = MaxWindow; ; next.Offset += MaxWindow {
		response, err := c.Queries.QueryFleet(ctx, &fleetv1.QueryFleetRequest{Query: next, Documents: true})
		if err != nil {
			return nil, err
		}
		for _, row := range response.GetRows() {
			if _, ok := seen[row.GetRef()]; !ok {
				seen[row.GetRef()] = struct{}{}
				found = append(found, row.GetDocument())
			}
		}
		if len(response.GetRows()) < MaxWindow {
			return found, nil
		}
	}
}

// Arrival returns how long a commit took to arrive at the services that a query selects. It is nil from hubs
// that do not measure it.
func (c *Client) Arrival(ctx context.Context, query *fleetv1.FleetQuery, commit string) (*fleetv1.CommitArrival, error) {
	asked := proto.CloneOf(query)
	asked.ArrivalOf, asked.Size = commit, 1
	response, err := c.Queries.QueryFleet(ctx, &fleetv1.QueryFleetRequest{Query: asked})
	return response.GetArrival(), err
}

// WatchQuery calls see with every change of a query's window, starting with the window itself, as Watch
// does. It returns nil when ctx is cancelled.
func (c *Client) WatchQuery(ctx context.Context, query *fleetv1.FleetQuery, see func(*fleetv1.WatchQueryResponse) error) error {
	failures := 0
	for {
		hasProgress, err := c.watchQueryOnce(ctx, query, see)
		switch {
		case errors.Is(context.Cause(ctx), context.Canceled):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case hasProgress && (c.params.Session != nil || c.params.Workload != nil) && connect.CodeOf(err) == connect.CodeUnauthenticated:
			continue // the access token has ended, and the next stream begins with a new one
		case !worthRetrying(err):
			return unwrapSeen(err)
		}
		if hasProgress {
			failures = 0
		}
		if err := backoff.Wait(ctx, retryDelay(err, failures)); err != nil {
			return err
		}
		failures++
	}
}

// watchQueryOnce follows one stream to its end. hasProgress reports whether anything arrived.
func (c *Client) watchQueryOnce(ctx context.Context, query *fleetv1.FleetQuery, see func(*fleetv1.WatchQueryResponse) error) (hasProgress bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Queries.WatchQuery(ctx, &fleetv1.WatchQueryRequest{Query: query, Documents: true})
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }() // cancelled, so it may return an error
	for stream.Receive() {
		hasProgress = true
		if err := see(stream.Msg()); err != nil {
			return true, seenError{err}
		}
	}
	if err := stream.Err(); err != nil {
		return hasProgress, err
	}
	return hasProgress, io.EOF // the server has ended the stream because it restarts
}
