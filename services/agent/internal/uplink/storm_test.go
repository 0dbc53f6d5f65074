// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/carrier"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// TestF21AgentsBackOffWithFullJitter takes the hub away from many agents at once, for four minutes.
// The waits of an agent are distributed evenly between zero and 0.5 s, 1 s, 2 s and so on up to 30
// s. Over all agents the mean is half of the maximum, ±10 %, and no tenth of the range has less
// than half of its share, or more than twice as much. At first at most half of the agents arrive
// within the same 100 ms, and after a minute at most an eighth within the same second.
func TestF21AgentsBackOffWithFullJitter(t *testing.T) {
	t.Parallel()
	agents := 1000
	if os.Getenv("LEAT_FAULT_LONG") == "1" {
		agents = 5000
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		attempts := withoutHub(t, agents, 4*time.Minute, func() error { return errors.New("there is no hub") })
		bound := 500 * time.Millisecond
		for k := range 12 {
			sum, tenths := time.Duration(0), [11]int{}
			for i, times := range attempts {
				wait := times[k+1].Sub(times[k]) - attemptTime
				if wait < 0 || wait > bound {
					t.Fatalf("agent %d: got a wait of %v after attempt %d, want at most %v", i, wait, k, bound)
				}
				sum += wait
				tenths[wait*10/bound]++
			}
			if mean := sum / time.Duration(agents); mean < bound*45/100 || mean > bound*55/100 {
				t.Errorf("after attempt %d: got a mean wait of %v, want half of %v", k, mean, bound)
			}
			for tenth, n := range tenths[:10] {
				if n < agents/20 || n > agents/5 {
					t.Errorf("after attempt %d: got %d of %d waits in tenth %d of %v, want about as many as in each", k, n, agents, tenth, bound)
				}
			}
			bound = min(2*bound, 30*time.Second)
		}
		soon, later := map[time.Duration]int{}, map[time.Duration]int{}
		for _, times := range attempts {
			for _, at := range times[1:] { // all of them lose the hub at once
				if since := at.Sub(began); since < time.Minute {
					soon[since.Truncate(100*time.Millisecond)]++
				} else {
					later[since.Truncate(time.Second)]++
				}
			}
		}
		for since, n := range soon {
			if n > agents/2 {
				t.Errorf("got %d of %d agents within 100 ms, %v after the loss, want at most half", n, agents, since)
			}
		}
		for since, n := range later {
			if n > agents/8 {
				t.Errorf("got %d of %d agents in a second, %v after the loss, want at most an eighth", n, agents, since)
			}
		}
	})
}

// TestF20AgentsComeWhenTheyAreTold has a hub that asks each agent to return at another time. No
// agent arrives before that, or more than a quarter later.
func TestF20AgentsComeWhenTheyAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, told := range []time.Duration{time.Second, 4 * time.Second, 11 * time.Second, 2 * time.Minute} {
			attempts := withoutHub(t, 50, 10*told, func() error {
				return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, "too many", rpcerr.RetryAfter(told))
			})
			for i, times := range attempts {
				if len(times) < 8 {
					t.Errorf("agent %d: got %d attempts within ten times %v, want 8 or more", i, len(times), told)
				}
				for k := range len(times) - 1 {
					if wait := times[k+1].Sub(times[k]) - attemptTime; wait < told || wait > told*5/4 {
						t.Fatalf("agent %d: got a wait of %v after attempt %d, want %v and at most a quarter more", i, wait, k, told)
					}
				}
			}
		}
	})
}

// TestF21LongConnectionEndsTheBackOff has a hub that repeatedly hangs up after 10 s: the pauses of
// agents grow as if they had reached no hub. After connections of more than a minute, agents
// reconnect at once.
func TestF21LongConnectionEndsTheBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const agents, short = 50, 6
		var mu sync.Mutex
		waits := make([][]time.Duration, short+1) // after each connection, of all agents
		ctx, stop := context.WithCancel(t.Context())
		var running, done sync.WaitGroup
		for range agents {
			count, ended := 0, time.Time{}
			done.Add(1)
			runAgent(t, ctx, &running, uplink.Params{
				Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
				Dial: func(context.Context, string, string) (net.Conn, error) {
					mu.Lock()
					defer mu.Unlock()
					if count > 0 {
						waits[count-1] = append(waits[count-1], time.Since(ended))
					}
					count++
					here, there := net.Pipe()
					lives := 10 * time.Second
					if count > short {
						lives = 61 * time.Second
					}
					running.Go(func() {
						holdAgent(t, ctx, there, lives)
						mu.Lock()
						defer mu.Unlock()
						ended = time.Now()
					})
					if count == short+2 {
						done.Done()
					}
					return here, nil
				},
			})
		}
		done.Wait()
		stop()
		running.Wait()
		bound := 500 * time.Millisecond
		for i, of := range waits {
			if i == short {
				bound = 500 * time.Millisecond
			}
			if longest := slices.Max(of); len(of) < agents || longest > bound || longest < bound/2 {
				t.Errorf("after connection %d: got waits of up to %v of %d agents, want up to %v of %d", i, longest, len(of), bound, agents)
			}
			bound = min(2*bound, 30*time.Second)
		}
	})
}

// holdAgent is the hub's side of a connection that it ends after a while.
func holdAgent(t *testing.T, ctx context.Context, conn net.Conn, lives time.Duration) {
	t.Helper()
	defer func() { _ = conn.Close() }()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n\r\n"); err != nil {
		return
	}
	hub := (&replica{t: t, conns: make(chan *hubConn, 1)}).use(conn, nil, "upgrade")
	if hub == nil {
		return
	}
	_, _ = hub.link.Attach(ctx, &tunnelv1.AttachRequest{Replica: "r", Replicas: 1, HeartbeatInterval: durationpb.New(time.Hour)})
	select {
	case <-time.After(lives):
	case <-ctx.Done():
	}
}

// attemptTime is the duration of an attempt that reaches no hub.
const attemptTime = time.Millisecond

// withoutHub runs agents that cannot reach their hub for a while, each time with this error, and
// returns after each of them has tried.
func withoutHub(t *testing.T, agents int, during time.Duration, refuse func() error) [][]time.Time {
	t.Helper()
	attempts := make([][]time.Time, agents)
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	var running sync.WaitGroup
	for i := range attempts {
		runAgent(t, ctx, &running, uplink.Params{Proxy: func(*http.Request) (*url.URL, error) { // it is asked first, and nothing is dialled when it fails
			attempts[i] = append(attempts[i], time.Now())
			<-time.After(attemptTime)
			return nil, refuse()
		}})
	}
	running.Wait()
	return attempts
}

// runAgent runs an agent with one transport.
func runAgent(t *testing.T, ctx context.Context, running *sync.WaitGroup, p uplink.Params) {
	t.Helper()
	p.URL, p.Tokens, p.Handler, p.Logger = fixed("http://hub.test"), &fakeTokens{}, http.NotFoundHandler(), slog.New(slog.DiscardHandler)
	p.Transports = []carrier.Transport{carrier.Upgrade}
	agent, err := uplink.New(p)
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = agent.Run(ctx) })
}
