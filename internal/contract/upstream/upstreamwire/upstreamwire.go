// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package upstreamwire turns definitions of repositories into what they are on the wire, and back:
// in the documents that people write and in what the catalog hands to gitcache.
//
// It does not check what comes from the wire except for one thing: a duration that is not valid is
// an error. A number that this version does not know becomes a value that the validation refuses.
package upstreamwire

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
)

// message is the interface that a RepositorySpec and a RepositoryDefinition have in common.
type message interface {
	GetType() gitcachev1.RepositoryType
	GetUrl() string
	GetPollInterval() *durationpb.Duration
	GetCredential() *gitcachev1.Credential
	GetCaPem() string
	GetProxyUrl() string
	GetSuspended() bool
	GetWebhookSecret() string
	GetVerification() *gitcachev1.Verification
	GetPartialClone() bool
	GetCharts() []string
	GetImmutable() bool
	GetTokenHosts() []string
	GetChartRepositories() []string
	GetPush() *gitcachev1.Push
}

var (
	_ message = (*gitcachev1.RepositoryDefinition)(nil)
	_ message = (*fleetv1.RepositorySpec)(nil)
)

// Definition returns the definition in a RepositorySpec or a RepositoryDefinition. The error is a
// *fielderr.Error whose path begins at the definition.
func Definition(m message) (upstream.Definition, error) {
	if m.GetPollInterval() != nil && m.GetPollInterval().CheckValid() != nil {
		return upstream.Definition{}, fielderr.New("poll_interval", "is not a valid duration")
	}
	kind := name[upstream.Type](m.GetType())
	// People do not set it for themselves.
	stored, _ := m.(interface{ GetPublicOnly() bool })
	return upstream.Definition{
		Type: kind, URL: m.GetUrl(), PollInterval: m.GetPollInterval().AsDuration(), Credential: Credential(m.GetCredential()),
		CAPEM: m.GetCaPem(), ProxyURL: secret.Text(m.GetProxyUrl()), Suspended: m.GetSuspended(),
		WebhookSecret: secret.Text(m.GetWebhookSecret()), Verification: verification(m.GetVerification(), kind), PartialClone: m.GetPartialClone(),
		Charts: upstream.NewList(m.GetCharts()), Immutable: m.GetImmutable(), TokenHosts: upstream.NewList(m.GetTokenHosts()),
		ChartRepositories: upstream.NewList(m.GetChartRepositories()), PublicOnly: stored != nil && stored.GetPublicOnly(),
		Push: push(m.GetPush()),
	}, nil
}

// DefinitionMessage returns the message of a definition for gitcache, with its secrets.
func DefinitionMessage(d upstream.Definition) *gitcachev1.RepositoryDefinition {
	return &gitcachev1.RepositoryDefinition{
		Type: kindMessage(d.Type), Url: d.URL, PollInterval: interval(d), Credential: credentialMessage(d.Credential), CaPem: d.CAPEM,
		ProxyUrl: d.ProxyURL.Reveal(), Suspended: d.Suspended, WebhookSecret: d.WebhookSecret.Reveal(),
		Verification: verificationMessage(d.Verification), PartialClone: d.PartialClone,
		Charts: d.Charts.Names(), Immutable: d.Immutable, TokenHosts: d.TokenHosts.Names(),
		ChartRepositories: d.ChartRepositories.Names(), PublicOnly: d.PublicOnly, Push: pushMessage(d.Push),
	}
}

// SpecMessage returns the message of a definition for people: its public form.
func SpecMessage(d upstream.Definition) *fleetv1.RepositorySpec {
	d = d.Public()
	return &fleetv1.RepositorySpec{
		Type: kindMessage(d.Type), Url: d.URL, PollInterval: interval(d), CaPem: d.CAPEM, ProxyUrl: d.ProxyURL.Reveal(),
		Suspended: d.Suspended, Verification: verificationMessage(d.Verification), PartialClone: d.PartialClone,
		Charts: d.Charts.Names(), Immutable: d.Immutable, TokenHosts: d.TokenHosts.Names(),
		ChartRepositories: d.ChartRepositories.Names(), Push: pushMessage(d.Push),
	}
}

// push returns the push of a message.
func push(m *gitcachev1.Push) upstream.Push {
	return upstream.Push{
		Branches: upstream.NewList(m.GetBranches()), AuthorName: m.GetAuthorName(), AuthorEmail: m.GetAuthorEmail(),
		Forge: name[upstream.Forge](m.GetForge()), APIURL: m.GetApiUrl(),
	}
}

// pushMessage returns nil where the hub pushes nothing.
func pushMessage(p upstream.Push) *gitcachev1.Push {
	if p == (upstream.Push{}) {
		return nil
	}
	return &gitcachev1.Push{
		Branches: p.Branches.Names(), AuthorName: p.AuthorName, AuthorEmail: p.AuthorEmail,
		Forge: enumname.Value[gitcachev1.Forge](string(p.Forge)), ApiUrl: p.APIURL,
	}
}

// interval returns nil for the default, which is not written down.
func interval(d upstream.Definition) *durationpb.Duration {
	if d.PollInterval == 0 {
		return nil
	}
	return durationpb.New(d.PollInterval)
}

// kindMessage returns the message of a type, with the default written out.
func kindMessage(t upstream.Type) gitcachev1.RepositoryType {
	return enumname.Value[gitcachev1.RepositoryType](string(upstream.Definition{Type: t}.WithDefaults().Type))
}

// name returns the lower-case name of an enum's value, or "" if it is not given.
func name[T ~string](value protoreflect.Enum) T { return T(strings.ToLower(enumname.Of(value))) }

// Credential returns the credential of a message. One that authenticates nothing is the zero
// Credential, whatever else the message holds.
func Credential(m *gitcachev1.Credential) upstream.Credential {
	certificate := m.GetClientCertificate()
	c := upstream.Credential{
		AllowPlainHTTP: m.GetAllowPlainHttp(), ClientCertPEM: certificate.GetCertificatePem(),
		ClientKeyPEM: secret.Text(certificate.GetPrivateKeyPem()),
	}
	switch m := m.GetMethod().(type) {
	case *gitcachev1.Credential_Basic:
		c.Method, c.Username, c.Password = upstream.MethodBasic, m.Basic.GetUsername(), secret.Text(m.Basic.GetPassword())
	case *gitcachev1.Credential_Bearer:
		c.Method, c.Token = upstream.MethodBearer, secret.Text(m.Bearer.GetToken())
	case *gitcachev1.Credential_Ssh:
		c.Method, c.PrivateKey = upstream.MethodSSH, secret.Text(m.Ssh.GetPrivateKey())
		c.Passphrase, c.KnownHosts = secret.Text(m.Ssh.GetPassphrase()), m.Ssh.GetKnownHosts()
	case *gitcachev1.Credential_GithubApp:
		c.Method, c.PrivateKey = upstream.MethodGitHubApp, secret.Text(m.GithubApp.GetPrivateKey())
		c.AppID, c.InstallationID, c.APIURL = m.GithubApp.GetAppId(), m.GithubApp.GetInstallationId(), m.GithubApp.GetApiUrl()
	case *gitcachev1.Credential_DockerConfig:
		c.Method, c.DockerConfig = upstream.MethodDockerConfig, secret.Text(m.DockerConfig.GetConfigJson())
	case *gitcachev1.Credential_WorkloadIdentity:
		c.Method, c.Cloud = upstream.MethodWorkloadIdentity, name[upstream.Cloud](m.WorkloadIdentity.GetProvider())
		c.Principal, c.Scope = m.WorkloadIdentity.GetPrincipal(), m.WorkloadIdentity.GetScope()
	default:
		if c.IsZero() {
			return upstream.Credential{}
		}
	}
	return c
}

// credentialMessage returns the message of a credential, or nil for one that authenticates nothing.
func credentialMessage(c upstream.Credential) *gitcachev1.Credential {
	if c.IsZero() {
		return nil
	}
	m := &gitcachev1.Credential{AllowPlainHttp: c.AllowPlainHTTP}
	if c.ClientCertPEM != "" || c.ClientKeyPEM != "" {
		m.ClientCertificate = &gitcachev1.ClientCertificate{CertificatePem: c.ClientCertPEM, PrivateKeyPem: c.ClientKeyPEM.Reveal()}
	}
	switch c.Method {
	case upstream.MethodBasic:
		m.Method = &gitcachev1.Credential_Basic{Basic: &gitcachev1.BasicCredential{Username: c.Username, Password: c.Password.Reveal()}}
	case upstream.MethodBearer:
		m.Method = &gitcachev1.Credential_Bearer{Bearer: &gitcachev1.BearerCredential{Token: c.Token.Reveal()}}
	case upstream.MethodSSH:
		m.Method = &gitcachev1.Credential_Ssh{Ssh: &gitcachev1.SSHCredential{
			PrivateKey: c.PrivateKey.Reveal(), Passphrase: c.Passphrase.Reveal(), KnownHosts: c.KnownHosts,
		}}
	case upstream.MethodGitHubApp:
		m.Method = &gitcachev1.Credential_GithubApp{GithubApp: &gitcachev1.GitHubAppCredential{
			AppId: c.AppID, InstallationId: c.InstallationID, PrivateKey: c.PrivateKey.Reveal(), ApiUrl: c.APIURL,
		}}
	case upstream.MethodDockerConfig:
		m.Method = &gitcachev1.Credential_DockerConfig{DockerConfig: &gitcachev1.DockerConfigCredential{ConfigJson: c.DockerConfig.Reveal()}}
	case upstream.MethodWorkloadIdentity:
		m.Method = &gitcachev1.Credential_WorkloadIdentity{WorkloadIdentity: &gitcachev1.WorkloadIdentityCredential{
			Provider: enumname.Value[gitcachev1.CloudProvider](string(c.Cloud)), Principal: c.Principal, Scope: c.Scope,
		}}
	case upstream.MethodNone: // a client certificate alone
	}
	return m
}

// verification returns the verification of a message. A message without a mode gets the only one that
// a repository of artifacts has, and otherwise one that the validation refuses: its author wants
// signatures.
func verification(m *gitcachev1.Verification, kind upstream.Type) upstream.Verification {
	if m == nil {
		return upstream.Verification{}
	}
	mode := name[upstream.Mode](m.GetMode())
	if mode == upstream.ModeNone && kind.IsArtifacts() {
		mode = upstream.ModeArtifact
	}
	return upstream.Verification{
		Mode: cmp.Or(mode, "unspecified"), PGPKeys: m.GetPgpKeys(), SSHAllowedSigners: m.GetSshAllowedSigners(),
		CosignKeys: m.GetCosignKeys(), ProvenanceKeys: m.GetProvenanceKeys(),
	}
}

// verificationMessage returns nil where no signature is required: a message without a mode is refused.
func verificationMessage(v upstream.Verification) *gitcachev1.Verification {
	if v.Mode == upstream.ModeNone {
		return nil
	}
	return &gitcachev1.Verification{
		Mode: enumname.Value[gitcachev1.VerificationMode](string(v.Mode)), PgpKeys: v.PGPKeys, SshAllowedSigners: v.SSHAllowedSigners,
		CosignKeys: v.CosignKeys, ProvenanceKeys: v.ProvenanceKeys,
	}
}
