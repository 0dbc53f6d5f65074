// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var (
	storedAt = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	first    = []byte("first")
	other    = []byte("other")
)

// storedSession is a session of a client that began at storedAt and lasts an hour.
func storedSession(client catalog.SessionClient, change func(*session.Stored)) session.Stored {
	s := session.Stored{Challenge: []byte("challenge"), Held: session.Held{Session: catalog.Session{
		ID: "one", Client: client, CreatedAt: storedAt, EndsAt: storedAt.Add(time.Hour),
	}}}
	if change != nil {
		change(&s)
	}
	return s
}

type verdictTest struct {
	name   string
	client catalog.SessionClient
	change func(*session.Stored)
	want   session.Verdict
}

func (v verdictTest) check(t *testing.T, got session.Verdict) {
	t.Helper()
	if got != v.want {
		t.Errorf("%s: got %+v, want %+v", v.name, got, v.want)
	}
}

// TestRedeem presents the proofs of sessions of each client.
func TestRedeem(t *testing.T) {
	t.Parallel()
	code := session.Redemption{ID: "one", Proof: []byte("proof"), Verifier: []byte("challenge"), First: first, At: storedAt.Add(time.Minute)}
	device := session.Redemption{Proof: []byte("proof"), First: first, At: storedAt.Add(time.Minute)}
	succeeded := func(by []byte) func(*session.Stored) { return func(s *session.Stored) { s.Successor = by } }
	for _, test := range []struct {
		verdictTest

		of     session.Redemption
		change func(*session.Redemption)
	}{
		{verdictTest: verdictTest{name: "code", client: catalog.ClientCLI, want: session.Verdict{Succeeds: true}}, of: code},
		{verdictTest: verdictTest{name: "device", client: catalog.ClientDevice, want: session.Verdict{Succeeds: true}}, of: device},
		{verdictTest: verdictTest{name: "code of another session", client: catalog.ClientCLI, want: session.Verdict{Err: session.ErrProof}}, of: code, change: func(r *session.Redemption) { r.ID = "two" }},
		{verdictTest: verdictTest{name: "token of a browser", client: catalog.ClientBrowser, want: session.Verdict{Err: session.ErrProof}}, of: code},
		{verdictTest: verdictTest{name: "code as a device's", client: catalog.ClientCLI, want: session.Verdict{Err: session.ErrProof}}, of: device},
		{verdictTest: verdictTest{name: "device's as a code", client: catalog.ClientDevice, want: session.Verdict{Err: session.ErrProof}}, of: code},
		{verdictTest: verdictTest{name: "another verifier", client: catalog.ClientCLI, want: session.Verdict{Err: session.ErrProof, Ends: true}}, of: code, change: func(r *session.Redemption) { r.Verifier = other }},
		{verdictTest: verdictTest{name: "no verifier", client: catalog.ClientCLI, want: session.Verdict{Err: session.ErrProof, Ends: true}}, of: code, change: func(r *session.Redemption) { r.Verifier = nil }},
		{verdictTest: verdictTest{name: "code again", client: catalog.ClientCLI, change: succeeded(first)}, of: code},
		{verdictTest: verdictTest{name: "device again", client: catalog.ClientDevice, change: succeeded(first)}, of: device},
		{verdictTest: verdictTest{name: "code again for another token", client: catalog.ClientCLI, change: succeeded(other), want: session.Verdict{Err: session.ErrReused, Ends: true}}, of: code},
		{verdictTest: verdictTest{name: "device again for another token", client: catalog.ClientDevice, change: succeeded(other), want: session.Verdict{Err: session.ErrProof}}, of: device},
		{verdictTest: verdictTest{name: "late", client: catalog.ClientDevice, want: session.Verdict{Err: session.ErrProof}}, of: device, change: func(r *session.Redemption) { r.At = storedAt.Add(time.Hour) }},
	} {
		if test.change != nil {
			test.change(&test.of)
		}
		test.check(t, storedSession(test.client, test.verdictTest.change).Redeem(test.of))
	}
}

// TestUse presents tokens of sessions of each client.
func TestUse(t *testing.T) {
	t.Parallel()
	ended, stolen := session.Verdict{Err: session.ErrEnded, Ends: true}, session.Verdict{Err: session.ErrReused, Ends: true}
	for _, test := range []struct {
		verdictTest

		next  []byte
		after time.Duration // since the session began
		idle  time.Duration // how long a browser may be idle
	}{
		{verdictTest: verdictTest{name: "command line", client: catalog.ClientCLI, want: session.Verdict{Succeeds: true, Touches: true}}, next: first},
		{verdictTest: verdictTest{name: "device", client: catalog.ClientDevice, want: session.Verdict{Succeeds: true, Touches: true}}, next: first},
		{verdictTest: verdictTest{name: "browser, soon", client: catalog.ClientBrowser}, after: 59 * time.Second, idle: time.Hour},
		{verdictTest: verdictTest{name: "browser, later", client: catalog.ClientBrowser, want: session.Verdict{Touches: true}}, after: time.Minute, idle: time.Hour},
		{
			verdictTest: verdictTest{name: "browser, soon after a use", client: catalog.ClientBrowser, change: func(s *session.Stored) { s.LastUsedAt = storedAt.Add(10 * time.Minute) }},
			after:       10*time.Minute + 59*time.Second, idle: time.Minute,
		},
		{verdictTest: verdictTest{name: "browser that is idle", client: catalog.ClientBrowser, want: ended}, after: 10 * time.Minute, idle: 9 * time.Minute},
		{verdictTest: verdictTest{name: "command line that is idle", client: catalog.ClientCLI, want: session.Verdict{Succeeds: true, Touches: true}}, next: first, after: 10 * time.Minute},
		{verdictTest: verdictTest{name: "pending", client: catalog.ClientCLI, change: func(s *session.Stored) { s.Pending = true }, want: session.Verdict{Err: session.ErrEnded}}, next: first},
		{verdictTest: verdictTest{name: "browser with a successor", client: catalog.ClientBrowser, want: session.Verdict{Err: session.ErrEnded}}, next: first, idle: time.Hour},
		{verdictTest: verdictTest{name: "command line without one", client: catalog.ClientCLI, want: session.Verdict{Err: session.ErrEnded}}},
		{verdictTest: verdictTest{name: "expired", client: catalog.ClientCLI, want: ended}, next: first, after: time.Hour},
		{verdictTest: verdictTest{name: "again", client: catalog.ClientCLI, change: func(s *session.Stored) { s.Successor = first }}, next: first},
		{verdictTest: verdictTest{name: "again, with another successor", client: catalog.ClientCLI, change: func(s *session.Stored) { s.Successor = other }, want: stolen}, next: first},
		{
			verdictTest: verdictTest{name: "again, after its successor", client: catalog.ClientCLI, change: func(s *session.Stored) { s.Successor, s.IsPassed = first, true }, want: stolen},
			next:        first,
		},
		{verdictTest: verdictTest{name: "browser with a token that has a successor", client: catalog.ClientBrowser, change: func(s *session.Stored) { s.Successor = first }, want: stolen}, idle: time.Hour},
	} {
		at := storedAt.Add(test.after)
		use := session.Use{ID: "one", Token: []byte("token"), Next: test.next, At: at, IdleBefore: at.Add(-test.idle)}
		test.check(t, storedSession(test.client, test.change).Use(use))
	}
}
