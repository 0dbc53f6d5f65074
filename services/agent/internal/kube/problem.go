// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// try calls do until it succeeds, fails for good, or has failed too often, and translates the last error. Kind is the kind
// of the object that it is about: of what the API server says about a Secret nothing is repeated that might be a value.
func (c *Client) try(ctx context.Context, kind string, do func(context.Context) error) error {
	err := backoff.Retry(ctx, c.retry, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err := do(ctx)
		if err != nil && !passing(err) {
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

// passing tells errors that may be gone a moment later.
func passing(err error) bool {
	if meta.IsNoMatchError(err) {
		return false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return true // the API server was not reached
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// translate turns client-go's errors into those that reconcile.Cluster promises.
func translate(err error, kind string) error {
	status := apierrors.APIStatus(nil)
	switch {
	case errors.Is(err, k8s.ErrReplaced):
		return err
	case meta.IsNoMatchError(err):
		return rejectedf("the cluster has no such kind (%v); install its definition first", err)
	case !errors.As(err, &status):
		return reason.Errorf(reason.ClusterUnreachable, "the cluster's API server cannot be reached: %v", err)
	case apierrors.IsNotFound(err) && isAbout(status.Status(), kind):
		return fmt.Errorf("%w: %s", k8s.ErrNotFound, status.Status().Message)
	case len(conflicts(status.Status())) > 0:
		return k8s.NewConflictError(conflicts(status.Status()), kind == secretKind)
	case closing(err) != "":
		return rejectedf("%s; it is tried again until the namespace is gone and there anew", closing(err))
	case passing(err) && !apierrors.IsInternalError(err):
		return reason.Errorf(reason.ClusterUnreachable, "the cluster's API server does not serve: %s", status.Status().Message)
	default:
		return rejectedf("the API server refused: %s", words(status.Status(), kind))
	}
}

// isAbout tells a missing object from a missing namespace, which makes an apply of something else fail.
func isAbout(status metav1.Status, kind string) bool {
	return kind == "Namespace" || status.Details == nil || status.Details.Kind != "namespaces"
}

// conflicts says which manager owns which field.
func conflicts(status metav1.Status) []k8s.Conflict {
	if status.Code != http.StatusConflict || status.Details == nil {
		return nil
	}
	var all []k8s.Conflict
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			all = append(all, k8s.Conflict{Manager: managerIn(cause.Message), Field: cause.Field})
		}
	}
	return all
}

// managerIn reads the name out of: conflict with "name" using apps/v1.
func managerIn(message string) string {
	_, rest, _ := strings.Cut(message, "conflict with ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return message
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return message
	}
	return name
}

// secretKind is the kind about whose objects the API server's words are not repeated.
const secretKind = "Secret"

// words is the API server's message; for a Secret only what was wrong with which fields.
func words(status metav1.Status, kind string) string {
	if kind != secretKind {
		return status.Message
	}
	text := string(status.Reason)
	if status.Details == nil {
		return text
	}
	for _, cause := range status.Details.Causes {
		text += fmt.Sprintf(", %s: %s", cause.Field, cause.Type)
	}
	return text
}
