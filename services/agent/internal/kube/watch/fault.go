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

// errDeclined means that the server does not offer streaming lists.
var errDeclined = errors.New("the server offers no streaming lists")

// outdated tells that the server cannot go on from where this watch was: it has forgotten what came next, or, restored from
// a backup, does not know it yet.
func outdated(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// denied tells an error that only a person can mend.
func denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// refused tells that asking for the same page again is in vain.
func refused(err error) bool {
	return outdated(err) || denied(err) || apierrors.IsNotFound(err)
}

// pause is how long to wait after the given error, and how often nothing was heard before it.
func (w *Watcher) pause(err error, failures int) time.Duration {
	switch {
	case errors.Is(err, errAgain), errors.Is(err, errDeclined):
		return 0
	case denied(err):
		return w.params.Settings.Denied.After(err, failures)
	default:
		return w.params.Settings.Retry.After(err, failures)
	}
}

// tired is how many failures in a row people are told of. By then about 10 s have passed.
const tired = 7

// note draws the conclusions from the end of a connection that only concern this watch.
func (w *Watcher) note(ctx context.Context, err error, failures int) {
	if outdated(err) && !errors.Is(err, errDeclined) {
		if w.version == "" {
			w.expired++
		}
		w.version = ""
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, io.EOF):
	case denied(err) && !w.unwell:
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

// hear notes that the server is there.
func (w *Watcher) hear(ctx context.Context) {
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
