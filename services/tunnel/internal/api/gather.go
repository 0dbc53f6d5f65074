// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
)

const (
	// askTimeout is how long another replica may take. Replicas are near one another.
	askTimeout = 5 * time.Second
	// askedAtOnce is how many replicas are asked at the same time.
	askedAtOnce = 16
)

// Peer is another live replica.
type Peer struct {
	Replica string
	Client  tunnelv1connect.TunnelServiceClient
}

// Peers returns the other live replicas. It may be called concurrently.
type Peers func(ctx context.Context) ([]Peer, error)

// Alone is a replica without others.
func Alone(context.Context) ([]Peer, error) { return nil, nil }

// others returns the peers, and who is missing.
func (s *Service) others(ctx context.Context) ([]Peer, []string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	peers, err := s.deps.Peers(ctx)
	if err != nil {
		return nil, []string{""}
	}
	return peers, nil
}

// part is the answer of one replica.
type part[T any] struct {
	items []T
	more  bool
}

// gather adds the other replicas' answers to a part, and names the replicas that do not answer in
// time. The result has the order of the replicas.
func gather[T any](ctx context.Context, s *Service, own part[T], ask func(context.Context, Peer) (part[T], error)) (all part[T], unanswered []string) {
	peers, unanswered := s.others(ctx)
	parts, errs := make([]part[T], len(peers)), make([]error, len(peers))
	var asking sync.WaitGroup
	free := make(chan struct{}, askedAtOnce)
	for i, peer := range peers {
		asking.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			parts[i], errs[i] = ask(ctx, peer)
		})
	}
	asking.Wait()
	all = part[T]{items: slices.Clone(own.items), more: own.more}
	for i, p := range parts {
		if errs[i] != nil {
			unanswered = append(unanswered, peers[i].Replica)
			continue
		}
		all.items, all.more = append(all.items, p.items...), all.more || p.more
	}
	return all, unanswered
}
