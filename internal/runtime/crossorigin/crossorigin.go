// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package crossorigin decides which web pages of other origins may call the hub: only those whose
// origins the operator lists.
//
// Callers are authenticated by their Authorization header, which browsers never send automatically.
// Cookies are ignored, except by the distributor's SessionService, which itself checks where such a
// request comes from. A page without a token can therefore do nothing anyway. This package is a
// second defence, which refuses pages of unlisted origins before they can try.
package crossorigin

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/net/http/httpguts"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	// preflightAge is how long browsers cache the answer to a preflight, in seconds.
	preflightAge = "600"
	// methods are the methods of the hub's and Kubernetes' APIs.
	methods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	// exposed lists the answer headers that pages may read, beside those they may always read.
	exposed = "Content-Encoding, Content-Length, Date, ETag, Grpc-Message, Grpc-Status, Grpc-Status-Details-Bin, Leat-Error-Origin, " +
		"Leat-Error-Reason, Link, Retry-After, Warning, Audit-Id, X-Kubernetes-Pf-Flowschema-Uid, X-Kubernetes-Pf-Prioritylevel-Uid"
)

// Policy holds the origins whose pages may call. It is safe for concurrent use.
type Policy struct {
	origins map[string]bool
}

// New returns a policy that admits pages of exactly these origins, such as https://ui.example.com,
// and pages of the hub's own origin. The error names the text that is not an origin.
func New(origins []string) (*Policy, error) {
	p := &Policy{origins: make(map[string]bool, len(origins))}
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != origin ||
			strings.ToLower(origin) != origin || strings.Contains(origin, "*") {
			return nil, fmt.Errorf("origin %q must be exactly what browsers send: scheme and host in lower case, and a port that is not the scheme's own, as in https://ui.example.com", origin)
		}
		p.origins[origin] = true
	}
	return p, nil
}

// Wrap answers preflights, refuses forbidden requests from pages of other origins, and marks the
// answers that listed origins may read. Requests that it answers or refuses never reach next.
func (p *Policy) Wrap(next http.Handler) http.Handler { return &wrapped{policy: p, next: next} }

type wrapped struct {
	policy *Policy
	next   http.Handler
}

// ServeHTTP implements http.Handler.
func (h *wrapped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.policy.admits(w, r) {
		h.next.ServeHTTP(w, r)
	}
}

// admits reports whether a request may reach the next handler. If not, it has answered.
func (p *Policy) admits(w http.ResponseWriter, r *http.Request) bool {
	if len(p.origins) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	origin, listed := p.origin(r)
	switch {
	case listed && isPreflight(r):
		allow(w.Header(), origin)
		answerPreflight(w, r)
		return false
	case listed:
		allow(w.Header(), origin)
	case foreign(r, origin):
		rpcerr.WriteHTTP(w, r, rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
			"pages of another origin may not call this; its operator can list the origin"))
		return false
	}
	return true
}

// origin returns the origin of the calling page, or "" if there is none, and whether it is listed.
// A request with two origins does not come from a browser.
func (p *Policy) origin(r *http.Request) (origin string, listed bool) {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return "", false
	}
	if len(values) > 1 {
		return "null", false
	}
	return values[0], p.origins[values[0]]
}

// foreign reports whether a browser makes the request for a page of an origin that is neither
// listed nor the hub's own. Browsers declare this in Sec-Fetch-Site. Of browsers that do not, only
// WebSockets are refused by the origin alone, because pages could read them without permission.
func foreign(r *http.Request, origin string) bool {
	if origin != "" && sameHost(r, origin) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	return origin != "" && (isPreflight(r) || isWebSocket(r))
}

// sameHost compares hosts without the scheme, which is unknown behind a proxy that terminates TLS.
func sameHost(r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// IsOwnMachine reports whether browsers treat a host, which is named without a port, as safe without
// TLS.
func IsOwnMachine(host string) bool {
	address, err := netip.ParseAddr(host)
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && address.IsLoopback()
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

func isWebSocket(r *http.Request) bool {
	return httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket")
}

func allow(header http.Header, origin string) {
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", exposed)
}

// answerPreflight permits every method and header. Cookies are never permitted.
func answerPreflight(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Add("Vary", "Access-Control-Request-Method")
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", methods)
	if asked := headerNames(r.Header.Values("Access-Control-Request-Headers")); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}

// headerNames returns the valid header names of the lists.
func headerNames(lists []string) string {
	var names []string
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); httpguts.ValidHeaderFieldName(name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}
