// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parameters of a watch that need more than a comparison.
const (
	paramTimeout      = "timeoutSeconds"
	paramVersion      = "resourceVersion"
	paramVersionMatch = "resourceVersionMatch"
	paramInitial      = "sendInitialEvents"
)

// question is a viewer's question to a cluster.
type question struct {
	// key is the same for viewers that may share a feed, if it covers what they ask for.
	key string
	// version is the resourceVersion from which the viewer watches. Empty asks for the newest state
	// first, and "0" for any state.
	version string
	// after is the version as a number. Zero means that only the beginning of a feed with the same
	// version serves the viewer.
	after uint64
	// timeout is when the viewer wants the watch to end. Zero leaves it to the cluster.
	timeout time.Duration
	// query is sent to the cluster: the viewer's, without its timeout, because one viewer's timeout
	// must not end the watch of the others.
	query string
}

// wantsNewest reports whether any earlier answer is too old for the viewer, even if nothing has
// changed since. kubectl asks like this, and must not be shown an object that it has just changed
// as it was before
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch, "Get State and
// Start at Most Recent").
func (q question) wantsNewest() bool { return q.version == "" }

// ask reads a request. ok is false if the request cannot be shared: it has a body, its query is
// one that servers read in different ways, or a parameter that matters here occurs twice or is
// malformed. The API server answers such a request itself.
func ask(scope string, req *http.Request) (q question, ok bool) {
	if req.Method != http.MethodGet || req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
		return question{}, false
	}
	raw := req.URL.RawQuery
	values, err := url.ParseQuery(raw)
	if err != nil {
		return question{}, false
	}
	for _, name := range []string{paramTimeout, paramVersion, paramVersionMatch, paramInitial} {
		if len(values[name]) > 1 {
			return question{}, false
		}
	}
	if text := values.Get(paramTimeout); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return question{}, false
		}
		q.timeout = time.Duration(seconds) * time.Second
	}
	q.version, q.query = values.Get(paramVersion), without(raw, paramTimeout)
	same := q.query
	if !values.Has(paramVersionMatch) && !values.Has(paramInitial) {
		q.after, same = number(q.version), without(raw, paramTimeout, paramVersion)
	}
	q.key = key(scope, req, same)
	return q, true
}

// without returns a well-formed query without some parameters. All others stay as the caller wrote
// them, in the same order.
func without(raw string, names ...string) string {
	parts := slices.DeleteFunc(strings.Split(raw, "&"), func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		return err == nil && slices.Contains(names, name)
	})
	return strings.Join(parts, "&")
}

// number returns a version that can be compared, or zero. Kubernetes promises since version 1.35
// that the versions of one resource can be compared as numbers, and it has always been so.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || strings.HasPrefix(version, "0") {
		return 0
	}
	return n
}

// key spells everything by which two answers could differ. The identity that the cluster sees is
// among the headers. Each part is preceded by its length, so no two requests have the same key.
func key(scope string, req *http.Request, query string) string {
	var b strings.Builder
	put := func(words ...string) {
		for _, word := range words {
			b.WriteString(strconv.Itoa(len(word)))
			b.WriteByte(':')
			b.WriteString(word)
		}
	}
	put(scope, req.URL.Opaque, req.URL.Host, req.URL.EscapedPath(), query)
	names := make([]string, 0, len(req.Header))
	for name := range req.Header {
		if !isPersonal(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		values := req.Header[name]
		put(name, strconv.Itoa(len(values)))
		put(values...)
	}
	return b.String()
}

// isPersonal reports whether a header describes the caller's way to the hub and changes no answer
// of an API server. All other headers are part of the question.
func isPersonal(name string) bool {
	switch name {
	case "Accept-Language", "Cache-Control", "Pragma", "Priority", "Referer", "Dnt", "Te",
		"Traceparent", "Tracestate", "Baggage", "X-Request-Id", "Kubectl-Session", "Kubectl-Command":
		return true
	}
	return strings.HasPrefix(name, "Sec-")
}
