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

// Parameters of a watch that are not simply part of what is asked.
const (
	paramTimeout      = "timeoutSeconds"
	paramVersion      = "resourceVersion"
	paramVersionMatch = "resourceVersionMatch"
	paramInitial      = "sendInitialEvents"
)

// question is what a viewer asks of a cluster.
type question struct {
	// key is the same for viewers who may share a feed, if it can serve them.
	key string
	// version is the resourceVersion from which the viewer watches. Empty and "0" ask for the state first: the newest one, or any that
	// there has been.
	version string
	// after is the version as a number. Zero means that the viewer can only be served from the beginning of a feed.
	after uint64
	// streamed says that the state comes as a list whose end is told (KEP-3157).
	streamed bool
	// timeout is when the viewer wants the watch to be ended. Zero leaves it to the cluster.
	timeout time.Duration
	// query is what the cluster is asked: without the viewer's timeout.
	query string
}

// wantsNewest reports whether what the cluster has said before is too old for the viewer, even if nothing has changed since: kubectl, which
// asks so, must not be shown what it has changed just now as it was before
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch, "Get State and Start at Most Recent").
func (q question) wantsNewest() bool { return q.version == "" }

// ask reads a request. ok is false when it cannot be shared.
func ask(scope string, req *http.Request) (q question, ok bool) {
	if req.Method != http.MethodGet || req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
		return question{}, false
	}
	parts, ok := splitQuery(req.URL.RawQuery)
	if !ok {
		return question{}, false
	}
	if q.timeout, ok = parts.seconds(); !ok {
		return question{}, false
	}
	q.query = parts.join(paramTimeout)
	q.version, q.streamed = parts.value(paramVersion), parts.value(paramInitial) == "true"
	same := q.query
	if !parts.has(paramVersionMatch) && !parts.has(paramInitial) {
		same = parts.join(paramTimeout, paramVersion)
		q.after = number(q.version)
	}
	q.key = key(scope, req, same)
	return q, true
}

// number reads a version that can be compared. Kubernetes promises that those of one resource can be, as numbers, since
// version 1.35, and it has always been so. Zero means that it is none.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || strings.HasPrefix(version, "0") {
		return 0
	}
	return n
}

// key says everything by which two answers could differ. Whom the cluster sees is among the headers.
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

// isPersonal knows the headers that tell of the caller's way to the hub and change no answer of an API server. All others
// are part of what is asked.
func isPersonal(name string) bool {
	switch name {
	case "Accept-Language", "Cache-Control", "Pragma", "Priority", "Referer", "Dnt", "Te",
		"Traceparent", "Tracestate", "Baggage", "X-Request-Id", "Kubectl-Session", "Kubectl-Command":
		return true
	}
	return strings.HasPrefix(name, "Sec-")
}

// query is a query in its parts, each as the caller wrote it.
type query []parameter

type parameter struct {
	raw, name, value string
}

// splitQuery fails on what servers read in different ways, and on parameters that are given twice where that matters.
func splitQuery(raw string) (query, bool) {
	var parts query
	for part := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		value, err2 := url.QueryUnescape(value)
		if err != nil || err2 != nil || strings.Contains(part, ";") {
			return nil, false
		}
		parts = append(parts, parameter{raw: part, name: name, value: value})
	}
	for _, name := range []string{paramTimeout, paramVersion, paramVersionMatch, paramInitial} {
		if parts.count(name) > 1 {
			return nil, false
		}
	}
	return parts, true
}

func (q query) count(name string) int {
	n := 0
	for _, part := range q {
		if part.name == name {
			n++
		}
	}
	return n
}

func (q query) has(name string) bool { return q.count(name) > 0 }

func (q query) value(name string) string {
	for _, part := range q {
		if part.name == name {
			return part.value
		}
	}
	return ""
}

// seconds reads the viewer's timeout. ok is false when it is not one: the API server is to say so.
func (q query) seconds() (timeout time.Duration, ok bool) {
	value := q.value(paramTimeout)
	if value == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(value, 10, 31)
	return time.Duration(n) * time.Second, err == nil
}

// join writes the query without some parameters.
func (q query) join(without ...string) string {
	var kept []string
	for _, part := range q {
		if !slices.Contains(without, part.name) {
			kept = append(kept, part.raw)
		}
	}
	return strings.Join(kept, "&")
}
