// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/config/cloudvalues"
)

// BackendConfig lists what the operator of the hub opens to configuration back ends.
type BackendConfig struct {
	// Folders are the folders that back ends of the kind files may read, each as NAME=PATH. None:
	// nothing.
	Folders []string
	// TokenFile holds the token that back ends show for the Kubernetes and the JWT method of a Vault,
	// and to other clusters. Empty: they cannot use these. TokenHosts are the hosts that may be sent
	// it.
	TokenFile  string
	TokenHosts []string
	// Cluster is the hub's own cluster. Without a token file it is not open.
	Cluster ClusterConfig
	// Clouds are those whose secret managers back ends may read with the hub's identity: aws, gcp,
	// azure. None: nothing.
	Clouds []string
	// AWSURL and GoogleURL are where the secret managers are. Empty: where their clouds have them.
	AWSURL, GoogleURL string
	// Poll is how often the hub looks whether a value is due to be read.
	Poll time.Duration
}

// ClusterConfig sets how the hub reads Secrets and ConfigMaps of its own cluster.
type ClusterConfig struct {
	// URL is the URL of the API server.
	URL string
	// CAFile holds the certificates to trust. Empty: the system's.
	CAFile string
	// TokenFile holds the token to sign in with. Empty: the cluster is not open.
	TokenFile string
}

// serviceAccount is where Kubernetes mounts what pods sign in with.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

func (c *BackendConfig) bind(s *config.Set) {
	s.Strings(&c.Folders, "distributor-config-folders", nil, "folders that configuration back ends of the kind files may read, each as NAME=/path, separated by commas; empty: none")
	s.String(&c.TokenFile, "distributor-config-token-file", "", "token that configuration back ends sign in with at a Vault, by the methods kubernetes and jwt, and at other clusters; empty: they cannot")
	s.Strings(&c.TokenHosts, "distributor-config-token-hosts", nil, "hosts that may be sent that token, each as HOST or HOST:PORT (443), separated by commas; people who make back ends choose where the hub calls")
	s.String(&c.Cluster.TokenFile, "distributor-config-kubernetes-token-file", "", "token with which configuration back ends read Secrets and ConfigMaps of the hub's own cluster, such as "+serviceAccount+"token; empty: they cannot")
	s.String(&c.Cluster.URL, "distributor-config-kubernetes-url", "https://kubernetes.default.svc", "API server of the hub's own cluster")
	s.String(&c.Cluster.CAFile, "distributor-config-kubernetes-ca-file", serviceAccount+"ca.crt", "certificates to trust for it, in PEM; empty: the system's")
	s.Strings(&c.Clouds, "distributor-config-clouds", nil, "clouds whose secret managers configuration back ends may read with the distributor's identity: aws, gcp, azure; empty: none")
	s.Env(&c.AWSURL, "AWS_ENDPOINT_URL_SECRETS_MANAGER", "AWS Secrets Manager; empty: that of the back end's region")
	s.String(&c.GoogleURL, "distributor-config-gcp-url", "https://secretmanager.googleapis.com", "Secret Manager of Google Cloud")
	s.Duration(&c.Poll, "distributor-config-poll-interval", time.Second, "how often the hub looks whether a value of a configuration back end is due to be read, give or take a quarter")
}

// check returns an error for settings that cannot be used.
func (c *BackendConfig) check() error {
	var errs []error
	seen := map[string]bool{}
	for _, folder := range c.Folders {
		name, path, _ := strings.Cut(folder, "=")
		if objectname.ValidateLabel("", name) != nil || !filepath.IsAbs(path) || seen[name] {
			errs = append(errs, fmt.Errorf("--distributor-config-folders: got %q, want NAME=/path, and each name once", folder))
		}
		seen[name] = true
	}
	for _, host := range c.TokenHosts {
		if !backendcall.CheckHost(host) {
			errs = append(errs, fmt.Errorf("--distributor-config-token-hosts: got %q, want HOST or HOST:PORT", host))
		}
	}
	if c.TokenFile != "" && len(c.TokenHosts) == 0 {
		errs = append(errs, errors.New("--distributor-config-token-hosts: got nothing, want the hosts that may be sent the token of --distributor-config-token-file"))
	}
	for _, name := range c.Clouds {
		if !slices.Contains(cloudvalues.Clouds(), name) {
			errs = append(errs, fmt.Errorf("--distributor-config-clouds: got %q, want aws, gcp or azure", name))
		}
	}
	return errors.Join(append(errs, cloud.CheckService("AWS_ENDPOINT_URL_SECRETS_MANAGER", c.AWSURL), cloud.CheckService("--distributor-config-gcp-url", c.GoogleURL))...)
}

// hubToken returns the token that back ends may borrow.
func (c *BackendConfig) hubToken() backendcall.HubToken {
	return backendcall.HubToken{File: c.TokenFile, Hosts: c.TokenHosts}
}
