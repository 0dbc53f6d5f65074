// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/leatdev/leat/bench/internal/process"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

// side is one path to the API server.
type side struct {
	*bench

	// name is "leat", or the name of a peer or limit.
	name string
	// url leads to the API server.
	url   string
	token string
	// others returns the token of another person, if persons have limits. Nil: persons are not
	// distinguished.
	others func(b *testing.B) string
	// hub and agent are the processes in between; nil if there are none.
	hub, agent *process.Process
	// getsOnly is set if bulk transfers are not measured.
	getsOnly bool
}

// sides starts Leat and its peers in front of one API server. Leat comes first, and the peer for
// its ratio second.
func (s *bench) sides(b *testing.B, rtt time.Duration) []*side {
	b.Helper()
	api := s.apiServer(b)
	all := []*side{s.leat(b, api, rtt)}
	for _, name := range list(*peers) {
		switch name {
		case "two-proxies":
			all = append(all, s.twoProxies(b, name, api, "h2", rtt))
		case "two-proxies-http1":
			all = append(all, s.twoProxies(b, name, api, "http1", rtt))
		case "one-proxy":
			agent, address := s.part(b, "proxy", s.certFile, s.keyFile, "https://"+s.link(b, api, rtt), "h2")
			all = append(all, &side{bench: s, name: "limit=one-proxy", url: "https://" + address, hub: agent})
		case "unrecorded": // peers have no audit log
			unrecorded := s.leat(b, api, rtt, "LEAT_TUNNEL_AUDIT_OUTPUT=none")
			unrecorded.name, unrecorded.getsOnly = "limit=unrecorded", true
			all = append(all, unrecorded)
		case "direct":
			all = append(all, &side{bench: s, name: "limit=direct", url: "https://" + s.link(b, api, rtt)})
		case "remotedialer":
			all = append(all, s.remotedialer(b, name, api, "http1", rtt))
		case "remotedialer-h2":
			all = append(all, s.remotedialer(b, name, api, "h2", rtt))
		default:
			b.Fatalf("-tunnel.peers: no peer is called %q", name)
		}
	}
	for _, other := range all {
		other.await(b)
	}
	return all
}

// twoProxies is the limit of a hub and an agent that both speak HTTP: the same number of hops,
// without a tunnel. inner is the HTTP version behind the first proxy.
func (s *bench) twoProxies(b *testing.B, name, api, inner string, rtt time.Duration) *side {
	b.Helper()
	agent, behind := s.part(b, "proxy", s.certFile, s.keyFile, "https://"+api, inner)
	hub, front := s.part(b, "proxy", s.certFile, s.keyFile, "https://"+s.link(b, behind, rtt), inner)
	return &side{bench: s, name: "peer=" + name, url: "https://" + front, hub: hub, agent: agent}
}

// remotedialer is Rancher's tunnel, whose agent forwards bytes: HTTP and TLS of the API server end
// in the hub. An inner HTTP/2 connection deadlocks in a large answer: an end that pauses its peer
// cannot write either, HTTP/2 cannot continue to read before it has written, and only reading ends
// the pause.
func (s *bench) remotedialer(b *testing.B, name, api, inner string, rtt time.Duration) *side {
	b.Helper()
	binary := s.binary(b, "remotedialer", func() string { return process.BuildPeer(s.owner, "../../tools/peers/remotedialer") })
	address := loopback.Addr(b)
	hub := process.Start(b, process.Params{
		Binary: binary, Args: []string{"hub", address, s.certFile, s.keyFile, "https://" + api, inner},
	})
	awaitAddress(b, address)
	agent := process.Start(b, process.Params{Binary: binary, Args: []string{"agent", s.link(b, address, rtt), s.certFile}})
	return &side{bench: s, name: "peer=" + name, url: "https://" + address, hub: hub, agent: agent, getsOnly: inner == "h2"}
}

// cpu returns the CPU time that hub and agent have used.
func (s *side) cpu(b *testing.B) (hub, agent time.Duration) {
	b.Helper()
	return s.hub.CPU(b), s.agent.CPU(b)
}

// get sends a request and reads the whole answer, into buffer if it is not nil.
func get(ctx context.Context, client *http.Client, url, token string, buffer []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	authorize(request, token)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{response.Body}, buffer)
	return response.StatusCode, err
}

func authorize(request *http.Request, token string) {
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
}

// unexpected returns the error for a failed request or an unexpected status.
func unexpected(status int, err error) error {
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("got status %d, want 200", status)
	}
	return nil
}
