// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

func trimPrefix(prefix, name string) string { return strings.TrimPrefix(name, prefix) }

func sourceMessage(s catalog.Source) *typev1.Source {
	return &typev1.Source{
		Repository: s.Repository, Ref: refMessage(s.Ref), Path: s.Path, Root: s.Root,
		Folders: s.Folders.Items(), Files: s.Files.Items(), Include: s.Include.Items(), Exclude: s.Exclude.Items(),
	}
}

func refMessage(r catalog.Ref) *typev1.GitRef {
	switch r.Kind {
	case catalog.RefBranch:
		return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: r.Value}}
	case catalog.RefTag:
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: r.Value}}
	case catalog.RefCommit:
		return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: r.Value}}
	case catalog.RefName:
		return &typev1.GitRef{Selector: &typev1.GitRef_Name{Name: r.Value}}
	case catalog.RefSemver:
		return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: r.Value}}
	case catalog.RefHead:
	}
	return nil
}

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
		Phase:         catalog.MirrorPhase(trimPrefix("REPOSITORY_PHASE_", m.GetPhase().String())),
		Problem:       problemOf(m.GetProblem()),
		FreshAt:       timeOf(m.GetFreshAt()),
		ChangedAt:     timeOf(m.GetChangedAt()),
		NextPollAt:    timeOf(m.GetNextPollAt()),
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

func problemOf(m *typev1.Problem) *catalog.Problem {
	if m == nil {
		return nil
	}
	return &catalog.Problem{
		Reason:  catalog.Reason(trimPrefix("REASON_", m.GetReason().String())),
		Message: m.GetMessage(),
		Since:   timeOf(m.GetSince()),
	}
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
