// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/runtime/serve"
)

const (
	headerETag         = "Etag"
	headerIfNoneMatch  = "If-None-Match"
	headerCacheControl = "Cache-Control"
	// cacheControl has an answer kept by its reader alone, and asked about before each use.
	cacheControl = "private, no-cache"
	weak         = "W/"
)

// The forms of an answer, as entity tags name them.
const (
	formPlan      = "plan"
	formDelta     = "delta"
	formDigest    = "digest"
	formUnchanged = "unchanged"
)

// revalidate gives the answer to an HTTP GET its entity tag: a sum of its content, form and
// encoding. It returns the error that makes Connect answer 304 when the caller has named that tag.
// For calls by POST it does nothing.
//
// Tags are weak, because versions leave out commits, traces and times: equal ones mean the same to
// an agent, on every replica, but need not be the same bytes.
func revalidate(ctx context.Context, form, version string) error {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok || info.HTTPMethod() != http.MethodGet {
		return nil
	}
	tag := `"` + form + "." + info.Peer().Query.Get("encoding") + "." + version + `"`
	validators := http.Header{headerETag: {weak + tag}, headerCacheControl: {cacheControl}}
	if serve.NamesTag(info.RequestHeader().Values(headerIfNoneMatch), tag, true) {
		return connect.NewNotModifiedError(validators)
	}
	for key, values := range validators {
		info.ResponseHeader()[key] = values
	}
	return nil
}

// seen is the version that the caller saw last: the one in its request, or else the one in the
// first of the tags that it names in an HTTP GET. It is "" for a caller who saw none.
func seen(ctx context.Context, known string) string {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if known != "" || !ok || info.HTTPMethod() != http.MethodGet {
		return known
	}
	first, _, _ := strings.Cut(info.RequestHeader().Get(headerIfNoneMatch), ",")
	tag := strings.Trim(strings.TrimPrefix(strings.TrimSpace(first), weak), `"`)
	return tag[strings.LastIndex(tag, ".")+1:]
}
