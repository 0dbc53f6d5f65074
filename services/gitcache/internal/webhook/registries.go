// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

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

// movesTags reports whether the tags of a repository changed. Layers are pushed without a tag.
func (e registryEvent) movesTags() bool {
	return (e.Action == "push" && e.Target.Tag != "") || e.Action == "delete"
}

// harborData is what Harbor's webhooks say of what happened.
type harborData struct {
	Resources [maxEvents]struct {
		URL string `json:"resource_url"` // host/name:tag, or host/name@digest
	} `json:"resources"`
}

const tagsMoved = "tags moved"

// distributionEvent returns tagsMoved if any of the events is about tags.
func distributionEvent(p *payload) string {
	for _, e := range p.Events {
		if e.movesTags() {
			return tagsMoved
		}
	}
	return ""
}

// distributionURLs returns where the repositories are: at the host that was pushed to, and at the one
// that the registry takes for its own.
func distributionURLs(p *payload) []string {
	var urls []string
	for _, e := range p.Events {
		if !e.movesTags() || e.Target.Repository == "" {
			continue
		}
		if e.Request.Host != "" {
			urls = append(urls, "https://"+e.Request.Host+"/"+e.Target.Repository)
		}
		if own, err := url.Parse(e.Target.URL); err == nil && own.Host != "" {
			urls = append(urls, own.Scheme+"://"+own.Host+"/"+e.Target.Repository)
		}
	}
	return urls
}

// harborURLs returns where the artifacts are, without tag and digest.
func harborURLs(p *payload) []string {
	var urls []string
	for _, resource := range p.EventData.Resources {
		name, _, _ := strings.Cut(resource.URL, "@")
		if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
			name = name[:at]
		}
		if name != "" {
			urls = append(urls, "https://"+name)
		}
	}
	return urls
}

// authorization reads the secret from the header that registries are configured to send: as a bearer
// token, as a password, or as it is.
func authorization(r *http.Request, now time.Time) (claim, bool) {
	header := r.Header.Get("Authorization")
	scheme, token, ok := strings.Cut(header, " ")
	switch {
	case ok && strings.EqualFold(scheme, "Basic"):
		return basicPassword(r, now)
	case ok && strings.EqualFold(scheme, "Bearer"):
		header = strings.TrimSpace(token)
	}
	return claim{token: header}, header != ""
}
