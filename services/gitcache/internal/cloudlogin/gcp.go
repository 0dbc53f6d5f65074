// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/upstream"
)

const (
	// gcpUser is the user to whom an access token is the password
	// (https://cloud.google.com/artifact-registry/docs/docker/authentication#token).
	gcpUser = "oauth2accesstoken"
	// gcpScope is what tokens are good for. The roles of the identity bound it further.
	gcpScope    = "https://www.googleapis.com/auth/cloud-platform"
	gcpAudience = "//iam.googleapis.com/"
	gcpFlavor   = "Metadata-Flavor"
	// gcpImpersonated is how long a service account's token lasts: the most that is allowed by default.
	gcpImpersonated = "3600s"
)

// exchangeGCP returns an access token as a login: of the metadata server, or, where the credential
// names a provider of workload identities, by trade of the pod's token.
func (s *services) exchangeGCP(ctx context.Context, id identity) (login, error) {
	if id.scope == "" {
		return s.metadataToken(ctx, id.principal)
	}
	return s.federatedToken(ctx, id)
}

// metadataToken asks the metadata server of the node, or of GKE
// (https://cloud.google.com/compute/docs/metadata/querying-metadata). It is only asked in this one way, for
// this one thing, and its answer must have its header: another server might have taken its place.
func (s *services) metadataToken(ctx context.Context, account string) (login, error) {
	if account == "" {
		account = "default"
	}
	c := call{
		service: "Google's metadata server", carrier: s.node,
		advice: "bind gitcache's Kubernetes service account to an account of Google, and give that the role roles/artifactregistry.reader",
	}
	to := "http://" + s.config.GCPMetadataHost + "/computeMetadata/v1/instance/service-accounts/" + url.PathEscape(account) + "/token"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return login{}, errors.New("make request: not a URL")
	}
	req.Header.Set(gcpFlavor, "Google")
	data, header, err := c.do(ctx, req)
	if err != nil {
		return login{}, err
	}
	if header.Get(gcpFlavor) != "Google" {
		return login{}, c.unusable(req.URL)
	}
	return s.accessToken(c, to, data)
}

// federatedToken trades the pod's token at Google's STS (RFC 8693,
// https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token), and what that gives for a token of
// a service account if the credential names one.
func (s *services) federatedToken(ctx context.Context, id identity) (login, error) {
	const advice = "project a token for the audience of the provider into gitcache's pods, and name its file there"
	token, err := readToken(s.config.GCPTokenFile, "LEAT_GITCACHE_GCP_TOKEN_FILE", advice)
	if err != nil {
		return login{}, err
	}
	c := call{
		service: "Google's STS", carrier: s.outside, hidden: []string{token},
		advice: "have the provider " + id.scope + " accept the issuer and the audience of gitcache's token",
	}
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	to := strings.TrimSuffix(s.config.GCPSTSURL, "/") + "/v1/token"
	err = c.postForm(ctx, to, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "audience": {gcpAudience + id.scope}, "scope": {gcpScope},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {token},
	}, &answer)
	at, _ := url.Parse(to)
	switch {
	case err != nil:
		return login{}, err
	case !isToken(answer.AccessToken):
		return login{}, c.unusable(at)
	case id.principal == "":
		return login{DockerLogin: gcpLogin(answer.AccessToken), ends: s.now().Add(lifetime(answer.ExpiresIn))}, nil
	}
	return s.impersonate(ctx, id.principal, answer.AccessToken)
}

// impersonate returns a token of a service account
// (https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken).
func (s *services) impersonate(ctx context.Context, account, bearer string) (login, error) {
	c := call{
		service: "Google's IAM", carrier: s.outside, hidden: []string{bearer},
		advice: "give gitcache's identity the role roles/iam.workloadIdentityUser at the service account " + account,
	}
	body, err := json.Marshal(map[string]any{"scope": []string{gcpScope}, "lifetime": gcpImpersonated})
	if err != nil {
		return login{}, err
	}
	to := strings.TrimSuffix(s.config.GCPIAMURL, "/") + "/v1/projects/-/serviceAccounts/" + url.PathEscape(account) + ":generateAccessToken"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return login{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+bearer)
	data, _, err := c.do(ctx, req)
	if err != nil {
		return login{}, err
	}
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if err := c.decode(to, data, &answer); err != nil {
		return login{}, err
	}
	if !isToken(answer.AccessToken) {
		return login{}, c.unusable(req.URL)
	}
	return login{DockerLogin: gcpLogin(answer.AccessToken), ends: answer.ExpireTime}, nil
}

// accessToken reads the answer of a metadata server.
func (s *services) accessToken(c call, from string, data []byte) (login, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if err := c.decode(from, data, &answer); err != nil {
		return login{}, err
	}
	if !isToken(answer.AccessToken) {
		at, _ := url.Parse(from)
		return login{}, c.unusable(at)
	}
	return login{DockerLogin: gcpLogin(answer.AccessToken), ends: s.now().Add(lifetime(answer.ExpiresIn))}, nil
}

func gcpLogin(token string) upstream.DockerLogin {
	return upstream.DockerLogin{Username: gcpUser, Password: secret.Text(token)}
}

// lifetime returns a bounded number of seconds.
func lifetime(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 0), int64(maxLifetime/time.Second))) * time.Second
}
