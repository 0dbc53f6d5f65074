// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// decode reads JSON, also where a form carries it in a field named payload.
func decode(header http.Header, body []byte) (*payload, error) {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err == nil && media == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fmt.Errorf("decode form: %w", err)
		}
		body = []byte(form.Get("payload"))
	}
	p := &payload{}
	err = json.Unmarshal(body, p)
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
	Ref        string     `json:"ref"`
	Project    project    `json:"project"`
	Repository repository `json:"repository"`
	Resource   struct {
		Repository struct {
			RemoteURL string `json:"remoteUrl"`
			SSHURL    string `json:"sshUrl"`
		} `json:"repository"`
		RefUpdates [maxRefs]struct {
			Name string `json:"name"`
		} `json:"refUpdates"`
	} `json:"resource"`
	// Push is Bitbucket Cloud's, and Changes are those of Bitbucket Server.
	Push struct {
		Changes [maxRefs]struct {
			New named `json:"new"`
			Old named `json:"old"`
		} `json:"changes"`
	} `json:"push"`
	Changes [maxRefs]struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
	} `json:"changes"`
	Events    [maxEvents]registryEvent `json:"events"`
	EventData harborData               `json:"event_data"`
}

type named struct {
	Name string `json:"name"`
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

// maxRefs bounds the refs of one delivery that are read. They are shown to people, and count for
// nothing else.
const maxRefs = 4

// maxEvents bounds the events of one delivery that are read: registries send them one by one unless
// many wait.
const maxEvents = 16

// registryEvent is an event of the distribution project's registry, as it notifies of them.
type registryEvent struct {
	Action string `json:"action"`
	Target struct {
		Repository string `json:"repository"`
		URL        string `json:"url"`
		Tag        string `json:"tag"`
	} `json:"target"`
	Request struct {
		Host string `json:"host"`
	} `json:"request"`
}

// harborData is the event in Harbor's webhooks.
type harborData struct {
	Resources [maxEvents]struct {
		URL string `json:"resource_url"` // host/name:tag, or host/name@digest
	} `json:"resources"`
}

// refs returns the refs that a delivery names, whichever provider sends it, some of them empty.
func (p *payload) refs() []string {
	refs := []string{p.Ref}
	for i := range maxRefs {
		change := p.Push.Changes[i]
		refs = append(refs, p.Resource.RefUpdates[i].Name, cmp.Or(change.New.Name, change.Old.Name), p.Changes[i].Ref.ID)
	}
	for _, event := range p.Events {
		refs = append(refs, event.Target.Tag)
	}
	return refs
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
