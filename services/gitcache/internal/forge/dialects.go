// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
)

// dialect is what one forge calls things.
type dialect interface {
	// find returns the open pull request between two branches of the repository itself, or nil.
	find(ctx context.Context, t *talk, pr PullRequest) (*opened, error)
	create(ctx context.Context, t *talk, pr PullRequest) (*opened, error)
	update(ctx context.Context, t *talk, number int64, pr PullRequest) error
	// text returns a description as it is sent.
	text(body string) string
}

var dialects = map[upstream.Forge]dialect{
	upstream.ForgeGitHub: github{}, upstream.ForgeGitLab: gitlab{}, upstream.ForgeGitea: gitea{},
}

// pull is a pull request of GitHub or Gitea.
type pull struct {
	Number  int64  `json:"number"`
	HTMLURL string `json:"html_url"`
	Title   string `json:"title"`
	Body    string `json:"body"`
	State   string `json:"state"`
	Head    side   `json:"head"`
	Base    side   `json:"base"`
}

// side is one of the two branches.
type side struct {
	Ref  string `json:"ref"`
	Repo *struct {
		FullName string `json:"full_name"`
	} `json:"repo"` // nil: it was deleted
}

func (p pull) opened() *opened {
	return &opened{number: p.Number, url: p.HTMLURL, title: p.Title, body: p.Body}
}

// isFor reports whether a pull request is open between the two branches of the repository itself,
// and not between those of a fork.
func (p pull) isFor(pr PullRequest, project string) bool {
	return p.State == "open" && p.Head.Ref == pr.Head && p.Base.Ref == pr.Base && p.Head.Repo != nil && strings.EqualFold(p.Head.Repo.FullName, project)
}

// pullOf returns the pull request of a list, or nil.
func pullOf(pulls []pull, pr PullRequest, project string) *opened {
	for _, p := range pulls {
		if p.isFor(pr, project) {
			return p.opened()
		}
	}
	return nil
}

// github is the REST API of GitHub, version 2022-11-28.
type github struct{}

func (github) path(t *talk) string { return "/repos/" + escaped(t.at.Project) + "/pulls" }

func (g github) find(ctx context.Context, t *talk, pr PullRequest) (*opened, error) {
	owner, _, _ := strings.Cut(t.at.Project, "/")
	var pulls []pull
	err := t.call(ctx, http.MethodGet, g.path(t), url.Values{
		"state": {"open"}, "head": {owner + ":" + pr.Head}, "base": {pr.Base}, "per_page": {"10"},
	}, nil, &pulls)
	return pullOf(pulls, pr, t.at.Project), err
}

func (g github) create(ctx context.Context, t *talk, pr PullRequest) (*opened, error) {
	var p pull
	err := t.call(ctx, http.MethodPost, g.path(t), nil, map[string]string{"title": pr.Title, "body": pr.Body, "head": pr.Head, "base": pr.Base}, &p)
	return p.opened(), err
}

func (g github) update(ctx context.Context, t *talk, number int64, pr PullRequest) error {
	return t.call(ctx, http.MethodPatch, fmt.Sprintf("%s/%d", g.path(t), number), nil, map[string]string{"title": pr.Title, "body": pr.Body}, new(pull))
}

func (github) text(body string) string { return body }

// gitea is the API of Gitea and Forgejo, version 1: GitHub's, except for the search.
type gitea struct{ github }

const (
	giteaPage = 50 // the most that Gitea returns by default
	// maxPages bounds the search among the open pull requests.
	maxPages = 20
)

// find goes through the open pull requests: not every version has a filter by branches.
func (g gitea) find(ctx context.Context, t *talk, pr PullRequest) (*opened, error) {
	for page := range maxPages {
		var pulls []pull
		err := t.call(ctx, http.MethodGet, g.path(t), url.Values{
			"state": {"open"}, "sort": {"recentupdate"}, "limit": {fmt.Sprint(giteaPage)}, "page": {fmt.Sprint(page + 1)},
		}, nil, &pulls)
		if err != nil {
			return nil, err
		}
		if found := pullOf(pulls, pr, t.at.Project); found != nil || len(pulls) == 0 {
			return found, nil
		}
	}
	return nil, nil
}

// gitlab is the API of GitLab, version 4.
type gitlab struct{}

// mergeRequest is GitLab's pull request.
type mergeRequest struct {
	IID             int64  `json:"iid"`
	WebURL          string `json:"web_url"`
	Title           string `json:"title"`
	Description     string `json:"description"`
	State           string `json:"state"`
	SourceBranch    string `json:"source_branch"`
	TargetBranch    string `json:"target_branch"`
	SourceProjectID int64  `json:"source_project_id"`
	TargetProjectID int64  `json:"target_project_id"`
}

func (m mergeRequest) opened() *opened {
	return &opened{number: m.IID, url: m.WebURL, title: m.Title, body: m.Description}
}

func (gitlab) path(t *talk) string {
	return "/projects/" + url.PathEscape(t.at.Project) + "/merge_requests"
}

func (g gitlab) find(ctx context.Context, t *talk, pr PullRequest) (*opened, error) {
	var found []mergeRequest
	err := t.call(ctx, http.MethodGet, g.path(t), url.Values{
		"state": {"opened"}, "source_branch": {pr.Head}, "target_branch": {pr.Base}, "per_page": {"20"},
	}, nil, &found)
	for _, m := range found {
		if m.State == "opened" && m.SourceBranch == pr.Head && m.TargetBranch == pr.Base && m.SourceProjectID == m.TargetProjectID {
			return m.opened(), err
		}
	}
	return nil, err
}

func (g gitlab) create(ctx context.Context, t *talk, pr PullRequest) (*opened, error) {
	var m mergeRequest
	err := t.call(ctx, http.MethodPost, g.path(t), nil, map[string]string{
		"title": pr.Title, "description": g.text(pr.Body), "source_branch": pr.Head, "target_branch": pr.Base,
	}, &m)
	return m.opened(), err
}

func (g gitlab) update(ctx context.Context, t *talk, number int64, pr PullRequest) error {
	return t.call(ctx, http.MethodPut, fmt.Sprintf("%s/%d", g.path(t), number), nil,
		map[string]string{"title": pr.Title, "description": g.text(pr.Body)}, new(mergeRequest))
}

// text escapes lines that begin with a slash: GitLab would run them as commands of the credential's
// user, such as /merge. Markdown shows a slash behind a backslash as a slash.
func (gitlab) text(body string) string {
	lines := strings.Split(body, "\n")
	for i, line := range lines {
		if rest := strings.TrimLeft(line, " \t\r"); strings.HasPrefix(rest, "/") {
			lines[i] = line[:len(line)-len(rest)] + `\` + rest
		}
	}
	return strings.Join(lines, "\n")
}

// escaped returns a path with its parts escaped.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}
