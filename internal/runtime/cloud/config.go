// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/runtime/config"
)

// Config is the pod's identity in its environment. The clouds set these variables in pods. An empty
// field stands for a variable that is not set, unless the field's comment differs.
type Config struct {
	AWSRole               string
	AWSTokenFile          string
	AWSContainerURL       string // of EKS Pod Identity
	AWSContainerTokenFile string
	STSURL                string // empty: the region's

	GCPTokenFile    string
	GCPMetadataHost string // empty: metadata.google.internal
	GCPSTSURL       string // empty: https://sts.googleapis.com
	GCPIAMURL       string // empty: https://iamcredentials.googleapis.com

	AzureClient       string
	AzureTenant       string
	AzureTokenFile    string
	AzureAuthorityURL string // empty: https://login.microsoftonline.com
}

// Bind binds the fields to flags, whose names begin with the prefix, and to environment variables.
// Caller names the service that has the identity, such as "gitcache".
func (c *Config) Bind(s *config.Set, prefix, caller string) {
	s.String(&c.GCPTokenFile, prefix+"-gcp-token-file", "", "the pod's token for a workload identity provider of Google Cloud")
	s.String(&c.GCPSTSURL, prefix+"-gcp-sts-url", defaultGCPSTS, "Security Token Service of Google Cloud")
	s.String(&c.GCPIAMURL, prefix+"-gcp-iam-url", defaultGCPIAM, "service account credentials of Google Cloud")
	s.Env(&c.GCPMetadataHost, "GCE_METADATA_HOST", "metadata server of Google Cloud, host or host:port; empty: "+defaultGCPMetadata)
	s.Env(&c.AWSRole, "AWS_ROLE_ARN", "role of "+caller+"'s pods at AWS")
	s.Env(&c.AWSTokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE", "the pod's token for AWS STS")
	s.Env(&c.AWSContainerURL, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "agent of EKS Pod Identity on the node")
	s.Env(&c.AWSContainerTokenFile, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "the pod's token for that agent")
	s.Env(&c.STSURL, "AWS_ENDPOINT_URL_STS", "AWS STS; empty: that of the region")
	s.Env(&c.AzureClient, "AZURE_CLIENT_ID", "application of "+caller+"'s pods at Microsoft Entra ID")
	s.Env(&c.AzureTenant, "AZURE_TENANT_ID", "its tenant")
	s.Env(&c.AzureTokenFile, "AZURE_FEDERATED_TOKEN_FILE", "the pod's token for Microsoft Entra ID")
	s.Env(&c.AzureAuthorityURL, "AZURE_AUTHORITY_HOST", "Microsoft Entra ID; empty: "+defaultAzure)
}

const (
	defaultGCPMetadata = "metadata.google.internal"
	defaultGCPSTS      = "https://sts.googleapis.com"
	defaultGCPIAM      = "https://iamcredentials.googleapis.com"
	defaultAzure       = "https://login.microsoftonline.com"
)

// completed returns a Config without the fields that are empty by default.
func (c Config) completed() Config {
	for field, value := range map[*string]string{
		&c.GCPMetadataHost: defaultGCPMetadata, &c.GCPSTSURL: defaultGCPSTS, &c.GCPIAMURL: defaultGCPIAM, &c.AzureAuthorityURL: defaultAzure,
	} {
		if *field == "" {
			*field = value
		}
	}
	return c
}

// Check returns an error that names each setting that cannot be used. Prefix is the prefix of
// [Config.Bind].
func (c Config) Check(prefix string) error {
	c = c.completed()
	var errs []error
	if !IsHost(c.GCPMetadataHost) {
		errs = append(errs, fmt.Errorf("GCE_METADATA_HOST: got %q, want host or host:port", c.GCPMetadataHost))
	}
	for _, service := range []struct{ name, text string }{
		{"--" + prefix + "-gcp-sts-url", c.GCPSTSURL},
		{"--" + prefix + "-gcp-iam-url", c.GCPIAMURL},
		{"AWS_ENDPOINT_URL_STS", c.STSURL},
		{"AZURE_AUTHORITY_HOST", c.AzureAuthorityURL},
	} {
		errs = append(errs, CheckService(service.name, service.text))
	}
	return errors.Join(errs...)
}

// CheckService returns an error that names the setting if its text is neither empty nor a URL that may
// get a token.
func CheckService(setting, text string) error {
	if text == "" || isService(text) {
		return nil
	}
	return fmt.Errorf("%s: got %q, want https://host[/path]: tokens are sent there", setting, text)
}

// IsHost reports whether text is host or host:port.
func IsHost(text string) bool {
	u, err := url.Parse("https://" + text)
	return err == nil && u.Host == text && u.Hostname() != "" && !strings.Contains(text, "*")
}

// isService reports whether a URL may get the pod's token: it is https, or on this machine itself.
func isService(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && err == nil && address.IsLoopback()
}
