// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package registryauth

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Logins trade the identity of gitcache's pod at a cloud for logins to that cloud's registries. They may
// be used concurrently.
type Logins interface {
	// Check returns nil if a credential of the method workload_identity can be used for a registry, and
	// may be sent there. The error is a *mirror.FieldError.
	Check(c upstream.Credential, registry *url.URL) error
	// Login returns a login for a registry, after the same check, and when it ends. All callers share the
	// login of one identity. The carrier takes requests to the registry alone, and stays usable after the
	// call. Errors are a *mirror.FieldError, a *mirror.UpstreamError, or the context's cause.
	Login(ctx context.Context, c upstream.Credential, registry *url.URL, carrier http.RoundTripper) (
		upstream.DockerLogin, time.Time, error,
	)
	// Forget drops the login of a credential, which the registry refused.
	Forget(c upstream.Credential, registry *url.URL)
}

// Identity is a credential that is traded for logins to one registry.
type Identity struct {
	Logins     Logins
	Credential upstream.Credential
	Registry   *url.URL
	// Carrier is not under the guard of the fetch: an exchange touches no repository, and others share
	// its answer.
	Carrier http.RoundTripper
}

func (c *Identity) login(ctx context.Context) (upstream.DockerLogin, time.Time, error) {
	return c.Logins.Login(ctx, c.Credential, c.Registry, c.Carrier)
}

func (c *Identity) forget() { c.Logins.Forget(c.Credential, c.Registry) }

// LoginOf returns what a definition authenticates with; the zero value is nothing.
func LoginOf(def mirror.Definition, host string) (upstream.DockerLogin, error) {
	switch c := def.Credential; c.Method {
	case upstream.MethodBasic:
		return upstream.DockerLogin{Username: c.Username, Password: c.Password}, nil
	case upstream.MethodBearer:
		return upstream.DockerLogin{Token: c.Token}, nil
	case upstream.MethodDockerConfig:
		login, err := upstream.ParseDockerConfig(c.DockerConfig, host)
		if err != nil {
			return login, &mirror.FieldError{Field: "credential.docker_config.config_json", Message: "It " + err.Error() + "."}
		}
		return login, nil
	default:
		return upstream.DockerLogin{}, nil
	}
}

func isEmpty(l upstream.DockerLogin) bool {
	return l.Password == "" && l.Refresh == "" && l.Token == ""
}

func basicHeader(l upstream.DockerLogin) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password.Reveal()))
}
