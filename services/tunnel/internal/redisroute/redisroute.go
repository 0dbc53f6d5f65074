// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package redisroute keeps the routes to agents in Redis.
//
// A hash per cluster holds its routes, a sorted set the replicas by the time until which each
// counts as alive. Every call is one script and goes by the server's clock, so that replicas need
// not agree on the time. Routes of a dead replica are dropped by the next replica that comes across
// them.
package redisroute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/runtime/redisconn"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Prefix begins every key. Its braces put all of them into one slot of a Redis cluster, because
// scripts touch several.
const Prefix = "leat:{tunnel}:"

// heardAtOnce is how many announcements may wait to be heard.
const heardAtOnce = 1000

// Store is a store of routes in Redis.
type Store struct {
	client  redis.UniversalClient
	ages    Ages
	signer  *seal.Signer
	publish *redis.Script
	renew   *redis.Script
	lookup  *redis.Script
	list    *redis.Script
}

var _ relay.Store = (*Store)(nil)

// Ages are how long Redis keeps what it is not told again. Both must be positive.
type Ages struct {
	// Route is the age of a route, and Liveness the age of a replica.
	Route    time.Duration
	Liveness time.Duration
}

// Open returns a store for the replicas that have the secret, in the Redis at url. caFile is as for
// [redisconn.Open]. Open does not connect yet. The caller closes the store.
func Open(url, caFile string, secret []byte, accepted ...[]byte) (*Store, error) {
	client, err := redisconn.Open(url, caFile)
	if err != nil {
		return nil, err
	}
	store, err := New(client, Ages{Route: relay.RouteAge, Liveness: relay.LivenessAge}, secret, accepted...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return store, nil
}

// New returns a store in a Redis. It closes the client when it is closed. It believes the rows of
// replicas that have the secret or one of the accepted ones.
func New(client redis.UniversalClient, ages Ages, secret []byte, accepted ...[]byte) (*Store, error) {
	signer, err := seal.NewSigner(secret, "tunnel route", accepted...)
	if err != nil {
		return nil, fmt.Errorf("open store of routes: %w", err)
	}
	return &Store{
		client: client, ages: ages, signer: signer,
		publish: redis.NewScript(publishLua), renew: redis.NewScript(renewLua),
		lookup: redis.NewScript(lookupLua), list: redis.NewScript(listLua),
	}, nil
}

// Ping returns an error if Redis does not answer.
func (s *Store) Ping(ctx context.Context) error { return s.client.Ping(ctx).Err() }

// place returns a replica's URL in the form stored in Redis: its signature, and the URL.
func (s *Store) place(replica relay.Replica) string {
	return s.signer.Sign("replica", replica.ID, replica.URL) + " " + replica.URL
}

// replica parses what place returned. It reports false if the signature was not made with the
// secret.
func (s *Store) replica(id, place string) (relay.Replica, bool) {
	signature, url, _ := strings.Cut(place, " ")
	return relay.Replica{ID: id, URL: url}, s.signer.Verify(signature, "replica", id, url)
}

// sign returns the signature of a route, which binds the connection to its replica. Epochs are
// assigned by Redis and are not signed.
func (s *Store) sign(a announcement) string {
	return s.signer.Sign("route", a.ID, a.Cluster, a.UID, a.Connection, a.Replica)
}

// route parses an announcement. It reports false if the signatures were not made with the secret.
func (s *Store) route(a announcement, epoch uint64) (relay.Route, bool) {
	replica, genuine := s.replica(a.Replica, a.URL)
	if !genuine || !s.signer.Verify(a.Signature, "route", a.ID, a.Cluster, a.UID, a.Connection, a.Replica) {
		return relay.Route{}, false
	}
	return relay.Route{
		ID: a.ID, Cluster: a.Cluster, ClusterUID: a.UID, Connection: a.Connection, Replica: replica, Epoch: epoch,
	}, true
}

// Close closes the connections to Redis.
func (s *Store) Close() error { return s.client.Close() }

// details holds the parts of a route that the scripts need not know.
type details struct {
	UID        string `json:"uid"`
	Connection string `json:"connection"`
	Signature  string `json:"signature"`
}

// announcement is a new route as others receive it, without its epoch.
type announcement struct {
	details

	ID      string `json:"id"`
	Cluster string `json:"cluster"`
	Replica string `json:"replica"`
	// URL is the replica's place, see [Store.place].
	URL string `json:"url"`
}

// Publish implements [relay.Store].
func (s *Store) Publish(ctx context.Context, routes []relay.Route) ([]uint64, error) {
	args := make([]any, 0, 3+6*len(routes))
	args = append(args, Prefix, s.ages.Route.Milliseconds(), channel)
	for _, route := range routes {
		a := announcement{
			details: details{UID: route.ClusterUID, Connection: route.Connection},
			ID:      route.ID, Cluster: route.Cluster, Replica: route.Replica.ID, URL: s.place(route.Replica),
		}
		a.Signature = s.sign(a)
		kept, err := json.Marshal(a.details)
		if err != nil {
			return nil, fmt.Errorf("publish routes: %w", err)
		}
		told, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("publish routes: %w", err)
		}
		args = append(args, route.Cluster, route.ID, strconv.FormatUint(route.Epoch, 10), route.Replica.ID, kept, told)
	}
	digits, err := s.publish.Run(ctx, s.client, []string{replicasKey}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("publish routes: %w", err)
	}
	epochs := make([]uint64, len(digits))
	for i, d := range digits {
		if epochs[i], err = strconv.ParseUint(d, 10, 64); err != nil {
			return nil, fmt.Errorf("publish routes: %w", err)
		}
	}
	if len(epochs) != len(routes) {
		return nil, fmt.Errorf("publish routes: got %d epochs for %d routes", len(epochs), len(routes))
	}
	return epochs, nil
}

// Withdraw implements [relay.Store].
func (s *Store) Withdraw(ctx context.Context, routes []relay.Route) error {
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, route := range routes {
			p.HDel(ctx, routesKey(route.Cluster), route.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("withdraw routes: %w", err)
	}
	return nil
}

// Renew implements [relay.Store].
func (s *Store) Renew(ctx context.Context, replica relay.Replica) (bool, error) {
	kept, err := s.renew.Run(ctx, s.client, []string{replicasKey, urlsKey},
		replica.ID, s.place(replica), s.ages.Liveness.Milliseconds()).Bool()
	if err != nil {
		return false, fmt.Errorf("renew replica: %w", err)
	}
	return kept, nil
}

// Leave implements [relay.Store].
func (s *Store) Leave(ctx context.Context, replica relay.Replica) error {
	_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRem(ctx, replicasKey, replica.ID)
		p.HDel(ctx, urlsKey, replica.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove replica: %w", err)
	}
	return nil
}

// Lookup implements [relay.Store].
func (s *Store) Lookup(ctx context.Context, cluster string) ([]relay.Route, error) {
	fields, err := s.lookup.Run(ctx, s.client, []string{replicasKey, urlsKey, routesKey(cluster)}).StringSlice()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("look up routes: %w", err)
	}
	var routes []relay.Route
	for ; len(fields) >= 5; fields = fields[5:] {
		epoch, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read route: %w", err)
		}
		a := announcement{ID: fields[0], Cluster: cluster, Replica: fields[2], URL: withoutServer(fields[3])}
		if err := json.Unmarshal([]byte(fields[4]), &a.details); err != nil {
			return nil, fmt.Errorf("read route: %w", err)
		}
		if route, genuine := s.route(a, epoch); genuine {
			routes = append(routes, route)
		}
	}
	return relay.NewestFirst(routes), nil
}

// Replicas implements [relay.Store].
func (s *Store) Replicas(ctx context.Context) ([]relay.Replica, error) {
	fields, err := s.list.Run(ctx, s.client, []string{replicasKey, urlsKey}).StringSlice()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("list replicas: %w", err)
	}
	var replicas []relay.Replica
	for ; len(fields) >= 2; fields = fields[2:] {
		if replica, genuine := s.replica(fields[0], withoutServer(fields[1])); genuine {
			replicas = append(replicas, replica)
		}
	}
	return replicas, nil
}

// withoutServer returns a replica's place without the server that is stored with it.
func withoutServer(value string) string {
	_, place, _ := strings.Cut(value, " ")
	return place
}

// Subscribe implements [relay.Store]. The client connects again by itself.
func (s *Store) Subscribe(ctx context.Context, heard func(relay.Route)) error {
	subscription := s.client.Subscribe(ctx, channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel(redis.WithChannelSize(heardAtOnce))
	for {
		select {
		case <-ctx.Done():
			return nil
		case message, ok := <-messages:
			if !ok {
				return errors.New("hear of routes: the subscription ended")
			}
			if route, ok := s.parse(message.Payload); ok {
				heard(route)
			}
		}
	}
}

// parse reads an announcement: the epoch, and the rest. Replicas of other versions may send forms
// that this one cannot read.
func (s *Store) parse(payload string) (relay.Route, bool) {
	digits, rest, _ := strings.Cut(payload, " ")
	epoch, err := strconv.ParseUint(digits, 10, 64)
	var a announcement
	if err != nil || json.Unmarshal([]byte(rest), &a) != nil {
		return relay.Route{}, false
	}
	return s.route(a, epoch)
}
