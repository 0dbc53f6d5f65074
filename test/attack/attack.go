// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package attack runs the built services as an operator would, with the memory limits of the
// shipped manifests. It attacks them as unauthenticated callers, hostile agents and holders of
// stolen secrets could.
//
// It promises that under every attack of its list each service
//
//   - keeps running, below the memory limit of its pod;
//   - answers an ordinary request, right after the attack at the latest;
//   - uses at most one and a half times the memory that net/http uses under the same attack, plus what it used before, plus
//     a floor, wherever net/http is comparable. The peer for the comparison is cmd/peer, in a separate process.
//
// Times are printed and not judged, since test machines are busy: an ordinary request has 10
// seconds.
//
// The short form is part of `make test`: it attacks all servers at once, and each attack takes one
// or a few seconds. The long form is `make attack`: it attacks one server after the other, each
// newly started, with each attack for 30 seconds, and prints a table. To select attacks, name them:
// make attack ATTACKTIME=10s ARGS='-run TestSecAttacks/slow_readers'. With LEAT_ATTACK_BIN=folder
// it attacks the binaries in that folder, for instance of another version, instead of building the
// checkout's.
//
// # Adding an attack
//
// An attack is one value in attacks_test.go: its name, what it sends, at which ports, how many
// connections it holds, how many megabytes it may send, and a function that attacks one port until
// its context ends. [victim.each] runs that function's loop once per connection, [victim.http1] and
// [victim.http2] open connections, [victim.client] speaks well-formed HTTP. They count and bound
// the sent bytes, and close all connections when the attack is over, so an attack ends
// automatically. Start from a similar attack in frames_test.go, readers_test.go, bodies_test.go,
// bombs_test.go or connections_test.go.
//
// Show that the attack does harm: run it against binaries from before the fix (LEAT_ATTACK_BIN), or
// remove the bound that stops it. If nothing fails under an attack, it may be too weak: check the
// columns "sent" and "connections" of the table.
//
// # The other files
//
// rig_test.go starts the hub, an agent and the peers. process_test.go builds, limits and measures
// processes. manifests_test.go reads the limits from deploy/kubernetes. They are imposed by a
// control group (version 2) where the test may create one, and otherwise by RLIMIT_DATA with room
// for memory that is mapped but not resident. run_test.go attacks, judges and prints. Only
// credentials_test.go contains how the parts of a hub trust one another. secrets_test.go tries each
// of their secrets at every procedure and path, and compares the result with
// testdata/leaked-secrets.md.
//
// All attacks stay on loopback. If a service understands the PROXY protocol, connections to its
// public port come through a load balancer that speaks it. So bounds per address count against the
// attacker's address and not against all of loopback. The package needs Linux, for /proc.
package attack
