// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/lfs"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// RetryOwner is after how long a caller tries again while no replica owns a repository.
	RetryOwner      = 2 * time.Second
	retryReady      = 2 * time.Second
	retryUpstream   = 10 * time.Second
	retryDependency = 2 * time.Second
)

// codeOf returns the code that goes with a failure of an upstream.
func codeOf(r reason.Reason) connect.Code {
	switch r {
	case reason.UpstreamAuthRejected, reason.UpstreamHostKeyRejected, reason.UpstreamProtocol,
		reason.UpstreamSignatureRejected, reason.PushRefused, reason.PushNotAllowed:
		return connect.CodeFailedPrecondition
	case reason.PushOutdated:
		return connect.CodeAborted
	case reason.ContentUnsupported:
		return connect.CodeFailedPrecondition
	case reason.RepositoryNotFound, reason.RefNotFound:
		return connect.CodeNotFound
	case reason.StorageFull, reason.UpstreamRateLimited, reason.BundleTooLarge:
		return connect.CodeResourceExhausted
	default: // may be over soon
		return connect.CodeUnavailable
	}
}

// upstreamError maps what keeps something from being fetched; nil: err is of another kind. what
// names it.
func upstreamError(err error, what string, of ...rpcerr.Option) error {
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_UPSTREAM_RATE_LIMITED,
			fmt.Sprintf("%s has to wait: %s asks to slow down.", what, quiet.Host),
			append(of, rpcerr.RetryAfter(max(time.Until(quiet.Until), retryReady)))...)
	}
	if upstream, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		return rpcerr.New(codeOf(upstream.Reason), errorsv1.Reason(upstream.Reason),
			what+" cannot be fetched: "+upstream.Message,
			append(of, rpcerr.RetryAfter(max(upstream.RetryAfter, retryUpstream)))...)
	}
	return nil
}

// blobError maps what keeps the content of files, or an artifact, from being fetched; nil: err is of
// another kind.
func blobError(err error, in rpcerr.Option) error {
	if bad, ok := errors.AsType[*mirror.ArtifactError](err); ok {
		of := []rpcerr.Option{in}
		if bad.Path != "" {
			of = append(of, rpcerr.With("path", Text(bad.Path)))
		}
		return rpcerr.New(codeOf(bad.Reason), errorsv1.Reason(bad.Reason), Text(bad.Message), of...)
	}
	if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			fmt.Sprintf("%s is still being looked up; call again.", Text(unpinned.Names[0])), rpcerr.RetryAfter(retryReady), in)
	}
	if _, ok := errors.AsType[*content.AbsentError](err); ok {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			"The content of files is still being fetched; call again.", rpcerr.RetryAfter(retryReady), in)
	}
	return upstreamError(err, "The content", in)
}

// objectError maps what keeps an LFS object from being had; nil: err is of another kind.
func objectError(err error, in rpcerr.Option) error {
	if missing, ok := errors.AsType[*lfs.MissingError](err); ok {
		said := missing.Said
		if said != "" {
			said = ": " + said
		}
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_LFS_OBJECT_MISSING,
			fmt.Sprintf(
				"The upstream does not have the Git LFS object of %q%s. Push it with git lfs push --all, or leave the file out.",
				missing.Path, said,
			),
			in, rpcerr.With("path", missing.Path), rpcerr.With("oid", missing.OID))
	}
	file, ok := errors.AsType[*lfs.FileError](err)
	if !ok {
		return nil
	}
	return upstreamError(err, fmt.Sprintf("The Git LFS object of %q", file.Path), in, rpcerr.With("path", file.Path))
}
