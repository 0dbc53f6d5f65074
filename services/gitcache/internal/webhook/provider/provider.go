// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package provider knows how Git hosts and registries send webhooks: what proves a delivery, and which
// repository it is about.
//
// All of it are functions of a delivery's headers and body. A [Claim] is compared with a secret in a
// time that does not depend on the answer. Reading a body costs little more memory than its bytes,
// whatever it holds, and its sender is proven before.
package provider

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Provider is how one Git host sends webhooks.
type Provider struct {
	// claim reads what proves the delivery; false: there is nothing of the sort, or it is stale.
	claim func(r *http.Request, now time.Time) (Claim, bool)
	// headers name the event, the first that is set, and events are the ones that matter. Without
	// headers the body alone names the event.
	headers []string
	events  map[string]Kind
	// field of the body names the event, too, and fieldEvents are the ones that matter. Nil: the
	// headers suffice.
	field       func(*payload) string
	fieldEvents map[string]Kind
	// urls are the URLs of the repository in the body.
	urls func(*payload) []string
	// mayOmitURLs reports whether the project and the name of the repository may be all there is.
	mayOmitURLs bool
	// idHeaders hold the provider's id of the delivery; hasID: the body does. Neither: it has none.
	idHeaders []string
	hasID     bool
	// sendsBarePings reports whether the provider never signs its tests of the connection.
	sendsBarePings bool
}

// hubEvents are the events of GitHub, and of Gitea after it. A push event also tells of branches
// and tags that were made or deleted; the others repeat it.
var hubEvents = map[string]Kind{"ping": KindPing, "push": KindRefs, "create": KindRefs, "delete": KindRefs}

// providers are the providers by their names in the URL.
var providers = map[string]Provider{
	"github": {
		claim:   signature("sha256=", "X-Hub-Signature-256"),
		headers: []string{"X-GitHub-Event"}, events: hubEvents, urls: hubURLs,
	},
	"gitea": {
		claim:   signature("", "X-Gitea-Signature", "X-Forgejo-Signature"),
		headers: []string{"X-Gitea-Event", "X-Forgejo-Event"}, events: hubEvents, urls: hubURLs,
	},
	// Webhooks of projects and groups, and system hooks, whose header names no event.
	"gitlab": {
		claim:       gitlabToken,
		headers:     []string{"X-Gitlab-Event"},
		events:      map[string]Kind{"Push Hook": KindRefs, "Tag Push Hook": KindRefs, "System Hook": KindRefs},
		field:       func(p *payload) string { return p.EventName },
		fieldEvents: map[string]Kind{"push": KindRefs, "tag_push": KindRefs, "repository_update": KindRefs},
		urls:        projectURLs,
		idHeaders:   []string{"Idempotency-Key", "X-Gitlab-Event-UUID"},
	},
	// Bitbucket Cloud names no clone URLs.
	"bitbucket": {
		claim:   signature("sha256=", "X-Hub-Signature"),
		headers: []string{"X-Event-Key"}, events: map[string]Kind{"repo:push": KindRefs},
		urls: func(p *payload) []string { return []string{p.Repository.Links.HTML.Href} },
	},
	// Bitbucket Server and Data Center. Older ones name no clone URLs: there the path has to do, on
	// whichever host.
	"bitbucket-server": {
		claim:   signature("sha256=", "X-Hub-Signature"),
		headers: []string{"X-Event-Key"},
		events: map[string]Kind{
			"diagnostics:ping": KindPing, "repo:refs_changed": KindRefs, "mirror:repo_synchronized": KindRefs,
		},
		urls: cloneLinks, mayOmitURLs: true,
		sendsBarePings: true,
	},
	"azure-devops": {
		claim: basicPassword,
		field: func(p *payload) string { return p.EventType }, fieldEvents: map[string]Kind{"git.push": KindRefs},
		urls: func(p *payload) []string {
			return []string{p.Resource.Repository.RemoteURL, p.Resource.Repository.SSHURL}
		},
		hasID: true,
	},
	// The distribution project's registry, and others that notify as it does. The secret is in a header
	// of the endpoint.
	"distribution": {
		claim: authorization,
		field: distributionEvent, fieldEvents: map[string]Kind{tagsMoved: KindRefs}, urls: distributionURLs,
	},
	"harbor": {
		claim:       authorization,
		field:       func(p *payload) string { return p.Type },
		fieldEvents: map[string]Kind{"PUSH_ARTIFACT": KindRefs, "DELETE_ARTIFACT": KindRefs},
		urls:        harborURLs,
	},
	// Leat's own form: {"url": "https://…"}, or {"event": "ping"}.
	"generic": {
		claim: timedSignature,
		field: func(p *payload) string { return p.Event }, fieldEvents: map[string]Kind{
			"ping": KindPing, "": KindRefs, "push": KindRefs,
		},
		urls: func(p *payload) []string { return []string{p.URL} },
	},
}

// Of returns the provider of a name in the URL.
func Of(name string) (Provider, bool) {
	p, ok := providers[name]
	return p, ok
}

// Names returns the names of all providers.
func Names() []string { return slices.Collect(maps.Keys(providers)) }

// Claim reads what proves a delivery. It returns false if there is nothing of the sort, or if it is
// stale.
func (p Provider) Claim(r *http.Request, now time.Time) (Claim, bool) { return p.claim(r, now) }

// IsBarePing reports whether a delivery without a proof is a test that the provider never signs.
func (p Provider) IsBarePing(header http.Header) bool {
	return p.sendsBarePings && p.events[first(header, p.headers)] == KindPing
}

// Read returns what a proven delivery is about.
func (p Provider) Read(header http.Header, body []byte) (Notice, error) {
	what := KindRefs
	if len(p.headers) > 0 {
		what = p.events[first(header, p.headers)]
	}
	if what != KindRefs {
		return Notice{Kind: what}, nil
	}
	payload, err := decode(header, body)
	if err != nil {
		return Notice{}, err
	}
	if p.field != nil {
		what = p.fieldEvents[p.field(payload)]
	}
	if what != KindRefs {
		return Notice{Kind: what}, nil
	}
	n, err := refs(p.urls(payload)...)
	if path := payload.projectAndSlug(); err != nil && p.mayOmitURLs && path != "" {
		return Notice{Kind: KindRefs, Refs: payload.refs(), path: path}, nil
	}
	n.Refs = payload.refs()
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
