// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// backendOf refuses unknown fields, because they may narrow who is given what.
func backendOf(m *fleetv1.ConfigBackend) (*catalog.ConfigBackend, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	spec := m.GetSpec()
	if hasUnknown(spec.ProtoReflect()) {
		return nil, fielderr.New("spec", "has a field that this version of the hub does not know")
	}
	refresh, err := durationOf("spec.refresh", spec.GetRefresh())
	if err != nil {
		return nil, err
	}
	stale, err := durationOf("spec.max_stale", spec.GetMaxStale())
	if err != nil {
		return nil, err
	}
	b := &catalog.ConfigBackend{Metadata: metadata, Spec: catalog.ConfigBackendSpec{
		Description: spec.GetDescription(), Refresh: refresh, MaxStale: stale, AllowedPaths: spec.GetAllowedPaths(), Projects: spec.GetProjects(),
		Public: spec.GetPublic(), WebhookSecret: secret.Text(spec.GetWebhookSecret()),
		RemoveWebhookSecret: spec != nil && spec.WebhookSecret != nil && spec.GetWebhookSecret() == "",
	}}
	switch kind := spec.GetKind().(type) {
	case *fleetv1.ConfigBackendSpec_Vault:
		b.Spec.Vault, b.Spec.Credential = vaultOf(kind.Vault)
	case *fleetv1.ConfigBackendSpec_Files:
		b.Spec.Files = &catalog.FilesBackend{Root: kind.Files.GetRoot()}
	case *fleetv1.ConfigBackendSpec_Environment:
		b.Spec.Environment = &catalog.EnvironmentBackend{}
	case *fleetv1.ConfigBackendSpec_Kubernetes:
		b.Spec.Kubernetes, b.Spec.Credential = kubernetesOf(kind.Kubernetes)
	case *fleetv1.ConfigBackendSpec_Http:
		b.Spec.HTTP, b.Spec.Credential = webServerOf(kind.Http)
	case *fleetv1.ConfigBackendSpec_Aws:
		b.Spec.AWS = &catalog.AWSBackend{Region: kind.Aws.GetRegion(), Role: kind.Aws.GetRole()}
	case *fleetv1.ConfigBackendSpec_Gcp:
		b.Spec.GCP = &catalog.GCPBackend{Project: kind.Gcp.GetProject()}
	case *fleetv1.ConfigBackendSpec_Azure:
		b.Spec.Azure = &catalog.AzureBackend{URL: kind.Azure.GetUrl()}
	}
	return b, nil
}

func vaultOf(m *fleetv1.VaultBackend) (*catalog.VaultBackend, secret.Text) {
	v := &catalog.VaultBackend{
		URL: m.GetUrl(), Mount: m.GetMount(), Version: int(m.GetVersion()), Namespace: m.GetNamespace(), CAPEM: m.GetCaPem(),
	}
	credential := ""
	switch auth := m.GetAuth().(type) {
	case *fleetv1.VaultBackend_Token:
		v.Auth, credential = catalog.VaultByToken, auth.Token.GetToken()
	case *fleetv1.VaultBackend_AppRole:
		v.Auth, v.Role, v.AuthMount, credential = catalog.VaultByAppRole, auth.AppRole.GetRoleId(), auth.AppRole.GetMount(), auth.AppRole.GetSecretId()
	case *fleetv1.VaultBackend_Kubernetes:
		v.Auth, v.Role, v.AuthMount = catalog.VaultByKubernetes, auth.Kubernetes.GetRole(), auth.Kubernetes.GetMount()
	case *fleetv1.VaultBackend_Jwt:
		v.Auth, v.Role, v.AuthMount = catalog.VaultByJWT, auth.Jwt.GetRole(), auth.Jwt.GetMount()
	}
	return v, secret.Text(credential)
}

func kubernetesOf(m *fleetv1.KubernetesBackend) (*catalog.KubernetesBackend, secret.Text) {
	k := &catalog.KubernetesBackend{URL: m.GetUrl(), CAPEM: m.GetCaPem()}
	credential := ""
	switch auth := m.GetAuth().(type) {
	case *fleetv1.KubernetesBackend_Token:
		k.Auth, credential = catalog.KubernetesByToken, auth.Token.GetToken()
	case *fleetv1.KubernetesBackend_HubToken:
		k.Auth = catalog.KubernetesByHubToken
	}
	return k, secret.Text(credential)
}

func webServerOf(m *fleetv1.HttpBackend) (*catalog.HTTPBackend, secret.Text) {
	h := &catalog.HTTPBackend{URL: m.GetUrl(), CAPEM: m.GetCaPem()}
	credential := ""
	switch auth := m.GetAuth().(type) {
	case *fleetv1.HttpBackend_Bearer:
		h.Auth, credential = catalog.HTTPByBearer, auth.Bearer.GetToken()
	case *fleetv1.HttpBackend_ClientCertificate:
		h.Auth, h.CertificatePEM, credential = catalog.HTTPByCertificate, auth.ClientCertificate.GetCertificatePem(), auth.ClientCertificate.GetKeyPem()
	}
	return h, secret.Text(credential)
}

// backendMessage never carries a secret.
func backendMessage(b *catalog.ConfigBackend) *fleetv1.ConfigBackend {
	s := b.Spec
	m := &fleetv1.ConfigBackend{
		Metadata: MetadataMessage(&b.Metadata),
		Spec: &fleetv1.ConfigBackendSpec{
			Description: s.Description, AllowedPaths: s.AllowedPaths, Projects: s.Projects, Public: s.Public,
		},
	}
	if s.Refresh != 0 {
		m.Spec.Refresh = durationpb.New(s.Refresh)
	}
	if s.MaxStale != 0 {
		m.Spec.MaxStale = durationpb.New(s.MaxStale)
	}
	switch {
	case s.Vault != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Vault{Vault: vaultMessage(s.Vault)}
	case s.Files != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Files{Files: &fleetv1.FilesBackend{Root: s.Files.Root}}
	case s.Environment != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Environment{Environment: &fleetv1.EnvironmentBackend{}}
	case s.Kubernetes != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Kubernetes{Kubernetes: kubernetesMessage(s.Kubernetes)}
	case s.HTTP != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Http{Http: webServerMessage(s.HTTP)}
	case s.AWS != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Aws{Aws: &fleetv1.AwsBackend{Region: s.AWS.Region, Role: s.AWS.Role}}
	case s.GCP != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Gcp{Gcp: &fleetv1.GcpBackend{Project: s.GCP.Project}}
	case s.Azure != nil:
		m.Spec.Kind = &fleetv1.ConfigBackendSpec_Azure{Azure: &fleetv1.AzureBackend{Url: s.Azure.URL}}
	}
	return m
}

func vaultMessage(v *catalog.VaultBackend) *fleetv1.VaultBackend {
	m := &fleetv1.VaultBackend{Url: v.URL, Mount: v.Mount, Version: int32(v.Version), Namespace: v.Namespace, CaPem: v.CAPEM}
	switch v.Auth {
	case catalog.VaultByToken:
		m.Auth = &fleetv1.VaultBackend_Token{Token: &fleetv1.VaultToken{}}
	case catalog.VaultByAppRole:
		m.Auth = &fleetv1.VaultBackend_AppRole{AppRole: &fleetv1.VaultAppRole{RoleId: v.Role, Mount: v.AuthMount}}
	case catalog.VaultByKubernetes:
		m.Auth = &fleetv1.VaultBackend_Kubernetes{Kubernetes: &fleetv1.VaultKubernetes{Role: v.Role, Mount: v.AuthMount}}
	case catalog.VaultByJWT:
		m.Auth = &fleetv1.VaultBackend_Jwt{Jwt: &fleetv1.VaultJwt{Role: v.Role, Mount: v.AuthMount}}
	}
	return m
}

func kubernetesMessage(k *catalog.KubernetesBackend) *fleetv1.KubernetesBackend {
	m := &fleetv1.KubernetesBackend{Url: k.URL, CaPem: k.CAPEM}
	switch k.Auth {
	case catalog.KubernetesByToken:
		m.Auth = &fleetv1.KubernetesBackend_Token{Token: &fleetv1.KubernetesToken{}}
	case catalog.KubernetesByHubToken:
		m.Auth = &fleetv1.KubernetesBackend_HubToken{HubToken: &fleetv1.KubernetesHubToken{}}
	case catalog.KubernetesByOperator:
	}
	return m
}

func webServerMessage(h *catalog.HTTPBackend) *fleetv1.HttpBackend {
	m := &fleetv1.HttpBackend{Url: h.URL, CaPem: h.CAPEM}
	switch h.Auth {
	case catalog.HTTPByBearer:
		m.Auth = &fleetv1.HttpBackend_Bearer{Bearer: &fleetv1.HttpBearer{}}
	case catalog.HTTPByCertificate:
		m.Auth = &fleetv1.HttpBackend_ClientCertificate{ClientCertificate: &fleetv1.HttpClientCertificate{CertificatePem: h.CertificatePEM}}
	case catalog.HTTPByNothing:
	}
	return m
}
