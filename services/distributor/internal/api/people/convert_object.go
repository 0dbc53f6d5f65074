// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/syncpolicy/policywire"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/catalogwire"
)

func clusterOf(m *fleetv1.Cluster) (*catalog.Cluster, error) {
	settings, err := policywire.Settings(m.GetSpec().GetAgent())
	if err != nil {
		return nil, fielderr.Within("spec.agent", err)
	}
	return &catalog.Cluster{
		Metadata: metadataOf(m.GetMetadata()),
		Spec: catalog.ClusterSpec{
			Description: m.GetSpec().GetDescription(), Settings: settings, AgentEndpoint: m.GetSpec().GetAgentEndpoint(),
		},
	}, nil
}

func repositoryOf(m *fleetv1.Repository) (*catalog.Repository, error) {
	spec := m.GetSpec()
	interval, err := durationOf("spec.poll_interval", spec.GetPollInterval())
	if err != nil {
		return nil, err
	}
	return &catalog.Repository{
		Metadata: metadataOf(m.GetMetadata()),
		Spec: catalog.RepositorySpec{
			Type:         repositoryTypeOf(spec.GetType()),
			URL:          spec.GetUrl(),
			PollInterval: interval,
			Credential:   credentialOf(spec.GetCredential()),
			CAPEM:        spec.GetCaPem(),
			ProxyURL:     catalog.ProxyURL(spec.GetProxyUrl()),
			Suspended:    spec.GetSuspended(),
			Verification: verificationOf(spec.GetVerification()),
			PartialClone: spec.GetPartialClone(),
			// Unset and empty differ.
			WebhookSecret: (*catalog.WebhookSecret)(spec.WebhookSecret),
		},
	}, nil
}

// repositoryTypeOf returns the type of a message. An unknown value passes by its number, for
// validation to refuse.
func repositoryTypeOf(t gitcachev1.RepositoryType) catalog.RepositoryType {
	switch t {
	case gitcachev1.RepositoryType_REPOSITORY_TYPE_UNSPECIFIED, gitcachev1.RepositoryType_REPOSITORY_TYPE_GIT:
		return catalog.TypeGit
	case gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM:
		return catalog.TypeHelm
	case gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI:
		return catalog.TypeOCI
	}
	return catalog.RepositoryType(strconv.Itoa(int(t)))
}

func credentialOf(m *gitcachev1.Credential) *catalog.Credential {
	if m == nil {
		return nil
	}
	c := &catalog.Credential{
		AllowPlainHTTP: m.GetAllowPlainHttp(), ClientCertPEM: m.GetClientCertificate().GetCertificatePem(),
		ClientKeyPEM: m.GetClientCertificate().GetPrivateKeyPem(),
	}
	switch method := m.GetMethod().(type) {
	case *gitcachev1.Credential_Basic:
		c.Method, c.Username, c.Secret = catalog.MethodBasic, method.Basic.GetUsername(), method.Basic.GetPassword()
	case *gitcachev1.Credential_Bearer:
		c.Method, c.Secret = catalog.MethodBearer, method.Bearer.GetToken()
	case *gitcachev1.Credential_Ssh:
		c.Method, c.Secret = catalog.MethodSSH, method.Ssh.GetPrivateKey()
		c.Passphrase, c.KnownHosts = method.Ssh.GetPassphrase(), method.Ssh.GetKnownHosts()
	case *gitcachev1.Credential_GithubApp:
		c.Method, c.Secret, c.APIURL = catalog.MethodGitHubApp, method.GithubApp.GetPrivateKey(), method.GithubApp.GetApiUrl()
		c.AppID, c.InstallationID = method.GithubApp.GetAppId(), method.GithubApp.GetInstallationId()
	default:
		if c.Empty() {
			// A credential without anything to show takes the stored one away; nothing else in it
			// counts.
			return &catalog.Credential{}
		}
	}
	return c
}

func serviceOf(m *fleetv1.Service) (*catalog.Service, error) {
	spec := m.GetSpec()
	options, err := policywire.Wanted(spec)
	if err != nil {
		return nil, fielderr.Within("spec", err)
	}
	return &catalog.Service{Metadata: metadataOf(m.GetMetadata()), Spec: catalog.ServiceSpec{
		Cluster: spec.GetCluster(), Sources: wire.Each(spec.GetSources(), catalogwire.SourceOf), Options: &options, Config: configOf(spec.GetConfig()),
	}}, nil
}

func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, &fielderr.Error{Path: field, Message: "is not a valid duration"}
	}
	// SQL keeps no smaller units.
	return d.AsDuration().Truncate(time.Microsecond), nil
}

// documentOf returns the object of a document.
func documentOf(m *fleetv1.Document) (catalog.Object, error) {
	switch object := m.GetObject().(type) {
	case *fleetv1.Document_Cluster:
		return clusterOf(object.Cluster)
	case *fleetv1.Document_Repository:
		return repositoryOf(object.Repository)
	case *fleetv1.Document_Service:
		return serviceOf(object.Service)
	case *fleetv1.Document_User:
		return userOf(object.User), nil
	case *fleetv1.Document_AccessBinding:
		return bindingOf(object.AccessBinding)
	}
	return nil, &fielderr.Error{Path: "object", Message: "is required: a cluster, a repository, a service, a user or an access binding"}
}

func configOf(m *fleetv1.ServiceConfig) *catalog.Config {
	if m == nil {
		return nil
	}
	config := &catalog.Config{Values: m.GetValues(), Secrets: make(map[string]secret.Text, len(m.GetSecrets()))}
	for key, text := range m.GetSecrets() {
		config.Secrets[key] = secret.Text(text)
	}
	return config
}
