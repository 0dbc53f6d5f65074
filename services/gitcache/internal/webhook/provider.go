// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"net/http"
	"strings"
	"time"
)

// provider is how one Git host sends webhooks.
type provider struct {
	// claim reads what proves the delivery; false: there is nothing of the sort, or it is stale.
	claim func(r *http.Request, now time.Time) (claim, bool)
	// headers name the event, the first that is set, and events are those that matter. Without
	// headers the body alone says what the delivery is about.
	headers []string
	events  map[string]kind
	// field of the body names the event, too, and fieldEvents are those that matter. Empty: the
	// headers say it all.
	field       string
	fieldEvents map[string]kind
	// urls are the fields of the body that the repository is called by.
	urls []string
	// path are the fields that make up the end of the repository's path. Empty: the provider always
	// sends a URL.
	path []string
	// idHeaders and idField hold the provider's id of the delivery; empty where it has none.
	idHeaders []string
	idField   string
	// sendsBarePings reports whether the provider never signs its tests of the connection.
	sendsBarePings bool
}

// hubEvents are those of GitHub, and of Gitea after it. A push event also tells of branches and
// tags that were made or deleted; the others repeat it.
var (
	hubEvents = map[string]kind{"ping": kindPing, "push": kindRefs, "create": kindRefs, "delete": kindRefs}
	hubURLs   = []string{"repository.clone_url", "repository.ssh_url", "repository.html_url"}
)

// providers are the providers by their names in the URL.
var providers = map[string]provider{
	"github": {
		claim:   signature("sha256=", "X-Hub-Signature-256"),
		headers: []string{"X-GitHub-Event"}, events: hubEvents, urls: hubURLs,
	},
	"gitea": {
		claim:   signature("", "X-Gitea-Signature", "X-Forgejo-Signature"),
		headers: []string{"X-Gitea-Event", "X-Forgejo-Event"}, events: hubEvents, urls: hubURLs,
	},
	// Webhooks of projects and groups, and system hooks, whose header says nothing.
	"gitlab": {
		claim:       gitlabToken,
		headers:     []string{"X-Gitlab-Event"},
		events:      map[string]kind{"Push Hook": kindRefs, "Tag Push Hook": kindRefs, "System Hook": kindRefs},
		field:       "event_name",
		fieldEvents: map[string]kind{"push": kindRefs, "tag_push": kindRefs, "repository_update": kindRefs},
		urls:        []string{"project.git_http_url", "project.git_ssh_url", "project.web_url"},
		idHeaders:   []string{"Idempotency-Key", "X-Gitlab-Event-UUID"},
	},
	// Bitbucket Cloud names no clone URLs.
	"bitbucket": {
		claim:   signature("sha256=", "X-Hub-Signature"),
		headers: []string{"X-Event-Key"}, events: map[string]kind{"repo:push": kindRefs},
		urls: []string{"repository.links.html.href"},
	},
	// Bitbucket Server and Data Center. Older ones name no clone URLs: there the path has to do, on
	// whichever host.
	"bitbucket-server": {
		claim:   signature("sha256=", "X-Hub-Signature"),
		headers: []string{"X-Event-Key"},
		events:  map[string]kind{"diagnostics:ping": kindPing, "repo:refs_changed": kindRefs, "mirror:repo_synchronized": kindRefs},
		urls:    []string{"repository.links.clone.*.href"}, path: []string{"repository.project.key", "repository.slug"},
		sendsBarePings: true,
	},
	"azure-devops": {
		claim: basicPassword,
		field: "eventType", fieldEvents: map[string]kind{"git.push": kindRefs},
		urls:    []string{"resource.repository.remoteUrl", "resource.repository.sshUrl"},
		idField: "id",
	},
	// Leat's own form: {"url": "https://…"}, or {"event": "ping"}.
	"generic": {
		claim: timedSignature,
		field: "event", fieldEvents: map[string]kind{"ping": kindPing, "": kindRefs, "push": kindRefs},
		urls: []string{"url"},
	},
}

// isBarePing reports whether a delivery without a proof is a test that the provider never signs.
func (p provider) isBarePing(header http.Header) bool {
	return p.sendsBarePings && p.events[first(header, p.headers)] == kindPing
}

// read reads a proven delivery.
func (p provider) read(header http.Header, body []byte) (notice, error) {
	what := kindRefs
	if len(p.headers) > 0 {
		what = p.events[first(header, p.headers)]
	}
	if what != kindRefs {
		return notice{kind: what}, nil
	}
	payload, err := decode(header, body)
	if err != nil {
		return notice{}, err
	}
	if p.field != "" {
		what = p.fieldEvents[payload.text(p.field)]
	}
	if what != kindRefs {
		return notice{kind: what}, nil
	}
	var urls, path []string
	for _, field := range p.urls {
		urls = append(urls, payload.texts(field)...)
	}
	for _, field := range p.path {
		path = append(path, payload.texts(field)...)
	}
	n, err := refs(urls...)
	if err != nil && len(path) > 0 && len(path) == len(p.path) {
		return notice{kind: kindRefs, path: strings.ToLower(strings.Join(path, "/"))}, nil
	}
	n.delivery = cmp.Or(first(header, p.idHeaders), payload.text(p.idField))
	return n, err
}

// first returns the value of the first of the headers that is set, or "".
func first(header http.Header, names []string) string {
	for _, name := range names {
		if value := header.Get(name); value != "" {
			return value
		}
	}
	return ""
}
