// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

const (
	exchangePath = "/oauth/token"
	// The variables in which GitHub Actions tells a job where it obtains its token.
	envGitHubURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	envGitHubToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"

	// maxWorkloadAnswer bounds the answers of the hub and of GitHub, and maxWorkloadFile a token's file.
	maxWorkloadAnswer = 64 << 10
	maxWorkloadFile   = 64 << 10
	// workloadReserve is how long before its end an access token of a workload is replaced. The shortest
	// of them live for a minute.
	workloadReserve = 15 * time.Second
	// exchangeTimeout bounds an exchange with everything that it needs.
	exchangeTimeout = 30 * time.Second
)

// Workload signs a job of a CI system, or a pod, in by the token that its platform gives it. Its access
// tokens are kept in a file that only its owner can read.
type Workload struct {
	source    settings.Workload
	path      string // empty: access tokens are not kept
	lookupEnv func(string) (string, bool)
	http      *http.Client
	hub       string
}

// OpenWorkload returns the workload of a source. It reads nothing yet. path is where its access tokens
// are kept.
func OpenWorkload(source settings.Workload, path string, lookupEnv func(string) (string, bool), p Params) (*Workload, error) {
	base, err := rpc.NewClient(rpc.ClientParams{BaseURL: p.Server, Telemetry: telemetry.Noop(), IsOutside: true, CAPEM: p.CAPEM})
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", p.Server, err)
	}
	return &Workload{source: source, path: path, lookupEnv: lookupEnv, http: base.HTTP, hub: base.BaseURL}, nil
}

// HasGitHubToken reports whether the environment belongs to a job of GitHub Actions that may obtain
// a token.
func HasGitHubToken(lookupEnv func(string) (string, bool)) bool {
	address, ok := lookupEnv(envGitHubURL)
	return ok && address != ""
}

// AccessToken returns an access token for one service of the hub.
func (w *Workload) AccessToken(ctx context.Context, audience string) (AccessToken, error) {
	kept := map[string]AccessToken{}
	if content, err := os.ReadFile(w.path); err == nil {
		_ = json.Unmarshal(content, &kept) // a file that cannot be read is written again
	}
	if token := kept[audience]; token.lasts(workloadReserve) {
		return token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	own, err := w.token(ctx)
	if err != nil {
		return AccessToken{}, err
	}
	token, err := w.exchange(ctx, own, audience)
	if err != nil {
		return AccessToken{}, err
	}
	if kept == nil {
		kept = map[string]AccessToken{}
	}
	kept[audience] = token
	if content, err := json.Marshal(kept); err == nil {
		_ = settings.WriteFile(w.path, content) // without the file the next call exchanges again
	}
	return token, nil
}

// token returns the token of the workload's platform.
func (w *Workload) token(ctx context.Context) (string, error) {
	switch {
	case w.source.TokenFile != "":
		file, err := os.Open(w.source.TokenFile)
		if err != nil {
			return "", failure.File(err, "The file should contain the token of the job or the pod; check --workload-token-file.")
		}
		defer func() { _ = file.Close() }() // it was only read
		content, err := io.ReadAll(io.LimitReader(file, maxWorkloadFile))
		return strings.TrimSpace(string(content)), err
	case w.source.TokenEnv != "":
		if token, _ := w.lookupEnv(w.source.TokenEnv); token != "" {
			return token, nil
		}
		return "", failure.New("the variable "+w.source.TokenEnv+" is not set",
			"Let the CI system put the job's token into it, such as by id_tokens of GitLab.")
	}
	return w.gitHubToken(ctx)
}

// gitHubToken asks GitHub for the token of the job.
func (w *Workload) gitHubToken(ctx context.Context) (string, error) {
	address, _ := w.lookupEnv(envGitHubURL)
	bearer, _ := w.lookupEnv(envGitHubToken)
	const advice = "Give the job the permission id-token: write, or name the token by --workload-token-file or --workload-token-env."
	if address == "" || bearer == "" {
		return "", failure.New("the job has no token of its own", advice)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", failure.New(envGitHubURL+" is not a URL", advice)
	}
	query := u.Query()
	query.Set("audience", cmp.Or(w.source.Audience, w.hub))
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return "", failure.New(envGitHubURL+" is not a URL", advice)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	// The address is GitHub's, so neither the hub's certificates nor its connections are used.
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", fmt.Errorf("ask GitHub for the job's token: %w", errors.Unwrap(err))
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	var answer struct {
		Value string `json:"value"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxWorkloadAnswer)).Decode(&answer)
	if err != nil || res.StatusCode != http.StatusOK || answer.Value == "" {
		return "", failure.New(fmt.Sprintf("GitHub answered %d and no token", res.StatusCode), advice)
	}
	return answer.Value, nil
}

// exchange obtains an access token (RFC 8693).
func (w *Workload) exchange(ctx context.Context, own, audience string) (AccessToken, error) {
	form := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {own}, "audience": {audience},
	}
	if w.source.Rule != "" {
		form.Set("trust_rule", w.source.Rule)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.hub+exchangePath, strings.NewReader(form.Encode()))
	if err != nil {
		return AccessToken{}, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	at := time.Now()
	res, err := w.http.Do(req)
	if err != nil {
		return AccessToken{}, fmt.Errorf("exchange the workload's token: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	var answer struct {
		Token       string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
		Description string `json:"error_description"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxWorkloadAnswer)).Decode(&answer)
	if err != nil || res.StatusCode != http.StatusOK || answer.Token == "" {
		return AccessToken{}, failure.New("the hub does not accept the workload's token: "+cmp.Or(answer.Description, res.Status),
			"An administrator of the hub sees its rules with leat get trustrules. "+
				"docs/guides/pipelines.md explains what they need.")
	}
	return AccessToken{Token: answer.Token, Expires: at.Add(time.Duration(answer.ExpiresIn) * time.Second)}, nil
}

// workloadTokens are access tokens for the hub itself.
type workloadTokens struct{ *Workload }

var _ identity.TokenSource = workloadTokens{}

// Token implements identity.TokenSource.
func (w workloadTokens) Token(ctx context.Context) (string, error) {
	token, err := w.AccessToken(ctx, identity.ServiceDistributor)
	return token.Token, err
}
