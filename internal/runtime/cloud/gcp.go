// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
)

const (
	// gcpScope is the scope of tokens. The roles of the identity bound it further.
	gcpScope    = "https://www.googleapis.com/auth/cloud-platform"
	gcpAudience = "//iam.googleapis.com/"
	gcpFlavor   = "Metadata-Flavor"
	// gcpImpersonated is how long a service account's token lasts: the most that is allowed by default.
	gcpImpersonated = "3600s"
)

// GoogleToken returns an access token: of the metadata server, or, where a provider of workload
// identities is named, by trade of the pod's token. Account is the email of a service account; empty:
// the pod's own. Provider is a full name, such as projects/NUMBER/locations/global/…
func (i *Identity) GoogleToken(ctx context.Context, provider, account string) (Token, error) {
	if provider == "" {
		return i.metadataToken(ctx, account)
	}
	return i.federatedToken(ctx, provider, account)
}

// metadataToken asks the metadata server of the node, or of GKE
// (https://cloud.google.com/compute/docs/metadata/querying-metadata). It is only asked in this one way, for
// this one thing, and its answer must have its header: another server might have taken its place.
func (i *Identity) metadataToken(ctx context.Context, account string) (Token, error) {
	if account == "" {
		account = "default"
	}
	c := i.atNode("Google's metadata server",
		"bind "+i.params.Caller+"'s Kubernetes service account to an account of Google, and give that the role "+i.params.GoogleRole)
	to := "http://" + i.params.Config.GCPMetadataHost + "/computeMetadata/v1/instance/service-accounts/" + url.PathEscape(account) + "/token"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return Token{}, errors.New("make request: not a URL")
	}
	req.Header.Set(gcpFlavor, "Google")
	data, header, err := c.Do(ctx, req)
	if err != nil {
		return Token{}, err
	}
	if header.Get(gcpFlavor) != "Google" {
		return Token{}, c.Unusable(req.URL)
	}
	var answer granted
	if err := c.Decode(req.URL, data, &answer); err != nil {
		return Token{}, err
	}
	return i.token(c, req.URL, answer)
}

// federatedToken trades the pod's token at Google's STS (RFC 8693,
// https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token), and what that gives for a token of
// a service account if there is one.
func (i *Identity) federatedToken(ctx context.Context, provider, account string) (Token, error) {
	setting := "LEAT_" + strings.ToUpper(i.params.Prefix) + "_GCP_TOKEN_FILE"
	advice := "project a token for the audience of the provider into " + i.params.Caller + "'s pods, and name its file there"
	token, err := i.readToken(i.params.Config.GCPTokenFile, setting, advice)
	if err != nil {
		return Token{}, err
	}
	c := i.Call("Google's STS", "have the provider "+provider+" accept the issuer and the audience of "+i.params.Caller+"'s token", token)
	var answer granted
	to := strings.TrimSuffix(i.params.Config.GCPSTSURL, "/") + "/v1/token"
	err = c.PostForm(ctx, to, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "audience": {gcpAudience + provider}, "scope": {gcpScope},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {token},
	}, &answer)
	if err != nil {
		return Token{}, err
	}
	at, _ := url.Parse(to)
	federated, err := i.token(c, at, answer)
	if err != nil || account == "" {
		return federated, err
	}
	return i.impersonate(ctx, account, federated.Text.Reveal())
}

// impersonate returns a token of a service account
// (https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken).
func (i *Identity) impersonate(ctx context.Context, account, bearer string) (Token, error) {
	c := i.Call("Google's IAM", "give "+i.params.Caller+"'s identity the role roles/iam.workloadIdentityUser at the service account "+account, bearer)
	body, err := json.Marshal(map[string]any{"scope": []string{gcpScope}, "lifetime": gcpImpersonated})
	if err != nil {
		return Token{}, err
	}
	to := strings.TrimSuffix(i.params.Config.GCPIAMURL, "/") + "/v1/projects/-/serviceAccounts/" + url.PathEscape(account) + ":generateAccessToken"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return Token{}, errors.New("make request: not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+bearer)
	data, _, err := c.Do(ctx, req)
	if err != nil {
		return Token{}, err
	}
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if err := c.Decode(req.URL, data, &answer); err != nil {
		return Token{}, err
	}
	if !IsToken(answer.AccessToken) {
		return Token{}, c.Unusable(req.URL)
	}
	return Token{Text: secret.Text(answer.AccessToken), Ends: answer.ExpireTime}, nil
}

// granted is the answer of a token service (RFC 6749, section 5.1).
type granted struct {
	AccessToken string `json:"access_token"`
	ExpiresIn   int64  `json:"expires_in"`
}

// token returns what a service gave, if it is a token.
func (i *Identity) token(c Call, from *url.URL, answer granted) (Token, error) {
	if !IsToken(answer.AccessToken) {
		return Token{}, c.Unusable(from)
	}
	life := time.Duration(min(max(answer.ExpiresIn, 0), int64(maxLifetime/time.Second))) * time.Second
	return Token{Text: secret.Text(answer.AccessToken), Ends: i.params.Now().Add(life)}, nil
}
