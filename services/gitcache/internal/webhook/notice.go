// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
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
func decode(header http.Header, body []byte) (*payload, error) {
	if media, _, err := mime.ParseMediaType(header.Get("Content-Type")); err == nil && media == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fmt.Errorf("decode form: %w", err)
		}
		body = []byte(form.Get("payload"))
	}
	p := &payload{}
	err := json.Unmarshal(body, p)
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mistyped.Field != "" {
		err = nil // another provider's field of that name, which was left out
	}
	if err != nil {
		return nil, fmt.Errorf("decode payload: %w", err)
	}
	return p, nil
}

// payload holds the fields that providers read. Whatever else a delivery has is skipped without
// being kept, and so are clone URLs and events past their arrays, so that a body costs little more than its bytes.
type payload struct {
	ID         string     `json:"id"`
	Event      string     `json:"event"`
	EventName  string     `json:"event_name"`
	EventType  string     `json:"eventType"`
	URL        string     `json:"url"`
	Type       string     `json:"type"`
	Project    project    `json:"project"`
	Repository repository `json:"repository"`
	Resource   struct {
		Repository struct {
			RemoteURL string `json:"remoteUrl"`
			SSHURL    string `json:"sshUrl"`
		} `json:"repository"`
	} `json:"resource"`
	Events    [maxEvents]registryEvent `json:"events"`
	EventData harborData               `json:"event_data"`
}

type project struct {
	HTTPURL string `json:"git_http_url"`
	SSHURL  string `json:"git_ssh_url"`
	WebURL  string `json:"web_url"`
}

type repository struct {
	CloneURL string `json:"clone_url"`
	SSHURL   string `json:"ssh_url"`
	HTMLURL  string `json:"html_url"`
	Slug     string `json:"slug"`
	Project  struct {
		Key string `json:"key"`
	} `json:"project"`
	Links struct {
		HTML  link    `json:"html"`
		Clone [8]link `json:"clone"`
	} `json:"links"`
}

type link struct {
	Href string `json:"href"`
}

func projectURLs(p *payload) []string {
	return []string{p.Project.HTTPURL, p.Project.SSHURL, p.Project.WebURL}
}

func hubURLs(p *payload) []string {
	return []string{p.Repository.CloneURL, p.Repository.SSHURL, p.Repository.HTMLURL}
}

func cloneLinks(p *payload) []string {
	var urls []string
	for _, clone := range p.Repository.Links.Clone {
		urls = append(urls, clone.Href)
	}
	return urls
}

// projectAndSlug returns the end of a repository's path, or "" if the payload does not hold it.
func (p *payload) projectAndSlug() string {
	if p.Repository.Project.Key == "" || p.Repository.Slug == "" {
		return ""
	}
	return strings.ToLower(p.Repository.Project.Key + "/" + p.Repository.Slug)
}
