// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

// MetadataSubmodule names the path of the submodule that an error is about.
const MetadataSubmodule = "submodule"

// submoduleError maps what keeps a submodule from being had; nil: err is of another kind.
func submoduleError(err error, in rpcerr.Option) error {
	if gone, ok := errors.AsType[*submodule.UnavailableError](err); ok {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE,
			fmt.Sprintf("The submodule %q is not available at %s. %s", gone.Path, gone.Commit, gone.Said), in,
			rpcerr.With("path", gone.Path), rpcerr.With("url", gone.URL), rpcerr.With("commit", gone.Commit))
	}
	late, ok := errors.AsType[*submodule.NotReadyError](err)
	if !ok {
		return nil
	}
	of := []rpcerr.Option{
		in, rpcerr.With(MetadataSubmodule, late.Path), rpcerr.With("path", late.Path), rpcerr.With("url", late.URL),
	}
	if late.Problem == nil {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			fmt.Sprintf("The submodule %q is not mirrored yet; it is being fetched.", late.Path),
			append(of, rpcerr.RetryAfter(retryReady))...)
	}
	return rpcerr.New(codeOf(late.Problem.Reason), errorsv1.Reason(late.Problem.Reason),
		fmt.Sprintf("The submodule %q is not mirrored. %s", late.Path, late.Problem.Message),
		append(of, rpcerr.RetryAfter(retryUpstream))...)
}
