// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Options are the handler options of the service's own; they come after those every service has, so
// that the caller's identity is known.
func Options() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithInterceptors(servicesOnly(""))}
}

// ReplicaOptions are [Options] for the service of package replica, and let only gitcache in.
func ReplicaOptions() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithInterceptors(servicesOnly(selfService))}
}

// selfService is the name under which replicas call one another.
const selfService = "gitcache"

// servicesOnly lets only other services of the hub in, or only the named one: a mirror knows nothing
// about what a person or an agent may see.
func servicesOnly(name string) rpc.Before {
	return func(ctx context.Context, _ connect.Spec, _ http.Header) (context.Context, error) {
		id, ok := identity.FromContext(ctx)
		if ok && id.Kind == identity.KindService && (name == "" || id.Name == name) {
			return ctx, nil
		}
		return ctx, rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
			"Only services of the hub may call the Git cache.")
	}
}
