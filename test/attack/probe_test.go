// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// answerWithin is how long a normal request may take during an attack: a bound against hangs, not a
// goal.
const answerWithin = time.Minute

// ask makes one normal request, and returns an error if the answer is wrong.
type ask func(ctx context.Context) error

// normal returns the cheapest request of an authorized caller that passes through the whole
// service.
func (r *rig) normal(t *testing.T, s *server) ask {
	t.Helper()
	call := func(path, message, token string) ask {
		client := s.client()
		return func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(s.public, path), strings.NewReader(message))
			if err != nil {
				return err
			}
			request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
			return wantOK(client.Do(request))
		}
	}
	switch s.service {
	case "gitcache":
		return call("/leat.gitcache.v1.GitCacheService/ListRepositories", "{}", serviceToken(t, "distributor", "gitcache"))
	case "distributor":
		return call("/leat.fleet.v1.FleetService/List", `{"kind": "Cluster"}`, adminToken)
	case "tunnel":
		return call("/leat.tunnel.v1.TunnelService/ListSessions", "{}", r.personToken(t, adminToken, "tunnel"))
	}
	client := s.client()
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(s.internal, trivial), http.NoBody)
		if err != nil {
			return err
		}
		return wantOK(client.Do(request))
	}
}

// agentConnects returns the request with which an agent opens its tunnel.
func agentConnects(t *testing.T, r *rig, s *server) ask {
	t.Helper()
	token, client := r.agentToken(t, r.probe, "tunnel"), s.client()
	return func(ctx context.Context) error {
		wait(ctx, 250*time.Millisecond) // a cluster may open four connections a second
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.public+"/tunnel/v1/connect", http.NoBody)
		if err != nil {
			return err
		}
		request.Header = http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"leat-tunnel/1"}, "Leat-Connection-Id": {"normal"}, "Authorization": {"Bearer " + token},
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusSwitchingProtocols {
			return fmt.Errorf("the server answered %s", response.Status)
		}
		return nil
	}
}

func wantOK(response *http.Response, err error) error {
	if err := discard(response, err); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", response.Status)
	}
	return nil
}

// probes are normal requests, sent one after the other.
type probes struct {
	took   []time.Duration // durations of the answered requests, sorted
	failed int
	last   error
	cancel context.CancelFunc
	over   sync.WaitGroup
}

// begin sends the normal request repeatedly until stop is called.
func begin(ctx context.Context, normal ask) *probes {
	until, cancel := context.WithCancel(ctx)
	p := &probes{cancel: cancel}
	p.over.Go(func() {
		for until.Err() == nil {
			began := time.Now()
			if err := normal(ctx); err != nil {
				p.failed++
				p.last = err
			} else {
				p.took = append(p.took, time.Since(began))
			}
			wait(until, 50*time.Millisecond)
		}
	})
	return p
}

// stop sends no more requests, and waits for the answer to the last one: beside a short attack on a
// busy machine it may be the only one.
func (p *probes) stop() {
	p.cancel()
	p.over.Wait()
	slices.Sort(p.took)
}

// percentile returns the duration that the given percentage of the answers did not exceed. It is
// zero if there were no answers.
func (p *probes) percentile(percent int) time.Duration {
	if len(p.took) == 0 {
		return 0
	}
	return p.took[(len(p.took)-1)*percent/100]
}
