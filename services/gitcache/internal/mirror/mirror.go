// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirror has the words of gitcache: what a repository is defined as, what a mirror of it
// holds, what a selector selects there, the state and the events of its owner, and why things fail.
//
// It holds values and ports, and runs nothing. Values are comparable or never changed once made.
// Package mirroring runs the repositories of a replica; adapters implement the ports: [Backend],
// [Registry], [EventLog], [Peers], [Replicas], [Objects] and [Named].
package mirror

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"time"
)

// Secret is text that must not be seen. It prints, logs and marshals as "redacted".
type Secret string

const redacted = "redacted"

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (s Secret) String() string { return redacted }

// Format keeps every verb, %#v and %x included, from printing the text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText keeps the text out of JSON and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Method is a way to authenticate to an upstream.
type Method string

// The methods of a [Credential].
const (
	MethodNone      Method = ""
	MethodBasic     Method = "basic"
	MethodBearer    Method = "bearer"
	MethodSSH       Method = "ssh"
	MethodGitHubApp Method = "github_app"
)

// Credential authenticates the hub to one upstream. The fields of its Method count, and those that
// go with any method.
type Credential struct {
	Method     Method
	Username   string // basic
	Password   Secret // basic
	Token      Secret // bearer
	PrivateKey Secret // ssh, github_app: PEM
	Passphrase Secret // ssh: empty when the key has none
	KnownHosts string // ssh: lines of an OpenSSH known_hosts file

	AppID          int64  // github_app
	InstallationID int64  // github_app
	APIURL         string // github_app: empty means github.com's

	// AllowPlainHTTP lets the credential travel unencrypted.
	AllowPlainHTTP bool
	// ClientCertPEM and ClientKeyPEM are shown to an https upstream that asks for a certificate,
	// with any method. Both are set, or neither is.
	ClientCertPEM string
	ClientKeyPEM  Secret
}

// IsZero reports whether there is nothing to authenticate with.
func (c Credential) IsZero() bool {
	return c.Method == MethodNone && c.ClientCertPEM == "" && c.ClientKeyPEM == ""
}

// SharedCredential is for all repositories whose URL begins with a prefix, unless they have their
// own.
type SharedCredential struct {
	Credential
	// CAPEM are the certificates to trust where the credential is sent. Empty: the system's.
	CAPEM string
	// Prefix is the prefix, as a person wrote it.
	Prefix string
}

// Definition is everything that a replica needs to mirror a repository. It is a comparable value.
type Definition struct {
	// Name is unique among the repositories known now.
	Name string
	// UID is never used again: a new UID under an old name is another repository.
	UID string
	// Version grows with every change of the definition.
	Version int64
	// URL is where the upstream is, without credentials.
	URL string
	// PollInterval is the mean time between polls. Zero: the service's default.
	PollInterval time.Duration
	Credential   Credential
	// CAPEM are the certificates to trust for this upstream. Empty: the system's.
	CAPEM string
	// ProxyURL is the proxy to reach the upstream through, with its credentials. Empty: the proxy
	// that the environment names.
	ProxyURL Secret
	// Suspended stops polling; reads go on.
	Suspended bool
	// WebhookSecret signs the repository's webhooks, or goes with them. Empty: the service's
	// default counts.
	WebhookSecret Secret
	// Verification says who has to have signed what is delivered.
	Verification Verification
	// Parent and ParentUID are those of the repository that this one is a submodule of. Empty: it
	// is no submodule.
	Parent, ParentUID string
	// PartialClone: the content of files is mirrored when it is first needed.
	PartialClone bool
}

var uidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// IsUID reports whether text can be a repository's UID. A UID can name a folder, and does not lead
// out of the folder that it stands in.
func IsUID(text string) bool { return uidForm.MatchString(text) }

// SubmoduleMark stands in the names of submodules' repositories, and in no other name.
const SubmoduleMark = "."

// PlacementKey decides which replicas should have the repository. A repository and its submodules
// have one key, because a bundle needs them together.
func (d Definition) PlacementKey() string {
	if d.ParentUID != "" {
		return d.ParentUID
	}
	return d.UID
}

// Public returns the definition without its secrets, and with the proxy's password masked.
func (d Definition) Public() Definition {
	d.Credential, d.WebhookSecret = Credential{}, ""
	if d.ProxyURL != "" {
		if u, err := url.Parse(d.ProxyURL.Reveal()); err == nil {
			d.ProxyURL = Secret(u.Redacted())
		} else {
			d.ProxyURL = ""
		}
	}
	return d
}

// SameUpstream reports whether two definitions reach the same upstream in the same way, and mirror
// as much of it.
func (d Definition) SameUpstream(other Definition) bool {
	return d.URL == other.URL && d.Credential == other.Credential && d.CAPEM == other.CAPEM && d.ProxyURL == other.ProxyURL &&
		d.PartialClone == other.PartialClone
}
