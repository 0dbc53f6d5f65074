// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/agent/internal/carrier"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// movingHub is a hub whose tunnel no longer answers at the address that the agent knows.
type movingHub struct {
	mu      sync.Mutex
	known   string // what the agent knows
	address string // what the hub returns with a token
	isAway  bool
	asked   []time.Time
	dialled map[string]time.Time // when an address was dialled first
}

func (h *movingHub) url() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known
}

// renew answers a request for tokens.
func (h *movingHub) renew() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, time.Now())
	if h.isAway {
		return errors.New("the hub is away")
	}
	h.known = h.address
	return nil
}

func (h *movingHub) move(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.address, h.isAway = address, false
}

func (h *movingHub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func (h *movingHub) wasDialled(address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.dialled[address].IsZero()
}

// run runs an agent that reaches no tunnel until stop is called.
func (h *movingHub) run(t *testing.T) (stop func()) {
	t.Helper()
	h.dialled = map[string]time.Time{}
	agent, err := uplink.New(uplink.Params{
		URL: h.url, Tokens: &fakeTokens{renew: h.renew}, Handler: http.NotFoundHandler(), Logger: slog.New(slog.DiscardHandler),
		Transports: []carrier.Transport{carrier.Upgrade}, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.dialled[address].IsZero() {
				h.dialled[address] = time.Now()
			}
			return nil, errors.New("nothing listens there")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = agent.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// TestAgentLearnsTheTunnelsNewAddress moves a tunnel while the agent's tokens are good for most of
// an hour. The agent asks the hub for the address, and dials it, within ten minutes even if the hub
// was away at first. It asks neither in a short outage nor often in a long one.
func TestAgentLearnsTheTunnelsNewAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &movingHub{known: "http://old.test", address: "http://new.test"}
		stop := hub.run(t)
		<-time.After(10 * time.Second)
		if n := hub.count(); n > 0 {
			t.Errorf("got %d requests within 10s, want none in a short outage", n)
		}
		<-time.After(90 * time.Second)
		if !hub.wasDialled("new.test:80") {
			t.Errorf("got %v dialled after 100s, want the new address", hub.dialled)
		}
		stop()
	})
	synctest.Test(t, func(t *testing.T) {
		hub := &movingHub{known: "http://old.test", isAway: true}
		stop := hub.run(t)
		<-time.After(time.Hour)
		if n := hub.count(); n < 6 || n > 25 {
			t.Errorf("got %d requests in an hour, want about one in 5 minutes", n)
		}
		hub.move("http://new.test")
		<-time.After(10 * time.Minute)
		if !hub.wasDialled("new.test:80") {
			t.Errorf("got %v dialled 10 minutes after the hub is back, want the new address", hub.dialled)
		}
		stop()
	})
}
