// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http"
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
	// field of the body names the event, too, and fieldEvents are those that matter. Nil: the headers
	// say it all.
	field       func(*payload) string
	fieldEvents map[string]kind
	// urls are what the body calls the repository by.
	urls func(*payload) []string
	// mayOmitURLs reports whether the project and the name of the repository may be all there is.
	mayOmitURLs bool
	// idHeaders hold the provider's id of the delivery; hasID: the body does. Neither: it has none.
	idHeaders []string
	hasID     bool
	// sendsBarePings reports whether the provider never signs its tests of the connection.
	sendsBarePings bool
}

// hubEvents are those of GitHub, and of Gitea after it. A push event also tells of branches and
// tags that were made or deleted; the others repeat it.
var hubEvents = map[string]kind{"ping": kindPing, "push": kindRefs, "create": kindRefs, "delete": kindRefs}

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
		field:       func(p *payload) string { return p.EventName },
		fieldEvents: map[string]kind{"push": kindRefs, "tag_push": kindRefs, "repository_update": kindRefs},
		urls:        projectURLs,
		idHeaders:   []string{"Idempotency-Key", "X-Gitlab-Event-UUID"},
	},
	// Bitbucket Cloud names no clone URLs.
	"bitbucket": {
		claim:   signature("sha256=", "X-Hub-Signature"),
		headers: []string{"X-Event-Key"}, events: map[string]kind{"repo:push": kindRefs},
		urls: func(p *payload) []string { return []string{p.Repository.Links.HTML.Href} },
	},
	// Bitbucket Server and Data Center. Older ones name no clone URLs: there the path has to do, on
	// whichever host.
	"bitbucket-server": {
		claim:   signature("sha256=", "X-Hub-Signature"),
		headers: []string{"X-Event-Key"},
		events:  map[string]kind{"diagnostics:ping": kindPing, "repo:refs_changed": kindRefs, "mirror:repo_synchronized": kindRefs},
		urls:    cloneLinks, mayOmitURLs: true,
		sendsBarePings: true,
	},
	"azure-devops": {
		claim: basicPassword,
		field: func(p *payload) string { return p.EventType }, fieldEvents: map[string]kind{"git.push": kindRefs},
		urls: func(p *payload) []string {
			return []string{p.Resource.Repository.RemoteURL, p.Resource.Repository.SSHURL}
		},
		hasID: true,
	},
	// The distribution project's registry, and others that notify as it does. The secret is in a header
	// of the endpoint.
	"distribution": {
		claim: authorization,
		field: distributionEvent, fieldEvents: map[string]kind{tagsMoved: kindRefs}, urls: distributionURLs,
	},
	"harbor": {
		claim:       authorization,
		field:       func(p *payload) string { return p.Type },
		fieldEvents: map[string]kind{"PUSH_ARTIFACT": kindRefs, "DELETE_ARTIFACT": kindRefs},
		urls:        harborURLs,
	},
	// Leat's own form: {"url": "https://…"}, or {"event": "ping"}.
	"generic": {
		claim: timedSignature,
		field: func(p *payload) string { return p.Event }, fieldEvents: map[string]kind{"ping": kindPing, "": kindRefs, "push": kindRefs},
		urls: func(p *payload) []string { return []string{p.URL} },
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
	if p.field != nil {
		what = p.fieldEvents[p.field(payload)]
	}
	if what != kindRefs {
		return notice{kind: what}, nil
	}
	n, err := refs(p.urls(payload)...)
	if path := payload.projectAndSlug(); err != nil && p.mayOmitURLs && path != "" {
		return notice{kind: kindRefs, path: path}, nil
	}
	n.delivery = first(header, p.idHeaders)
	if p.hasID {
		n.delivery = payload.ID
	}
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
