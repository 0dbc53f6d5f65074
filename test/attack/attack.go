// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package attack runs the built services as an operator would, with the memory limits of the shipped manifests, and attacks them as
// strangers, hostile agents and thieves of secrets could.
//
// It promises that under every attack of its list each service
//
//   - goes on running, below the memory limit of its pod;
//   - answers an ordinary request, right after the attack at the latest;
//   - takes at most one and a half times the memory that net/http takes under the same attack, beside what it took before and a floor,
//     wherever net/http is a measure. The peer is cmd/peer, in a process of its own.
//
// Times are printed and not judged, since machines that run tests are busy: an ordinary request has 10 seconds.
//
// The short form is part of `make test`: it attacks all servers at once, with each attack for a second or a few. The long form is
// `make attack`: it attacks one server after the other, each newly started, with each attack for 30 seconds, and prints a table. To
// choose, name them: make attack ATTACKTIME=10s ARGS='-run TestSecAttacks/slow_readers'. LEAT_ATTACK_BIN=folder attacks the binaries in
// that folder, of another version for instance, instead of building those of the checkout.
//
// # Adding an attack
//
// An attack is one value in attacks_test.go: its name, what it sends, at which ports, how many connections it holds, how many megabytes
// it may send, and a function that attacks one port until its context ends. [victim.each] runs that function's loop once per connection,
// [victim.http1] and [victim.http2] open connections, [victim.client] speaks well-formed HTTP. They count and bound what is sent, and
// close all connections when the attack is over, so an attack ends by itself. Look for an attack of the same kind in frames_test.go,
// readers_test.go, bodies_test.go, bombs_test.go or connections_test.go.
//
// Show that the attack does harm: run it against binaries from before the mending (LEAT_ATTACK_BIN), or remove the bound that stops it. An
// attack that nothing fails under may be too weak: look at the columns "sent" and "connections" of the table.
//
// # The other files
//
// rig_test.go starts the hub, an agent and the peers. process_test.go builds, limits and measures processes. manifests_test.go reads the
// limits from deploy/kubernetes: they are imposed by a control group (version 2) where one may be made, and otherwise by RLIMIT_DATA with
// room for what is mapped and not resident. run_test.go strikes, judges and prints. credentials_test.go is the only file that knows how
// the parts of a hub trust one another. secrets_test.go tries each of their secrets at every procedure and path, and holds the result
// against testdata/leaked-secrets.md.
//
// All attacks stay on loopback. Connections to a public port come through a load balancer that speaks the PROXY protocol where the service
// understands that, so that bounds per address are held against the attacker's address and not against all of loopback. The package needs
// Linux, for /proc.
package attack
