// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package forge opens pull requests at GitHub, GitLab and Gitea, and updates the ones that it finds
// open.
//
// Its promises:
//
//   - Requests go the way of the repository's definition: through its proxy, with its certificates,
//     to public addresses alone where it is confined to them, and each after the guard has agreed.
//   - The credential goes to the API of the repository's host, or to the URL that the definition
//     has for it; over TLS, unless the credential allows plain HTTP. No redirect is followed.
//   - Every answer is bounded, and every failure is a *mirror.UpstreamError: PUSH_NOT_ALLOWED
//     before anything was sent, PULL_REQUEST_FAILED after that. Words of the server are quoted
//     without anything that looks like a credential.
//
// The three APIs differ in paths and names of fields: a [dialect] has those. The package has no
// state.
package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Carriers carry requests as a definition prescribes. They may be used concurrently.
type Carriers interface {
	// Carrier returns a transport whose idle connections the caller closes. Without credential, it
	// adds none.
	Carrier(def mirror.Definition, guard func() error, credential bool) (http.RoundTripper, error)
	// Token returns the token of the credential for an API.
	Token(ctx context.Context, def mirror.Definition, guard func() error) (secret.Text, error)
	// Explain returns a failure as a *mirror.UpstreamError, or a *mirror.QuietError.
	Explain(err error, def mirror.Definition) error
}

// Client opens pull requests. It may be used concurrently.
type Client struct{ carriers Carriers }

// New returns a client. It sends nothing.
func New(c Carriers) *Client { return &Client{carriers: c} }

// PullRequest asks to merge the branch Head into the branch Base; both are names without
// refs/heads/.
type PullRequest struct{ Head, Base, Title, Body string }

// opened is an open pull request, as the server has it.
type opened struct {
	number      int64
	url         string
	title, body string
}

// Place is where a repository's pull requests are.
type Place struct {
	Forge upstream.Forge
	API   *url.URL
	// Project is the path of the repository at its host, such as team/shop.
	Project string
}

// publicHosts have the forge of hosts that everybody knows.
var publicHosts = map[string]upstream.Forge{
	"github.com": upstream.ForgeGitHub, "gitlab.com": upstream.ForgeGitLab, "codeberg.org": upstream.ForgeGitea,
}

// apiPaths have the path of the API below a host. That of GitHub is the one of GitHub Enterprise.
var apiPaths = map[upstream.Forge]string{
	upstream.ForgeGitHub: "/api/v3", upstream.ForgeGitLab: "/api/v4", upstream.ForgeGitea: "/api/v1",
}

// At returns where the pull requests of a repository are. The error is a *mirror.UpstreamError with
// the reason PUSH_NOT_ALLOWED, and nothing was sent.
func At(def mirror.Definition) (Place, error) {
	refuse := func(message string) (Place, error) {
		return Place{}, &mirror.UpstreamError{Reason: reason.PushNotAllowed, Message: message}
	}
	u, err := url.Parse(def.URL)
	method := def.Credential.Method
	switch {
	case method == upstream.MethodSSH || err != nil || (u.Scheme != "https" && u.Scheme != "http"):
		return refuse("Pull requests need a token, and the repository has an SSH key: use its https URL with a token as the password, or push to the branch itself.")
	case method != upstream.MethodBasic && method != upstream.MethodBearer && method != upstream.MethodGitHubApp:
		return refuse("Pull requests need a token: give the repository a credential with one.")
	}
	at := Place{Forge: cmp.Or(def.Push.Forge, publicHosts[strings.ToLower(u.Hostname())])}
	if at.Forge == "" {
		return refuse(fmt.Sprintf("Whether %s is GitHub, GitLab or Gitea is not known; set push.forge of the repository.", u.Host))
	}
	if at.API, err = apiOf(def, at.Forge, u); err != nil {
		return refuse("The URL of the API cannot be used; correct push.api_url of the repository.")
	}
	if at.API.Scheme != "https" && !def.Credential.AllowPlainHTTP {
		return refuse("The API is reached over plain HTTP, over which everyone on the way could read the credential. Use https, or set allow_plain_http.")
	}
	if at.Project = projectOf(u, at); strings.Count(at.Project, "/") < 1 {
		return refuse("The repository's URL does not have the form https://HOST/OWNER/NAME, by which its pull requests are found.")
	}
	return at, nil
}

// apiOf returns the base URL of the API, without a slash at its end.
func apiOf(def mirror.Definition, kind upstream.Forge, at *url.URL) (*url.URL, error) {
	base := def.Push.APIURL
	switch {
	case base != "":
	case def.Credential.Method == upstream.MethodGitHubApp && def.Credential.APIURL != "":
		base = def.Credential.APIURL
	case kind == upstream.ForgeGitHub && strings.EqualFold(at.Hostname(), "github.com"):
		base = "https://api.github.com"
	default:
		base = at.Scheme + "://" + at.Host + apiPaths[kind]
	}
	return url.Parse(strings.TrimRight(base, "/"))
}

// projectOf returns the path of a repository below the root of its server, which the API is below,
// too. At GitHub and Gitea it has two parts, and at GitLab two or more.
func projectOf(u *url.URL, at Place) string {
	path := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	if root, isBelow := strings.CutSuffix(at.API.Path, apiPaths[at.Forge]); isBelow && at.API.Host == u.Host {
		if below, ok := strings.CutPrefix("/"+path, root+"/"); ok {
			path = below
		}
	}
	parts := strings.Split(path, "/")
	if at.Forge != upstream.ForgeGitLab && len(parts) != 2 {
		return ""
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return ""
		}
	}
	return path
}

// Open opens a pull request, or gives the open one between the same branches the title and the
// body. It returns the address for people, or "" if the server names none.
func (c *Client) Open(ctx context.Context, task mirror.OwnerTask, pr PullRequest) (string, error) {
	at, err := At(task.Definition)
	if err != nil {
		return "", err
	}
	address, err := c.open(ctx, task, at, pr)
	if err == nil {
		return address, nil
	}
	if gone := task.Guard(); gone != nil {
		return "", gone
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("open pull request: %w", context.Cause(ctx))
	}
	return "", c.failed(err, task.Definition)
}

func (c *Client) open(ctx context.Context, task mirror.OwnerTask, at Place, pr PullRequest) (string, error) {
	carrier, err := c.carriers.Carrier(task.Definition, task.Guard, false)
	if err != nil {
		return "", err
	}
	token, err := c.carriers.Token(ctx, task.Definition, task.Guard)
	if err != nil {
		return "", err
	}
	t := &talk{at: at, def: task.Definition, token: token, client: &http.Client{Transport: carrier, CheckRedirect: noRedirect}}
	defer t.client.CloseIdleConnections()
	d := dialects[at.Forge]
	found, err := d.find(ctx, t, pr)
	if err != nil {
		return "", err
	}
	if found == nil {
		if found, err = d.create(ctx, t, pr); hasStatus(err, http.StatusConflict, http.StatusUnprocessableEntity) { // another call was faster
			refused := err
			if found, err = d.find(ctx, t, pr); err == nil && found == nil {
				err = refused
			}
		}
		if err != nil {
			return "", err
		}
	}
	if strings.TrimSpace(found.title) != strings.TrimSpace(pr.Title) || strings.TrimSpace(found.body) != strings.TrimSpace(d.text(pr.Body)) {
		if err := d.update(ctx, t, found.number, pr); err != nil {
			return "", err
		}
	}
	return checkAddress(found.url), nil
}

// failed returns a failure as it is promised.
func (c *Client) failed(err error, def mirror.Definition) error {
	const beginning = "The commit was pushed to its branch, but its pull request was not opened. "
	e := &mirror.UpstreamError{Reason: reason.PullRequestFailed, Cause: err}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		e.Message, e.RetryAfter = beginning+refused.advice(def), refused.retryAfter
		return e
	}
	explained := c.carriers.Explain(err, def)
	why, ok := errors.AsType[*mirror.UpstreamError](explained)
	if !ok {
		e.Message = beginning + "Its host asks to slow down; push again later."
		return e
	}
	e.Message, e.RetryAfter = beginning+why.Message, why.RetryAfter
	return e
}

// maxAddress bounds the address of a pull request.
const maxAddress = 2048

// checkAddress returns an address that people may be shown as a link, or "". A server chooses it.
func checkAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxAddress || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return ""
	}
	return u.String()
}
