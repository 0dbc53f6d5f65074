// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// MetadataDependency names the dependency of a chart that an error is about.
const MetadataDependency = "dependency"

// dependencyError maps what keeps the dependency of a chart from being packed; nil: err is of another
// kind.
func dependencyError(err error, in rpcerr.Option) error {
	if bad, ok := errors.AsType[*chartdep.UnsupportedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_CONTENT_UNSUPPORTED,
			fmt.Sprintf("The dependencies of a chart cannot be packed: %s: %s", Text(bad.File), Text(bad.Said)),
			in, rpcerr.With("path", Text(bad.File)))
	}
	if gone, ok := errors.AsType[*chartdep.UnavailableError](err); ok {
		of := append(dependencyOf(gone.File, gone.Name, gone.URL), in)
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_CHART_DEPENDENCY_UNAVAILABLE,
			fmt.Sprintf("%s is not available. %s", dependencyName(gone.File, gone.Name, gone.Version, gone.URL), Text(gone.Said)),
			of...)
	}
	failed, ok := errors.AsType[*chartdep.FetchError](err)
	if !ok {
		return nil
	}
	what := dependencyName(failed.File, failed.Name, failed.Version, failed.URL)
	of := append(dependencyOf(failed.File, failed.Name, failed.URL), in)
	if bad, ok := errors.AsType[*mirror.ArtifactError](err); ok {
		return rpcerr.New(
			codeOf(bad.Reason), errorsv1.Reason(bad.Reason),
			fmt.Sprintf("%s cannot be packed: %s", what, Text(bad.Message)), of...,
		)
	}
	if notReady, ok := errors.AsType[*mirror.NotReadyError](err); ok && notReady.Problem != nil {
		return rpcerr.New(codeOf(notReady.Problem.Reason), errorsv1.Reason(notReady.Problem.Reason),
			fmt.Sprintf("%s is not mirrored. %s", what, Text(notReady.Problem.Message)),
			append(of, rpcerr.RetryAfter(retryUpstream))...)
	}
	if mapped := upstreamError(err, what, of...); mapped != nil {
		return mapped
	}
	if rejected, ok := errors.AsType[*mirror.RejectedError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason(reason.UpstreamSignatureRejected),
			fmt.Sprintf("%s is held back: %s", what, Text(rejected.Error())), of...)
	}
	return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
		what+" is not mirrored yet; it is being fetched.", append(of, rpcerr.RetryAfter(retryReady))...)
}

// dependencyName names a dependency in messages, at the beginning of a sentence.
func dependencyName(file, name, version, url string) string {
	if version != "" {
		name += " " + version
	}
	return fmt.Sprintf("The dependency %.300s of %s, from %.2048s,", Text(name), Text(file), Text(url))
}

func dependencyOf(file, name, url string) []rpcerr.Option {
	return []rpcerr.Option{
		rpcerr.With(MetadataDependency, Text(name)), rpcerr.With("path", Text(file)), rpcerr.With("url", Text(url)),
	}
}
