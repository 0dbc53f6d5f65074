// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstream holds what a repository is defined as: where its upstream is, how to reach it
// and authenticate there, and which signatures its content needs.
//
// The catalog stores a [Definition] and hands it to gitcache, which mirrors the upstream; both use
// this value, its validation and its secrets, and package upstreamwire converts it. A Definition is
// a comparable value: two of them are equal if all fields are. Its secrets do not print, and
// [Definition.Public] is the form that people may see.
//
// The package neither stores nor dials anything. Whether a key or a list of known hosts can be used
// is known only to the back end that connects with it, which checks that itself.
package upstream

import (
	"cmp"
	"net/url"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
)

// Definition is how a repository's owner wants it mirrored. The zero values mean the defaults.
//
// The names in JSON are a contract. Redis and the copies on gitcache's disks hold Definitions that
// replicas of earlier versions wrote and read. There Credential and Verification are beside the
// other fields, not below them, so they are not encoded with a Definition.
type Definition struct {
	// Type is the kind of the upstream. Empty: Git.
	Type Type `json:"type,omitempty"`
	// URL is where the upstream is, without credentials. That of an OCI repository is as
	// [ParseRegistry] reads it.
	URL string `json:"url"`
	// PollInterval is the mean time between polls. Zero: gitcache's default.
	PollInterval time.Duration `json:"poll_interval,omitempty"`
	// Credential authenticates Leat to the upstream.
	Credential Credential `json:"-"`
	// CAPEM are the certificates to trust for this upstream. Empty: the system's.
	CAPEM string `json:"ca_pem,omitempty"`
	// ProxyURL is the proxy to reach the upstream through, with its credentials. Empty: the proxy
	// that gitcache's environment names.
	ProxyURL secret.Text `json:"proxy_url,omitempty"`
	// Suspended stops polling; reads continue.
	Suspended bool `json:"suspended,omitempty"`
	// WebhookSecret signs the repository's webhooks, or is sent with them. Empty: the hub's.
	WebhookSecret secret.Text `json:"webhook_secret,omitempty"`
	// Verification names the signatures that content needs before it is delivered.
	Verification Verification `json:"-"`
	// PartialClone mirrors the content of files when it is first needed.
	PartialClone bool `json:"partial_clone,omitempty"`
	// Charts are the charts to mirror of a Helm repository: names, or patterns of [path.Match].
	// Empty: every chart.
	Charts List `json:"charts,omitempty"`
	// Immutable keeps delivering what a version or tag of an artifact repository first was, even if
	// it is published again with other content.
	Immutable bool `json:"immutable,omitempty"`
	// TokenHosts are hosts besides the URL's own that an OCI registry may name to trade the
	// credential for a token.
	TokenHosts List `json:"token_hosts,omitempty"`
	// ChartRepositories are the names of the Helm and OCI repositories that charts in a Git repository
	// may take dependencies from. Committers can read every chart there.
	ChartRepositories List `json:"chart_repositories,omitempty"`
	// PublicOnly keeps gitcache from reaching the upstream, or a proxy that the definition names, at
	// an address of a private network or of its own machine, unless its operator lists that network.
	// The catalog sets it where the address was chosen by a person who may not create repositories of
	// the hub.
	PublicOnly bool `json:"public_only,omitempty"`
	// Push is which branches the hub may push commits to.
	Push Push `json:"push,omitzero"`
}

// Type is the kind of an upstream.
type Type string

// The kinds of upstreams.
const (
	TypeGit  Type = "git"
	TypeHelm Type = "helm"
	TypeOCI  Type = "oci"
)

// Method is a way to authenticate to an upstream.
type Method string

// The methods of a [Credential].
const (
	MethodNone   Method = "" // at most a client certificate
	MethodBasic  Method = "basic"
	MethodBearer Method = "bearer"
	MethodSSH    Method = "ssh"
	// MethodGitHubApp is an installation of a GitHub App.
	MethodGitHubApp Method = "github_app"
	// MethodDockerConfig is the entry of the URL's host in a .dockerconfigjson.
	MethodDockerConfig Method = "docker_config"
	// MethodWorkloadIdentity is the identity of gitcache's pod at a cloud provider.
	MethodWorkloadIdentity Method = "workload_identity"
)

// Credential authenticates the hub to one upstream. The fields of its Method are set, and the
// fields that belong to every method.
type Credential struct {
	Method     Method      `json:"method,omitempty"`
	Username   string      `json:"username,omitempty"`    // basic
	Password   secret.Text `json:"password,omitempty"`    // basic
	Token      secret.Text `json:"token,omitempty"`       // bearer
	PrivateKey secret.Text `json:"private_key,omitempty"` // ssh, github_app: PEM
	Passphrase secret.Text `json:"passphrase,omitempty"`  // ssh: empty if the key has none
	KnownHosts string      `json:"known_hosts,omitempty"` // ssh: lines of an OpenSSH known_hosts file

	AppID          int64  `json:"app_id,omitempty"`          // github_app
	InstallationID int64  `json:"installation_id,omitempty"` // github_app
	APIURL         string `json:"api_url,omitempty"`         // github_app: empty means github.com's

	DockerConfig secret.Text `json:"docker_config,omitempty"` // docker_config: a .dockerconfigjson

	Cloud     Cloud  `json:"cloud,omitempty"`     // workload_identity
	Principal string `json:"principal,omitempty"` // workload_identity: role, service account or client
	Scope     string `json:"scope,omitempty"`     // workload_identity: region, tenant or provider

	// AllowPlainHTTP lets the credential travel unencrypted.
	AllowPlainHTTP bool `json:"allow_plain_http,omitempty"`
	// ClientCertPEM and ClientKeyPEM are presented to an https upstream that requests a
	// certificate, with any method. Both are set, or neither is.
	ClientCertPEM string      `json:"client_certificate,omitempty"`
	ClientKeyPEM  secret.Text `json:"client_key,omitempty"`
}

// Cloud is a provider of identities for workloads.
type Cloud string

// The clouds whose registries take an identity.
const (
	CloudAWS   Cloud = "aws"
	CloudGCP   Cloud = "gcp"
	CloudAzure Cloud = "azure"
)

// IsZero reports whether there is nothing to authenticate with.
func (c Credential) IsZero() bool {
	return c.Method == MethodNone && c.ClientCertPEM == "" && c.ClientKeyPEM == ""
}

// Mode is what has to be signed before it is delivered.
type Mode string

// The modes of a [Verification].
const (
	// ModeNone accepts everything.
	ModeNone Mode = ""
	// ModeCommit requires a signature of the commit that a ref leads to, be it a branch or a tag.
	ModeCommit Mode = "commit"
	// ModeTag requires annotated tags that are signed. Branches deliver nothing.
	ModeTag Mode = "tag"
	// ModeTagAndCommit is ModeCommit, and tags have to be annotated and signed, too.
	ModeTagAndCommit Mode = "tag_and_commit"
	// ModeArtifact requires a signature of every chart or artifact. It is the only mode of Helm and OCI
	// repositories, and of no others.
	ModeArtifact Mode = "artifact"
)

// WantsCommit reports whether the commit that a ref leads to has to be signed.
func (m Mode) WantsCommit() bool { return m == ModeCommit || m == ModeTagAndCommit }

// WantsTag reports whether tags have to be annotated and signed.
func (m Mode) WantsTag() bool { return m == ModeTag || m == ModeTagAndCommit }

// Verification selects the signers that a repository's content needs. The zero Verification
// requires none.
type Verification struct {
	Mode Mode `json:"verification_mode,omitempty"`
	// PGPKeys are armored OpenPGP public keys, SSHAllowedSigners lines of an OpenSSH
	// allowed_signers file.
	PGPKeys           string `json:"pgp_keys,omitempty"`
	SSHAllowedSigners string `json:"ssh_allowed_signers,omitempty"`
	// CosignKeys are PEM public keys whose signatures of OCI artifacts count. ProvenanceKeys are armored
	// OpenPGP public keys whose provenance files of charts count. Both are for ModeArtifact; where both
	// are given, one signature of either kind is enough.
	CosignKeys     string `json:"cosign_keys,omitempty"`
	ProvenanceKeys string `json:"provenance_keys,omitempty"`
}

// IsArtifacts reports whether the upstream holds artifacts, each fetched when it is first needed,
// rather than a Git history.
func (t Type) IsArtifacts() bool { return t == TypeHelm || t == TypeOCI }

// WithDefaults returns the definition with the defaults that do not depend on a service's settings.
func (d Definition) WithDefaults() Definition {
	d.Type = cmp.Or(d.Type, TypeGit)
	return d
}

// Secrets returns the secrets of the definition by their names in JSON. Their encoding there reads
// "redacted", so a store that seals a definition puts these into it.
func (d Definition) Secrets() map[string]secret.Text {
	c := d.Credential
	return map[string]secret.Text{
		"password": c.Password, "token": c.Token, "private_key": c.PrivateKey, "passphrase": c.Passphrase,
		"client_key": c.ClientKeyPEM, "docker_config": c.DockerConfig, "proxy_url": d.ProxyURL, "webhook_secret": d.WebhookSecret,
	}
}

// maskedPassword is the text that net/url prints instead of a password.
const maskedPassword = "xxxxx"

// Public returns the definition without its credential and secrets. The proxy's URL stays, with
// its password masked.
func (d Definition) Public() Definition {
	d.Credential, d.WebhookSecret = Credential{}, ""
	proxy, err := url.Parse(d.ProxyURL.Reveal())
	if err != nil {
		d.ProxyURL = ""
	} else {
		d.ProxyURL = secret.Text(proxy.Redacted())
	}
	return d
}

// HasMaskedProxy reports whether the proxy's password is the mask that Public puts in its place.
func (d Definition) HasMaskedProxy() bool {
	proxy, err := url.Parse(d.ProxyURL.Reveal())
	if err != nil {
		return false
	}
	password, _ := proxy.User.Password()
	return password == maskedPassword
}

// SameUpstream reports whether both definitions reach the same upstream in the same way, and
// mirror as much of it.
func (d Definition) SameUpstream(other Definition) bool {
	return d.WithDefaults().Type == other.WithDefaults().Type && d.URL == other.URL && d.Credential == other.Credential &&
		d.CAPEM == other.CAPEM && d.ProxyURL == other.ProxyURL && d.PartialClone == other.PartialClone && d.Charts == other.Charts &&
		d.Immutable == other.Immutable && d.TokenHosts == other.TokenHosts && d.PublicOnly == other.PublicOnly
}
