// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"context"
	"slices"
	"testing"
	"time"
)

// attack is one way to harm a server. It has no credentials unless asAgent is set.
type attack struct {
	name  string // without a slash, so that -run can select it
	sends string // for readers of the table
	ports ports
	// only lists the attacked programs. Empty: all four, and the peer.
	only []string
	// asAgent gives the attack an agent's token, and the token of a user with access to its
	// cluster.
	asAgent bool
	// secure attacks only the servers with TLS.
	secure bool
	// absolute means that net/http is not comparable, because its handler lacks the attacked feature.
	// Only the service's limit applies.
	absolute bool
	// conns is how many connections or requests an attack holds at once at each port.
	conns int
	// megabytes bounds the bytes sent to each port in the short form. The long form may send the same
	// amount again every lasts.
	megabytes int64
	// lasts is how long the short form takes. Zero: 300 ms.
	lasts time.Duration
	// probe returns the normal request that is sent beside this attack. Nil: the request of
	// [rig.normal].
	probe func(t *testing.T, r *rig, s *server) ask
	// during requires that more than half of the normal requests are answered during the attack,
	// and not only after it.
	during bool
	// run attacks until ctx ends.
	run func(ctx context.Context, v *victim)
}

// ports lists the attacked ports.
type ports int

const (
	public ports = 1 << iota
	internal
	both = public | internal
)

// attacks returns all known attacks.
func attacks() []attack {
	return slices.Concat(bombAttacks(), bodyAttacks(), frameAttacks(), readerAttacks(), connectionAttacks(), gateAttacks(), hostileAttacks())
}

// bombAttacks are small messages that inflate to large ones.
func bombAttacks() []attack {
	return []attack{
		{
			name: "gzip bombs, health", sends: "512 MiB of zeros in 500 KB, as messages of grpc.health.v1", absolute: true,
			ports: both, conns: 3, megabytes: 64, run: bombProcedures(healthProcedures),
		},
		{
			name: "gzip bombs, reflection", sends: "the same, as messages of the reflection service's streams", absolute: true,
			ports: both, conns: 3, megabytes: 64, run: bombProcedures(reflectionProcedures),
		},
		{
			name: "gzip bombs, Connect", sends: "the same, as messages of every procedure and of every stream", absolute: true,
			ports: both, conns: 3, megabytes: 64, run: bombProcedures(ownProcedures),
		},
		{
			name: "gzip bombs, GET", sends: "40 MiB of zeros in the URL of every procedure", absolute: true,
			ports: both, conns: 8, megabytes: 64, run: bombGET,
		},
	}
}

// bodyAttacks are uploads without a token.
func bodyAttacks() []attack {
	return []attack{
		{
			name: "unfinished bodies, HTTP1", sends: "uploads of 8 MiB to every procedure, all but their ends",
			ports: both, conns: 80, megabytes: 640, lasts: 3 * time.Second, run: unfinished(false),
		},
		{
			name: "unfinished bodies, HTTP2", sends: "the same, as streams",
			ports: both, conns: 80, megabytes: 640, lasts: 3 * time.Second, run: unfinished(true),
		},
		{
			name: "unread refusals", sends: "uploads of 512 KiB, with no window for an answer",
			ports: both, conns: 12, megabytes: 640, lasts: 3 * time.Second, run: unreadRefusals,
		},
		{
			name: "unread refusals, person", sends: "the same, with a person's token", only: []string{"tunnel"}, asAgent: true, absolute: true,
			ports: public, conns: 12, megabytes: 800, lasts: 3 * time.Second, run: unreadRefusals,
		},
		{
			name: "slow bodies, HTTP1", sends: "uploads of a byte a second",
			ports: both, conns: 300, megabytes: 1, run: dripped(false),
		},
		{
			name: "slow bodies, HTTP2", sends: "the same, as streams",
			ports: both, conns: 1500, megabytes: 1, run: dripped(true),
		},
		{
			name: "webhooks", sends: "deliveries of 5 MiB with made-up signatures, all but their ends", only: []string{"gitcache"},
			ports: public, conns: 200, megabytes: 1100, lasts: 4 * time.Second, run: webhooks,
		},
	}
}

// frameAttacks are HTTP/2 frames that cost more to receive than to send.
func frameAttacks() []attack {
	return []attack{
		{name: "rapid reset", sends: "requests, each reset at once", ports: both, conns: 2, megabytes: 32, run: rapidReset},
		{name: "made you reset", sends: "requests, each made to be reset", ports: both, conns: 2, megabytes: 32, run: madeYouReset},
		{name: "CONTINUATION, 1,000 B", sends: "a head without an end, in fragments", ports: both, conns: 2, megabytes: 32, run: continuation(1000)},
		{name: "CONTINUATION, 9 B", sends: "the same, in fragments of a field", ports: both, conns: 2, megabytes: 32, run: continuation(9)},
		{name: "CONTINUATION, empty", sends: "the same, in empty fragments", ports: both, conns: 2, megabytes: 32, run: continuation(0)},
		{name: "PING", sends: "PINGs, whose answers are read", ports: both, conns: 2, megabytes: 32, run: pings},
		{name: "PING, unread", sends: "PINGs, whose answers are not read", ports: both, conns: 2, megabytes: 32, run: pingsUnread},
		{name: "SETTINGS", sends: "SETTINGS, each to be acknowledged", ports: both, conns: 2, megabytes: 32, run: settings},
		{name: "HPACK references", sends: "heads of 15 KB that become 60 MB", ports: both, conns: 2, megabytes: 32, run: hpackReferences},
		{name: "huge heads", sends: "heads of many megabytes, over HTTP/1.1 and HTTP/2", ports: both, conns: 4, megabytes: 64, run: hugeHeads},
	}
}

// readerAttacks request much data and read little.
func readerAttacks() []attack {
	return []attack{
		{name: "zero windows", sends: "1,000 requests a connection, with no window for an answer", ports: both, conns: 3, megabytes: 4, run: zeroWindow},
		{name: "many at once", sends: "the same, on many connections", ports: both, conns: 120, megabytes: 64, lasts: 4 * time.Second, run: zeroWindow},
		{
			name: "zero windows, person", sends: "1,000 requests a connection with a person's token, on more connections", only: []string{"tunnel"}, asAgent: true,
			absolute: true, ports: public, conns: 30, megabytes: 64, lasts: 3 * time.Second, run: zeroWindow,
		},
		{
			name: "slow readers, heads", sends: "HEAD requests whose answers are large heads, read at 2 KB/s", ports: both, conns: 1, megabytes: 3,
			lasts: 5 * time.Second, run: slowHeads,
		},
		{name: "slow readers, metrics", sends: "1,000 requests for /metrics a connection, read at 2 KB/s", ports: both, conns: 3, megabytes: 4, run: slowBodies("/metrics")},
		{name: "slow readers, redirects", sends: "the same, for redirects of 4 KB", ports: both, conns: 3, megabytes: 4, run: slowBodies(redirected)},
		{
			name: "slow readers, jwks.json", sends: "the same, for the keys of tokens", ports: public, only: []string{"distributor"}, conns: 3, megabytes: 4,
			run: slowBodies("/.well-known/jwks.json"),
		},
		{name: "endless streams", sends: "1,000 Health/Watch a connection", ports: both, conns: 3, megabytes: 4, run: endless},
	}
}

// connectionAttacks open many connections.
func connectionAttacks() []attack {
	return []attack{
		{name: "connections", sends: "nothing, on many connections from one address", ports: both, conns: 1500, megabytes: 1, run: connections},
		{name: "coming and going", sends: "nothing, on connections that are closed at once", ports: both, conns: 8, megabytes: 1, run: comings},
		{name: "idle connections", sends: "the preface of HTTP/2, and nothing else", ports: both, conns: 1000, megabytes: 4, run: idle},
		{name: "idle heads", sends: "the preface, and the head of a frame of HEADERS", ports: both, conns: 1000, megabytes: 4, run: idleHeads},
		{name: "slowloris", sends: "heads of HTTP/1.1, a line at a time", ports: both, conns: 1000, megabytes: 4, run: slowloris},
		{name: "unfinished upgrades", sends: "requests for WebSockets that do not end, or do not go on", ports: public, conns: 200, megabytes: 4, run: upgrades},
		{name: "TLS handshakes", sends: "handshakes, again and again", secure: true, ports: public, conns: 8, megabytes: 32, run: handshakes},
		{name: "TLS, half of a handshake", sends: "half of a ClientHello", secure: true, ports: public, conns: 1000, megabytes: 32, run: halfHandshakes},
	}
}

// gateAttacks use up the turns of authorized callers.
func gateAttacks() []attack {
	return []attack{
		{
			name: "agents without a token", sends: "requests for an agent's tunnel with a made-up token", only: []string{"tunnel"}, ports: public,
			conns: 2000, megabytes: 64, lasts: 5 * time.Second, probe: agentConnects, during: true, run: connects,
		},
		{
			name: "enrolment", sends: "guesses of join tokens", only: []string{"distributor"}, ports: public, conns: 64, megabytes: 16, run: guesses,
		},
	}
}
