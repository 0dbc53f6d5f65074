// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/internal/upstream"
)

const (
	// azureUser is the user to whom a refresh token of the registry is the password
	// (https://learn.microsoft.com/azure/container-registry/container-registry-authentication).
	azureUser = "00000000-0000-0000-0000-000000000000"
	// azureScope is the audience that registries accept even where those of Azure Resource Manager are
	// switched off
	// (https://learn.microsoft.com/azure/container-registry/container-registry-disable-authentication-as-arm).
	azureScope  = "https://containerregistry.azure.net/.default"
	azureAdvice = "label gitcache's pods with azure.workload.identity/use: \"true\" and annotate its service account with " +
		"azure.workload.identity/client-id"
	// azureLifetime is how long a refresh token is used that does not say: they are good for three hours.
	azureLifetime = time.Hour
)

// exchangeAzure trades the pod's token for one of Entra ID, and that, at the registry, for a refresh
// token of it (https://azure.github.io/acr/AAD-OAuth.html). The registry may have it: it is the
// cloud's own, or the operator listed it.
func (s *services) exchangeAzure(ctx context.Context, id identity, carrier http.RoundTripper) (login, error) {
	switch {
	case id.principal == "":
		return login{}, misconfigured("gitcache has no client id at Azure: AZURE_CLIENT_ID is not set; %s, or put it into the credential's principal.", azureAdvice)
	case id.scope == "":
		return login{}, misconfigured("gitcache knows no tenant of Azure: AZURE_TENANT_ID is not set; %s, or put it into the credential's scope.", azureAdvice)
	}
	token, err := readToken(s.config.AzureTokenFile, "AZURE_FEDERATED_TOKEN_FILE", azureAdvice)
	if err != nil {
		return login{}, err
	}
	c := call{
		service: "Microsoft Entra ID", carrier: s.outside, hidden: []string{token},
		advice: "give the application " + id.principal + " a federated credential for gitcache's service account",
	}
	var granted struct {
		AccessToken string `json:"access_token"`
	}
	// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
	to := strings.TrimSuffix(s.config.AzureAuthorityURL, "/") + "/" + url.PathEscape(id.scope) + "/oauth2/v2.0/token"
	err = c.postForm(ctx, to, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id.principal}, "scope": {azureScope},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token},
	}, &granted)
	if err != nil {
		return login{}, err
	}
	if !isToken(granted.AccessToken) {
		at, _ := url.Parse(to)
		return login{}, c.unusable(at)
	}
	return s.exchangeAtRegistry(ctx, id, granted.AccessToken, carrier)
}

// exchangeAtRegistry trades a token of Entra ID for a refresh token of a registry.
func (s *services) exchangeAtRegistry(ctx context.Context, id identity, token string, carrier http.RoundTripper) (login, error) {
	c := call{
		service: "The registry " + id.registry, carrier: carrier, hidden: []string{token},
		advice: "give the application " + id.principal + " the role AcrPull there",
	}
	at := url.URL{Scheme: "https", Host: id.registry, Path: "/oauth2/exchange"}
	var answer struct {
		RefreshToken string `json:"refresh_token"`
	}
	err := c.postForm(ctx, at.String(), url.Values{
		"grant_type": {"access_token"}, "service": {at.Hostname()}, "tenant": {id.scope}, "access_token": {token},
	}, &answer)
	if err != nil {
		return login{}, err
	}
	if !isToken(answer.RefreshToken) {
		return login{}, c.unusable(&at)
	}
	ends := endOf(answer.RefreshToken)
	if ends.IsZero() {
		ends = s.now().Add(azureLifetime)
	}
	return login{DockerLogin: upstream.DockerLogin{Username: azureUser, Password: secret.Text(answer.RefreshToken)}, ends: ends}, nil
}

// endOf returns when a token says that it ends, or the zero time. Its signature is the registry's
// business: a wrong time costs another exchange.
func endOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 {
		return time.Time{}
	}
	return fromSeconds(claims.Expiry)
}
