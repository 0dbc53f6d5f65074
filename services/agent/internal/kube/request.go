// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// try calls do until it succeeds, fails permanently, or has failed too often, and translates the
// last error. Kind is the kind of the object in question: messages about a Secret are not repeated,
// because they may contain a value.
func (c *Client) try(ctx context.Context, kind string, do func(context.Context) error) error {
	err := backoff.Retry(ctx, c.retry, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err := do(ctx)
		if err != nil && !isTransient(err) {
			return backoff.Permanent(err)
		}
		return err
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("talk to the API server: %w", context.Cause(ctx))
	}
	if c.forbids(err) {
		return c.forbidden(err)
	}
	return translate(err, kind)
}

// request is [Client.try] for a request with an answer.
func request[T any](ctx context.Context, c *Client, kind string, do func(context.Context) (T, error)) (answer T, err error) {
	err = c.try(ctx, kind, func(ctx context.Context) error {
		answer, err = do(ctx)
		return err
	})
	return answer, err
}

// forbids reports whether err means that the account lacks a right. Quotas and admission policies
// return the same kind of error, but about the object.
func (c *Client) forbids(err error) bool {
	status := apierrors.APIStatus(nil)
	if c.account == (k8s.Account{}) || !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return false
	}
	if webhookOf(status.Status()) != "" || policyOf(status.Status()) != "" {
		return false // whatever its message
	}
	return strings.Contains(err.Error(), "User ") && strings.Contains(err.Error(), " cannot ")
}

// forbidden returns the problem of a service whose account lacks a right.
func (c *Client) forbidden(err error) error {
	return reason.Errorf(reason.TenantForbidden, "service account %s is not allowed to: %v; grant it the right, or leave the object to a service "+
		"that has it", c.account, err)
}
