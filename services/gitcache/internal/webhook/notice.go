// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// kind is what a delivery is about.
type kind int

const (
	kindOther kind = iota // something that moves no refs
	kindPing              // a test of the connection
	kindRefs              // refs moved, appeared or vanished
)

// notice is a delivery in Leat's words.
type notice struct {
	kind kind
	// urls are all that the delivery calls the repository by, as they stand there.
	urls []string
	// path is the end of the repository's path, for a provider that may send no URL at all; empty
	// otherwise.
	path string
	// delivery is the provider's id of the delivery; empty where there is none.
	delivery string
}

// errNoRepository means that a delivery about refs names no repository.
var errNoRepository = errors.New("no repository is named")

// refs returns a notice that refs of the repository of those URLs moved.
func refs(urls ...string) (notice, error) {
	urls = slices.DeleteFunc(urls, func(u string) bool { return address(u) == "" })
	if len(urls) == 0 {
		return notice{}, errNoRepository
	}
	return notice{kind: kindRefs, urls: urls}, nil
}

// concerns reports whether a repository of that URL is the one that the delivery names.
func (n notice) concerns(repository string) bool {
	wanted := address(repository)
	if wanted == "" {
		return false
	}
	if n.path != "" && strings.HasSuffix(wanted, "/"+n.path) {
		return true
	}
	return slices.ContainsFunc(n.urls, func(u string) bool { return address(u) == wanted })
}

// target names the repository for a limit; every delivery about it has the same.
func (n notice) target() string {
	if len(n.urls) == 0 {
		return n.path
	}
	return address(n.urls[0])
}

// decode reads JSON, also where a form carries it in a field named payload.
func decode(header http.Header, body []byte, into any) error {
	if media, _, err := mime.ParseMediaType(header.Get("Content-Type")); err == nil && media == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return fmt.Errorf("decode form: %w", err)
		}
		body = []byte(form.Get("payload"))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode payload: %w", err)
	}
	return nil
}

func readGitHub(header http.Header, body []byte) (notice, error) {
	return readHub(header.Get("X-GitHub-Event"), header, body)
}

func readGitea(header http.Header, body []byte) (notice, error) {
	return readHub(cmp.Or(header.Get("X-Gitea-Event"), header.Get("X-Forgejo-Event")), header, body)
}

// readHub reads what GitHub sends, and Gitea after it. A push event tells of branches and tags that
// were made or deleted too; the others tell it once more.
func readHub(event string, header http.Header, body []byte) (notice, error) {
	switch event {
	case "ping":
		return notice{kind: kindPing}, nil
	case "push", "create", "delete":
	default:
		return notice{}, nil
	}
	var payload struct {
		Repository struct {
			CloneURL string `json:"clone_url"`
			SSHURL   string `json:"ssh_url"`
			HTMLURL  string `json:"html_url"`
		} `json:"repository"`
	}
	if err := decode(header, body, &payload); err != nil {
		return notice{}, err
	}
	r := payload.Repository
	return refs(r.CloneURL, r.SSHURL, r.HTMLURL)
}

// readGitLab reads webhooks of projects and groups, and system hooks, whose header says nothing.
func readGitLab(header http.Header, body []byte) (notice, error) {
	var payload struct {
		EventName string `json:"event_name"`
		Project   struct {
			HTTPURL string `json:"git_http_url"`
			SSHURL  string `json:"git_ssh_url"`
			WebURL  string `json:"web_url"`
		} `json:"project"`
	}
	event := header.Get("X-Gitlab-Event")
	if !slices.Contains([]string{"Push Hook", "Tag Push Hook", "System Hook"}, event) {
		return notice{}, nil
	}
	if err := decode(header, body, &payload); err != nil {
		return notice{}, err
	}
	if !slices.Contains([]string{"push", "tag_push", "repository_update"}, payload.EventName) {
		return notice{}, nil
	}
	p := payload.Project
	n, err := refs(p.HTTPURL, p.SSHURL, p.WebURL)
	n.delivery = cmp.Or(header.Get("Idempotency-Key"), header.Get("X-Gitlab-Event-UUID"))
	return n, err
}

// readBitbucket reads what Bitbucket Cloud sends, which names no clone URLs.
func readBitbucket(header http.Header, body []byte) (notice, error) {
	if header.Get("X-Event-Key") != "repo:push" {
		return notice{}, nil
	}
	var payload struct {
		Repository struct {
			Links struct {
				HTML struct {
					Href string `json:"href"`
				} `json:"html"`
			} `json:"links"`
		} `json:"repository"`
	}
	if err := decode(header, body, &payload); err != nil {
		return notice{}, err
	}
	return refs(payload.Repository.Links.HTML.Href)
}

func isBitbucketPing(header http.Header) bool { return header.Get("X-Event-Key") == "diagnostics:ping" }

// readBitbucketServer reads what Bitbucket Server and Data Center send. Older ones name no clone
// URLs: there the path has to do, on whichever host.
func readBitbucketServer(header http.Header, body []byte) (notice, error) {
	if isBitbucketPing(header) {
		return notice{kind: kindPing}, nil
	}
	if event := header.Get("X-Event-Key"); event != "repo:refs_changed" && event != "mirror:repo_synchronized" {
		return notice{}, nil
	}
	var payload struct {
		Repository struct {
			Slug    string `json:"slug"`
			Project struct {
				Key string `json:"key"`
			} `json:"project"`
			Links struct {
				Clone []struct {
					Href string `json:"href"`
				} `json:"clone"`
			} `json:"links"`
		} `json:"repository"`
	}
	if err := decode(header, body, &payload); err != nil {
		return notice{}, err
	}
	r := payload.Repository
	urls := make([]string, 0, len(r.Links.Clone))
	for _, link := range r.Links.Clone {
		urls = append(urls, link.Href)
	}
	n, err := refs(urls...)
	if err != nil && r.Project.Key != "" && r.Slug != "" {
		return notice{kind: kindRefs, path: strings.ToLower(r.Project.Key + "/" + r.Slug)}, nil
	}
	return n, err
}

func readAzure(header http.Header, body []byte) (notice, error) {
	var payload struct {
		ID        string `json:"id"`
		EventType string `json:"eventType"`
		Resource  struct {
			Repository struct {
				RemoteURL string `json:"remoteUrl"`
				SSHURL    string `json:"sshUrl"`
			} `json:"repository"`
		} `json:"resource"`
	}
	if err := decode(header, body, &payload); err != nil {
		return notice{}, err
	}
	if payload.EventType != "git.push" {
		return notice{}, nil
	}
	n, err := refs(payload.Resource.Repository.RemoteURL, payload.Resource.Repository.SSHURL)
	n.delivery = payload.ID
	return n, err
}

// readGeneric reads Leat's own form: {"url": "https://…"}, or {"event": "ping"}.
func readGeneric(header http.Header, body []byte) (notice, error) {
	var payload struct {
		Event string `json:"event"`
		URL   string `json:"url"`
	}
	if err := decode(header, body, &payload); err != nil {
		return notice{}, err
	}
	switch payload.Event {
	case "ping":
		return notice{kind: kindPing}, nil
	case "", "push":
		return refs(payload.URL)
	default:
		return notice{}, nil
	}
}
