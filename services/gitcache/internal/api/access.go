// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
)

// Options are the handler options of the service's own; they come after those every service has, so
// that the caller's identity is known.
func Options() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithInterceptors(servicesOnly{})}
}

// ReplicaOptions are [Options] for [Replica], which lets only gitcache in.
func ReplicaOptions() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithInterceptors(servicesOnly{name: selfService})}
}

// selfService is the name under which replicas call one another.
const selfService = "gitcache"

// servicesOnly lets only other services of the hub in: a mirror knows nothing about what a person
// or an agent may see.
type servicesOnly struct {
	name string // only this one; empty: any
}

// WrapUnary implements connect.Interceptor.
func (o servicesOnly) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := o.admit(ctx); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (o servicesOnly) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := o.admit(ctx); err != nil {
			return err
		}
		return next(ctx, conn)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (servicesOnly) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (o servicesOnly) admit(ctx context.Context) error {
	id, ok := identity.FromContext(ctx)
	if ok && id.Kind == identity.KindService && (o.name == "" || id.Name == o.name) {
		return nil
	}
	return rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
		"Only services of the hub may call the Git cache.")
}
