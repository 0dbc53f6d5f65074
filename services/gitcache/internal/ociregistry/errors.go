// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry/registryauth"
)

// errBytes is content that does not have the digest it was asked for by.
var errBytes = &mirror.UpstreamError{
	Reason:  reason.UpstreamProtocol,
	Message: "The registry sent content that does not have the digest it was asked for by; Leat retries automatically.",
}

func unsupported(format string, args ...any) error {
	return &mirror.ArtifactError{
		Reason: reason.ContentUnsupported, Message: "The artifact " + fmt.Sprintf(format, args...) + ".",
	}
}

// explain is the one place where failures become reasons. Errors of oras-go repeat URLs, which after
// a redirect may hold a signature, so their text goes without queries.
func explain(err error, def mirror.Definition, carriers Carriers) error {
	if bad, ok := errors.AsType[*mirror.ArtifactError](err); ok {
		return bad
	}
	if known, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		return known
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return carriers.Explain(failed.Err, def)
	}
	at, _ := upstream.ParseRegistry(def.URL)
	e := &mirror.UpstreamError{Cause: errors.New(query.ReplaceAllString(err.Error(), "?…"))}
	answer, ok := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case ok:
		e.Reason, e.Message = statusProblem(answer.StatusCode, at.Base.Host, def.Credential.IsZero())
	case errors.Is(err, errdef.ErrNotFound):
		e.Reason, e.Message = statusProblem(http.StatusNotFound, at.Base.Host, def.Credential.IsZero())
	case errors.Is(err, registryauth.ErrAnswer) || isProtocol(err):
		e.Reason = reason.UpstreamProtocol
		e.Message = fmt.Sprintf("%s does not answer as a registry does; check the URL.", at.Base.Host)
	default:
		return carriers.Explain(err, def)
	}
	return e
}

// query is the part of a URL that may hold a signature.
var query = regexp.MustCompile(`\?[^\s"]*`)

// isProtocol reports whether an error is about the content of an answer.
func isProtocol(err error) bool {
	_, isSyntax := errors.AsType[*json.SyntaxError](err)
	_, isType := errors.AsType[*json.UnmarshalTypeError](err)
	return isSyntax || isType ||
		errors.Is(err, errdef.ErrSizeExceedsLimit) || errors.Is(err, errdef.ErrInvalidReference) ||
		strings.Contains(err.Error(), "invalid response") || strings.Contains(err.Error(), "mismatch Content-Length") ||
		strings.Contains(err.Error(), "unknown response Content-Length")
}

func statusProblem(status int, host string, isAnonymous bool) (reason.Reason, string) {
	switch {
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && isAnonymous:
		return reason.UpstreamAuthRejected, host + " asks for a credential; add one to the repository's spec."
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return reason.UpstreamAuthRejected,
			fmt.Sprintf(
				"%s refused the credential (HTTP status %d); replace it in the repository's spec, or give it the right to pull.",
				host, status,
			)
	case status == http.StatusNotFound:
		return reason.RepositoryNotFound,
			fmt.Sprintf(
				"%s holds no such repository, or hides it from this credential; check the URL and the credential's rights.",
				host,
			)
	default:
		return reason.UpstreamProtocol, fmt.Sprintf(
			"%s answers with HTTP status %d, which a registry does not; check the URL.", host, status,
		)
	}
}
