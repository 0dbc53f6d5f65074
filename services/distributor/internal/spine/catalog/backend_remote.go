// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/tls"
	"net/url"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
)

// KubernetesAuth is how the hub signs in at a cluster.
type KubernetesAuth string

// The ways to sign in. The hub's own cluster is read by its operator's settings.
const (
	KubernetesByOperator KubernetesAuth = ""
	KubernetesByToken    KubernetesAuth = "token"
	KubernetesByHubToken KubernetesAuth = "hub_token"
)

// KubernetesBackend reads Secrets and ConfigMaps of a cluster.
type KubernetesBackend struct {
	// URL is the URL of the API server. Empty: the hub's own cluster.
	URL   string         `json:"url,omitempty"`
	CAPEM string         `json:"caPem,omitempty"`
	Auth  KubernetesAuth `json:"auth,omitempty"`
}

func (b *KubernetesBackend) name() string { return "kubernetes" }

func (b *KubernetesBackend) credentialField() string {
	if b.Auth == KubernetesByToken {
		return "spec.kubernetes.token.token"
	}
	return ""
}

func (b *KubernetesBackend) target() string             { return b.URL }
func (b *KubernetesBackend) dials() (field, url string) { return "spec.kubernetes.url", b.URL }

func (b *KubernetesBackend) normalize(s *ConfigBackendSpec) {
	settled := *b
	settled.URL = strings.TrimRight(b.URL, "/")
	s.Kubernetes = &settled
}

func (b *KubernetesBackend) validate(credential secret.Text) error {
	if b.URL == "" {
		if b.CAPEM != "" || b.Auth != KubernetesByOperator {
			return fielderr.New("spec.kubernetes.url", "is required with ca_pem, token or hub_token; without it the hub's own cluster is read as its operator says")
		}
		return nil
	}
	if err := validateBackendURL("spec.kubernetes.url", b.URL); err != nil {
		return err
	}
	if b.Auth == KubernetesByOperator {
		return fielderr.New("spec.kubernetes", "does not say how to sign in; write one of token and hub_token")
	}
	if err := validateCredential(b, credential); err != nil {
		return err
	}
	return validateBackendCA("spec.kubernetes", b.CAPEM)
}

// HTTPAuth is how the hub proves itself to a web server.
type HTTPAuth string

// The ways to prove itself.
const (
	HTTPByNothing     HTTPAuth = ""
	HTTPByBearer      HTTPAuth = "bearer"
	HTTPByCertificate HTTPAuth = "client_certificate"
)

// HTTPBackend reads JSON objects of a web server.
type HTTPBackend struct {
	URL   string   `json:"url"`
	CAPEM string   `json:"caPem,omitempty"`
	Auth  HTTPAuth `json:"auth,omitempty"`
	// CertificatePEM belongs to the private key that is the credential.
	CertificatePEM string `json:"certificatePem,omitempty"`
}

func (b *HTTPBackend) name() string { return "http" }

func (b *HTTPBackend) credentialField() string {
	switch b.Auth {
	case HTTPByBearer:
		return "spec.http.bearer.token"
	case HTTPByCertificate:
		return "spec.http.client_certificate.key_pem"
	case HTTPByNothing:
	}
	return ""
}

func (b *HTTPBackend) target() string             { return b.URL }
func (b *HTTPBackend) dials() (field, url string) { return "spec.http.url", b.URL }

func (b *HTTPBackend) normalize(s *ConfigBackendSpec) {
	settled := *b
	settled.URL = strings.TrimRight(b.URL, "/")
	s.HTTP = &settled
}

func (b *HTTPBackend) validate(credential secret.Text) error {
	if err := validateBackendURL("spec.http.url", b.URL); err != nil {
		return err
	}
	switch b.Auth {
	case HTTPByBearer:
		if err := validateCredential(b, credential); err != nil {
			return err
		}
	case HTTPByCertificate:
		if len(b.CertificatePEM) > maxBackendSecret || len(credential) > maxBackendSecret {
			return fielderr.New("spec.http.client_certificate", "has a certificate or a key of more than %d bytes", maxBackendSecret)
		}
		if _, err := tls.X509KeyPair([]byte(b.CertificatePEM), []byte(credential.Reveal())); err != nil {
			return fielderr.New("spec.http.client_certificate", "is not a certificate with its private key, both in PEM")
		}
	case HTTPByNothing:
	}
	return validateBackendCA("spec.http", b.CAPEM)
}

// AWSBackend reads AWS Secrets Manager with the hub's identity.
type AWSBackend struct {
	withoutCredential
	withoutURL

	Region string `json:"region"`
	// Role is one that trusts the hub's identity. Empty: the role of the hub's environment.
	Role string `json:"role,omitempty"`
}

var (
	awsRegion    = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)
	awsRole      = regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}$`)
	gcpProject   = regexp.MustCompile(`^[a-z][a-z0-9.:-]{1,100}$`)
	azureVaultAt = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,22}[a-z0-9]\.vault\.(azure\.net|azure\.cn|usgovcloudapi\.net)$`)
)

func (b *AWSBackend) name() string                 { return "aws" }
func (b *AWSBackend) normalize(*ConfigBackendSpec) {}

func (b *AWSBackend) validate(secret.Text) error {
	switch {
	case !awsRegion.MatchString(b.Region) || len(b.Region) > maxBackendWord:
		return fielderr.New("spec.aws.region", "%.80q is not a region such as eu-central-1", b.Region)
	case b.Role != "" && !awsRole.MatchString(b.Role):
		return fielderr.New("spec.aws.role", "%.80q is not the ARN of a role, such as arn:aws:iam::123456789012:role/leat", b.Role)
	}
	return nil
}

// GCPBackend reads Google Cloud's Secret Manager with the hub's identity.
type GCPBackend struct {
	withoutCredential
	withoutURL

	Project string `json:"project"`
}

func (b *GCPBackend) name() string                 { return "gcp" }
func (b *GCPBackend) normalize(*ConfigBackendSpec) {}

func (b *GCPBackend) validate(secret.Text) error {
	if !gcpProject.MatchString(b.Project) {
		return fielderr.New("spec.gcp.project", "%.80q is not the id of a project", b.Project)
	}
	return nil
}

// AzureBackend reads Azure Key Vault with the hub's identity.
type AzureBackend struct {
	withoutCredential

	URL string `json:"url"`
}

func (b *AzureBackend) name() string               { return "azure" }
func (b *AzureBackend) dials() (field, url string) { return "spec.azure.url", b.URL }

func (b *AzureBackend) normalize(s *ConfigBackendSpec) {
	s.Azure = &AzureBackend{URL: strings.TrimRight(b.URL, "/")}
}

// validate accepts a vault of Azure, and a double of one at this machine, which publicBackend
// refuses outside of tests.
func (b *AzureBackend) validate(secret.Text) error {
	if err := validateBackendURL("spec.azure.url", b.URL); err != nil {
		return err
	}
	u, err := url.Parse(b.URL)
	if err != nil || !check.IsLoopback(u.Hostname()) && (!azureVaultAt.MatchString(u.Host) || u.Path != "") {
		return fielderr.New("spec.azure.url", "%.80q is not the URL of a vault, such as https://team.vault.azure.net", b.URL)
	}
	return nil
}
