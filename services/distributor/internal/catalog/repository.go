// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"
)

// RepositoryType is the kind of an upstream.
type RepositoryType string

// The kinds of upstreams.
const (
	TypeGit  RepositoryType = "git"
	TypeHelm RepositoryType = "helm"
	TypeOCI  RepositoryType = "oci"
)

// DefaultPollInterval is how often an upstream is asked for news when its spec does not say.
const DefaultPollInterval = 2 * time.Minute

// Repository is an upstream.
type Repository struct {
	Metadata
	Spec RepositorySpec
}

// RepositorySpec is what is wanted of a repository.
type RepositorySpec struct {
	// Type is never empty once stored.
	Type RepositoryType
	URL  string
	// PollInterval zero means DefaultPollInterval.
	PollInterval time.Duration
	// Credential is nil where none is given: not at all for a new repository, the stored one in an
	// update. What is read back from the catalog carries it only in the hands of those who push
	// definitions.
	Credential *Credential
	// CAPEM holds the certificates to trust instead of the system's.
	CAPEM string
	// ProxyURL is the proxy to the upstream. Its password is masked in the hands of all but those
	// who push definitions.
	ProxyURL  ProxyURL
	Suspended bool
	// WebhookSecret is nil where none is given: none for a new repository, the stored one in an
	// update. An empty one takes the stored one away. Like Credential it is read back only by those
	// who push definitions.
	WebhookSecret *WebhookSecret
	// Verification is who has to have signed what is delivered. The zero one lets everything
	// through.
	Verification Verification
	// PartialClone: the content of files is mirrored when it is first needed.
	PartialClone bool
}

// WebhookSecret is what a repository's webhooks are signed with, or carry. It prints as "redacted".
type WebhookSecret string

// Reveal returns the text itself, empty where there is none.
func (s *WebhookSecret) Reveal() string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// Format hides the secret from every verb.
func (WebhookSecret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the secret.
func (WebhookSecret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText keeps the secret out of JSON and the like.
func (WebhookSecret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ProxyURL is the URL of a proxy, which may hold a password. It prints with the password masked.
type ProxyURL string

// maskedPassword is what net/url writes for a password that must not be seen.
const maskedPassword = "xxxxx"

// Masked returns the URL with "xxxxx" for its password.
func (p ProxyURL) Masked() ProxyURL {
	u, err := url.Parse(string(p))
	if err != nil {
		return ""
	}
	return ProxyURL(u.Redacted())
}

// Reveal returns the URL with its password.
func (p ProxyURL) Reveal() string { return string(p) }

// Format masks the password for every verb.
func (p ProxyURL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.Masked().Reveal()) }

// LogValue masks the password.
func (p ProxyURL) LogValue() slog.Value { return slog.StringValue(p.Masked().Reveal()) }

// CredentialMethod is a way to authenticate.
type CredentialMethod string

// The ways to authenticate.
const (
	// MethodNone in an update takes the stored credential away, unless there is a client
	// certificate.
	MethodNone   CredentialMethod = ""
	MethodBasic  CredentialMethod = "basic"
	MethodBearer CredentialMethod = "bearer"
	MethodSSH    CredentialMethod = "ssh"
	// MethodGitHubApp is an installation of a GitHub App.
	MethodGitHubApp CredentialMethod = "github_app"
)

// Credential authenticates Leat to an upstream. It is comparable, and prints as "redacted".
type Credential struct {
	Method CredentialMethod
	// Username belongs to MethodBasic.
	Username string
	// Secret is the password, the bearer token or the PEM private key, of an SSH key or an app.
	Secret string
	// Passphrase and KnownHosts belong to MethodSSH.
	Passphrase string
	KnownHosts string
	// AppID, InstallationID and APIURL belong to MethodGitHubApp; an empty APIURL means
	// github.com's.
	AppID, InstallationID int64
	APIURL                string
	// AllowPlainHTTP lets the credential travel unencrypted.
	AllowPlainHTTP bool
	// ClientCertPEM and ClientKeyPEM go with any method, MethodNone included.
	ClientCertPEM, ClientKeyPEM string
}

// Empty reports whether there is nothing to authenticate with; in an update it takes the stored
// credential away.
func (c *Credential) Empty() bool {
	return c == nil || (c.Method == MethodNone && c.ClientCertPEM == "" && c.ClientKeyPEM == "")
}

const redacted = "redacted"

// String hides the credential.
func (Credential) String() string { return redacted }

// GoString hides the credential.
func (Credential) GoString() string { return redacted }

// Format hides the credential from every verb.
func (Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue hides the credential.
func (Credential) LogValue() slog.Value { return slog.StringValue(redacted) }

// Key implements Object.
func (r *Repository) Key() Key { return Key{KindRepository, r.Name} }

// Meta implements Object.
func (r *Repository) Meta() *Metadata { return &r.Metadata }

func (r *Repository) sameSpec(other Object) bool {
	o, ok := other.(*Repository)
	if !ok {
		return false
	}
	a, b := r.Spec, o.Spec
	sameCredential := a.Credential.value() == b.Credential.value()
	sameSecret := a.WebhookSecret.Reveal() == b.WebhookSecret.Reveal()
	a.Credential, b.Credential, a.WebhookSecret, b.WebhookSecret = nil, nil, nil, nil
	return sameCredential && sameSecret && a == b
}

// value lets a missing credential equal an empty one.
func (c *Credential) value() Credential {
	if c == nil {
		return Credential{}
	}
	return *c
}

func (r *Repository) clone() Object {
	n := *r
	return &n
}
