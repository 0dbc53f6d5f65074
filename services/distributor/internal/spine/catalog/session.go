// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// SessionClient is a kind of holder of a session.
type SessionClient string

// The kinds of holders.
const (
	// ClientCLI is a command line on a machine with a browser, ClientDevice one without.
	ClientCLI     SessionClient = "cli"
	ClientDevice  SessionClient = "device"
	ClientBrowser SessionClient = "browser"
)

// Session is a person's sign-in with an identity provider. Its tokens are not kept, only the hashes
// by which the store knows them.
type Session struct {
	// ID names the session and tells nothing of its tokens.
	ID string
	// Person is the name of the person, who is not a user of the hub.
	Person string
	// Groups are the person's, as of the last answer of the provider.
	Groups []string
	// Provider and ProviderUID are the identity provider, and Subject its name for the person.
	Provider, ProviderUID, Subject string
	// Client is the program that holds it.
	Client    SessionClient
	CreatedAt time.Time
	// LastUsedAt is when it was last exchanged for an access token; zero: never. The log of changes
	// leaves it out.
	LastUsedAt time.Time
	// EndsAt is when it ends. Until its proof is redeemed, that is when the proof ends.
	EndsAt time.Time
	// Pending is true until its proof is redeemed. It gives no access until then.
	Pending bool
}

// Expired reports whether the session has ended.
func (s Session) Expired(at time.Time) bool { return !at.Before(s.EndsAt) }
