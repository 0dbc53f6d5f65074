// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errDeclined means that the server does not support streaming lists.
var errDeclined = errors.New("the server does not support streaming lists")

// isOutdated reports whether the server cannot continue this watch: it has forgotten the following
// events, or was restored from a backup and has not reached them yet.
func isOutdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// isDenied reports whether only a person can resolve the error.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// isRefused reports whether another request for the same page would fail, too.
func isRefused(err error) bool {
	return isOutdated(err) || isDenied(err) || apierrors.IsNotFound(err)
}

// pause returns how long to wait after an error that follows a number of connections without any
// answer.
func (w *Watcher) pause(err error, failures int) time.Duration {
	switch {
	case errors.Is(err, errAgain), errors.Is(err, errDeclined):
		return 0
	case isDenied(err):
		return w.params.Settings.Denied.After(err, failures)
	default:
		return w.params.Settings.Retry.After(err, failures)
	}
}

// tired is the number of consecutive failures after which the log has a warning. By then about 10 s
// have passed.
const tired = 7

// note records the end of a connection, and logs it if necessary.
func (w *Watcher) note(ctx context.Context, err error, failures int) {
	if isOutdated(err) && !errors.Is(err, errDeclined) {
		if w.version == "" {
			w.expired++
		}
		w.version = ""
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, io.EOF):
	case isDenied(err) && !w.unwell:
		w.unwell = true
		w.params.Logger.WarnContext(ctx, "kind may not be watched", slog.Any("error", err))
		w.params.Handler.Denied(err)
	case failures == tired && !w.unwell:
		w.unwell = true
		w.params.Logger.WarnContext(ctx, "kind cannot be watched", slog.Any("error", err))
	default:
		w.params.Logger.DebugContext(ctx, "watch broke off", slog.Any("error", err), slog.Int("failures", failures))
	}
}

// setReachable records that the server has answered.
func (w *Watcher) setReachable(ctx context.Context) {
	w.heard = true
	if w.unwell {
		w.unwell = false
		w.params.Logger.InfoContext(ctx, "kind can be watched again")
	}
	if w.lost {
		w.lost = false
		if w.params.Back != nil {
			w.params.Back()
		}
	}
}
