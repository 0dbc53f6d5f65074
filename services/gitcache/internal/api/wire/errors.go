// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// Error is the one place where errors of the core become reasons. An unknown error passes, and
// becomes INTERNAL.
func Error(err error, repository string) error {
	if rpcerr.HasReason(err) {
		return err
	}
	in := rpcerr.With("repository", repository)
	if field, ok := errors.AsType[*fielderr.Error](err); ok {
		return rpcerr.Field(field.Path, field.Message)
	}
	if field, ok := errors.AsType[*mirror.FieldError](err); ok {
		return rpcerr.Field("repository."+field.Field, field.Message)
	}
	if mapped := dependencyError(err, in); mapped != nil { // first: it wraps what a repository of charts failed with
		return mapped
	}
	if notReady, ok := errors.AsType[*mirror.NotReadyError](err); ok {
		return notReadyError(notReady, in)
	}
	for _, mapError := range []func(error, rpcerr.Option) error{objectError, submoduleError, blobError} {
		if mapped := mapError(err, in); mapped != nil {
			return mapped
		}
	}
	if limit, ok := errors.AsType[*bundle.LimitError](err); ok {
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_BUNDLE_TOO_LARGE,
			fmt.Sprintf(
				"The folder exceeds the limit of %d %s; split it, leave some out with exclude or .leatignore, or raise the limit.",
				limit.Max, limit.Limit,
			),
			in, rpcerr.With("limit", string(limit.Limit)), rpcerr.With("max", strconv.FormatInt(limit.Max, 10)),
			rpcerr.With("path", limit.Name))
	}
	if bad, ok := errors.AsType[*leaves.UnsupportedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_CONTENT_UNSUPPORTED,
			fmt.Sprintf("%q %s.", bad.Path, bad.Reason), in, rpcerr.With("path", bad.Path))
	}
	if empty, ok := errors.AsType[*snapshot.EmptyError](err); ok {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_PATH_NOT_FOUND,
			fmt.Sprintf(
				"Include, exclude and .leatignore leave nothing of the folder %q; change the source or the ignore file.",
				empty.Folder,
			),
			in, rpcerr.With("path", empty.Folder))
	}
	if path, ok := errors.AsType[*content.PathError](err); ok {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_PATH_NOT_FOUND,
			fmt.Sprintf("The commit has no %s %q; the path is relative to the repository's root.", path.Want, path.Path),
			in, rpcerr.With("path", path.Path))
	}
	if rejected, ok := errors.AsType[*mirror.RejectedError](err); ok {
		return rejectedError(rejected, in)
	}
	if ref, ok := errors.AsType[*mirror.RefError](err); ok {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_REF_NOT_FOUND, refMessage(ref),
			in, rpcerr.With("ref", ref.Selector.String()))
	}
	if several, ok := errors.AsType[*content.AmbiguousError](err); ok {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_REF_NOT_FOUND,
			fmt.Sprintf(
				"Several commits begin with %s: %s; give more digits.", several.Prefix,
				strings.Join(several.Candidates, ", "),
			),
			in, rpcerr.With("ref", "commit "+several.Prefix))
	}
	return sentinelError(err, repository, in)
}

func sentinelError(err error, repository string, in rpcerr.Option) error {
	switch {
	case errors.Is(err, mirror.ErrUnknownRepository):
		return rpcerr.NotFound("repository", repository)
	case errors.Is(err, content.ErrCommitNotFound):
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_REF_NOT_FOUND,
			"The repository has no such commit; it may not have been pushed yet.", in)
	case errors.Is(err, snapshot.ErrBundleNotFound), errors.Is(err, cas.ErrNotFound):
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND,
			"No bundle of that digest is stored, and the commit's folder does not hold it.", in)
	case errors.Is(err, digest.ErrMismatch):
		return rpcerr.New(connect.CodeDataLoss, errorsv1.Reason_REASON_DIGEST_MISMATCH,
			"Stored bytes did not match their digest and were dropped; call again.", in)
	case errors.Is(err, cas.ErrFull):
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_STORAGE_FULL,
			"The store for bundles is full; an operator must give it room.", in)
	case errors.Is(err, cas.ErrTooLarge):
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_BUNDLE_TOO_LARGE,
			"The folder is larger than the store takes; split it, or raise the limit.", in)
	case errors.Is(err, content.ErrMalformed):
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_CONTENT_UNSUPPORTED,
			"The commit or one of its folders is not what Git makes; a commit without it has to take its place.", in)
	case errors.Is(err, mirror.ErrOwnershipLost):
		return rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_OWNERSHIP_LOST,
			"This replica does not own the repository any more; call again, another one takes over.")
	case errors.Is(err, mirror.ErrNotOwner):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_OWNER_UNAVAILABLE,
			"No replica owns the repository at the moment; call again.", rpcerr.RetryAfter(RetryOwner), in)
	case errors.Is(err, mirror.ErrEpochStale):
		return rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_EPOCH_STALE,
			"A newer owner exists; this one stops.", in)
	case errors.Is(err, mirror.ErrResumeExpired):
		return rpcerr.New(connect.CodeOutOfRange, errorsv1.Reason_REASON_RESUME_EXPIRED,
			"Events after the resume token are gone; start again without one.")
	case errors.Is(err, mirror.ErrNoMirror), errors.Is(err, content.ErrDamaged):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			"The mirror is not readable at the moment; it is fetched again.", rpcerr.RetryAfter(retryReady), in)
	case errors.Is(err, mirror.ErrDependency) && !errors.Is(err, context.Canceled):
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE,
			"Redis does not answer; call again.", rpcerr.RetryAfter(retryDependency), rpcerr.With("dependency", "redis"))
	}
	return err
}

// notReadyError tells a caller what keeps a repository from being ready, where that is known.
func notReadyError(e *mirror.NotReadyError, in rpcerr.Option) error {
	if e.Unverified {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			"The repository's new verification is being applied to what is mirrored.", rpcerr.RetryAfter(retryReady), in)
	}
	if e.Problem == nil {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			"The repository's first fetch has not finished yet.", rpcerr.RetryAfter(retryReady), in)
	}
	return rpcerr.New(
		codeOf(e.Problem.Reason), errorsv1.Reason(e.Problem.Reason), e.Problem.Message,
		rpcerr.RetryAfter(retryUpstream), in,
	)
}
