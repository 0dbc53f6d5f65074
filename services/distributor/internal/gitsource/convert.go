// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
)

func definitionMessage(r *catalog.Repository) *gitcachev1.RepositoryDefinition {
	m := &gitcachev1.RepositoryDefinition{
		Name:       r.Name,
		Uid:        r.UID,
		Version:    r.ResourceVersion,
		Type:       gitcachev1.RepositoryType_REPOSITORY_TYPE_GIT,
		Url:        r.Spec.URL,
		Credential: credentialMessage(r.Spec.Credential),
		CaPem:      r.Spec.CAPEM,
		ProxyUrl:   r.Spec.ProxyURL.Reveal(),
		Suspended:  r.Spec.Suspended,

		WebhookSecret: r.Spec.WebhookSecret.Reveal(),
		Verification:  verificationMessage(r.Spec.Verification),
		PartialClone:  r.Spec.PartialClone,
	}
	if r.Spec.PollInterval > 0 {
		m.PollInterval = durationpb.New(r.Spec.PollInterval)
	}
	return m
}

func verificationMessage(v catalog.Verification) *gitcachev1.Verification {
	if v.Mode == catalog.VerifyNothing {
		return nil
	}
	return &gitcachev1.Verification{
		Mode:    gitcachev1.VerificationMode(gitcachev1.VerificationMode_value["VERIFICATION_MODE_"+strings.ToUpper(string(v.Mode))]),
		PgpKeys: v.PGPKeys, SshAllowedSigners: v.SSHAllowedSigners,
	}
}

func credentialMessage(c *catalog.Credential) *gitcachev1.Credential {
	if c.Empty() {
		return nil
	}
	m := &gitcachev1.Credential{AllowPlainHttp: c.AllowPlainHTTP}
	if c.ClientCertPEM != "" {
		m.ClientCertificate = &gitcachev1.ClientCertificate{CertificatePem: c.ClientCertPEM, PrivateKeyPem: c.ClientKeyPEM}
	}
	switch c.Method {
	case catalog.MethodBasic:
		m.Method = &gitcachev1.Credential_Basic{Basic: &gitcachev1.BasicCredential{Username: c.Username, Password: c.Secret}}
	case catalog.MethodBearer:
		m.Method = &gitcachev1.Credential_Bearer{Bearer: &gitcachev1.BearerCredential{Token: c.Secret}}
	case catalog.MethodSSH:
		m.Method = &gitcachev1.Credential_Ssh{Ssh: &gitcachev1.SSHCredential{
			PrivateKey: c.Secret, Passphrase: c.Passphrase, KnownHosts: c.KnownHosts,
		}}
	case catalog.MethodGitHubApp:
		m.Method = &gitcachev1.Credential_GithubApp{GithubApp: &gitcachev1.GitHubAppCredential{
			AppId: c.AppID, InstallationId: c.InstallationID, PrivateKey: c.Secret, ApiUrl: c.APIURL,
		}}
	case catalog.MethodNone: // a client certificate alone
	}
	return m
}

func mirrorOf(m *gitcachev1.RepositoryState) *catalog.Mirror {
	return &catalog.Mirror{
		Phase:         catalog.MirrorPhase(strings.TrimPrefix(m.GetPhase().String(), "REPOSITORY_PHASE_")),
		Problem:       catalogwire.ProblemOf(m.GetProblem()),
		FreshAt:       catalogwire.TimeOf(m.GetFreshAt()),
		ChangedAt:     catalogwire.TimeOf(m.GetChangedAt()),
		NextPollAt:    catalogwire.TimeOf(m.GetNextPollAt()),
		DefaultBranch: m.GetDefaultBranch(),
		Refs:          m.GetRefCount(),
		DiskBytes:     m.GetDiskBytes(),
		Epoch:         m.GetEpoch(),
		Owner:         m.GetOwner(),
		Failures:      m.GetFailures(),
		Fetches:       m.GetFetches(),
		HeldRefs:      m.GetHeldRefs(),
	}
}
