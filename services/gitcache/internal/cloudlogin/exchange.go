// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudlogin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	awsMessage = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
	// gcpUser is the user to whom an access token is the password
	// (https://cloud.google.com/artifact-registry/docs/docker/authentication#token).
	gcpUser = "oauth2accesstoken"
	// azureUser is the user to whom a refresh token of the registry is the password
	// (https://learn.microsoft.com/azure/container-registry/container-registry-authentication).
	azureUser = "00000000-0000-0000-0000-000000000000"
	// azureScope is the audience that registries accept even where the audiences of Azure Resource
	// Manager are switched off
	// (https://learn.microsoft.com/azure/container-registry/container-registry-disable-authentication-as-arm).
	azureScope = "https://containerregistry.azure.net/.default"
	// azureLifetime is how long a refresh token without a lifetime is used: they are good for three
	// hours.
	azureLifetime = time.Hour
)

// identity is the identity that a login is for. Repositories with an equal one share it.
type identity struct {
	cloud            upstream.Cloud
	principal, scope string
	registry         string // set where logins are for one registry: at Azure; else empty
}

// login is a login of a registry.
type login struct {
	upstream.DockerLogin
	ends time.Time
}

// exchangeAWS trades the pod's token for temporary keys, and those for a login that every registry of
// the region takes for 12 hours
// (https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html).
func (l *Logins) exchangeAWS(ctx context.Context, id identity) (login, error) {
	if id.scope == "" {
		return login{}, rejected("gitcache does not know the region of the registry; put it into the credential's scope, or set AWS_REGION.")
	}
	keys, err := l.identity.AWSKeys(ctx, id.principal, id.scope)
	if err != nil {
		return login{}, err
	}
	to := l.config.ECRURL
	if to == "" {
		to = cloud.AWSService("api.ecr", id.scope)
	}
	body := []byte("{}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(to, "/")+"/", bytes.NewReader(body))
	if err != nil {
		return login{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", awsMessage)
	keys.Sign(req, body, id.scope, "ecr", l.now())
	c := l.identity.Call("Amazon ECR", "give its role the right ecr:GetAuthorizationToken, and those to pull",
		keys.ID, keys.Secret.Reveal(), keys.Token.Reveal())
	data, _, err := c.Do(ctx, req)
	if err != nil {
		return login{}, err
	}
	var answer struct {
		AuthorizationData []struct {
			AuthorizationToken string  `json:"authorizationToken"`
			ExpiresAt          float64 `json:"expiresAt"`
		} `json:"authorizationData"`
	}
	if err := c.Decode(req.URL, data, &answer); err != nil {
		return login{}, err
	}
	if len(answer.AuthorizationData) == 0 {
		return login{}, c.Unusable(req.URL)
	}
	got := answer.AuthorizationData[0]
	pair, err := base64.StdEncoding.DecodeString(got.AuthorizationToken)
	user, password, ok := strings.Cut(string(pair), ":")
	if err != nil || !ok || !cloud.IsToken(user) || !cloud.IsToken(password) {
		return login{}, c.Unusable(req.URL)
	}
	return login{
		DockerLogin: upstream.DockerLogin{Username: user, Password: secret.Text(password)}, ends: fromSeconds(got.ExpiresAt),
	}, nil
}

// exchangeGCP returns an access token as a login.
func (l *Logins) exchangeGCP(ctx context.Context, id identity) (login, error) {
	token, err := l.identity.GoogleToken(ctx, id.scope, id.principal)
	if err != nil {
		return login{}, err
	}
	return login{DockerLogin: upstream.DockerLogin{Username: gcpUser, Password: token.Text}, ends: token.Ends}, nil
}

// exchangeAzure trades the pod's token for one of Entra ID, and that, at the registry, for a refresh
// token of it (https://azure.github.io/acr/AAD-OAuth.html). The registry may have it: it is the
// cloud's own, or the operator listed it.
func (l *Logins) exchangeAzure(ctx context.Context, id identity, carrier http.RoundTripper) (login, error) {
	granted, err := l.identity.EntraToken(ctx, id.scope, id.principal, azureScope)
	if err != nil {
		return login{}, err
	}
	token := granted.Text.Reveal()
	c := l.identity.Call("The registry "+id.registry, "give the application "+id.principal+" the role AcrPull there", token)
	c.Carrier = carrier
	at := url.URL{Scheme: "https", Host: id.registry, Path: "/oauth2/exchange"}
	var answer struct {
		RefreshToken string `json:"refresh_token"`
	}
	err = c.PostForm(ctx, at.String(), url.Values{
		"grant_type": {"access_token"}, "service": {at.Hostname()}, "tenant": {id.scope}, "access_token": {token},
	}, &answer)
	if err != nil {
		return login{}, err
	}
	if !cloud.IsToken(answer.RefreshToken) {
		return login{}, c.Unusable(&at)
	}
	ends := endOf(answer.RefreshToken)
	if ends.IsZero() {
		ends = l.now().Add(azureLifetime)
	}
	return login{DockerLogin: upstream.DockerLogin{Username: azureUser, Password: secret.Text(answer.RefreshToken)}, ends: ends}, nil
}

// endOf returns the end that a token names, or the zero time. Its signature is the registry's
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

// fromSeconds returns the time that a number of seconds since 1970 stands for.
func fromSeconds(seconds float64) time.Time {
	if math.IsNaN(seconds) || seconds < 0 || seconds > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// reasons are the reasons that people see for the kinds of failures.
var reasons = map[cloud.Kind]reason.Reason{
	cloud.Refused: reason.UpstreamAuthRejected, cloud.Misconfigured: reason.UpstreamAuthRejected,
	cloud.Unreachable: reason.UpstreamUnreachable, cloud.RateLimited: reason.UpstreamRateLimited, cloud.Unusable: reason.UpstreamProtocol,
}

// insteads are where a credential can hold what a setting does not.
var insteads = map[string]string{"AWS_ROLE_ARN": "principal", "AZURE_CLIENT_ID": "principal", "AZURE_TENANT_ID": "scope"}

// translated returns an error of package cloud as one of a repository, and others as they are.
func translated(err error) error {
	failed, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err
	}
	message := failed.Message
	if field := insteads[failed.Setting]; field != "" {
		message += " You can also put it into the credential's " + field + "."
	}
	return &mirror.UpstreamError{Reason: reasons[failed.Kind], Message: message, RetryAfter: failed.RetryAfter, Cause: failed.Cause}
}

// rejected is a failure of gitcache's own settings.
func rejected(format string, args ...any) error {
	return &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected, Message: fmt.Sprintf(format, args...)}
}
