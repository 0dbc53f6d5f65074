// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import "context"

type verifiedKey struct{}

// OnVerified returns a context for which [Verified] calls notify. A server uses it to learn which
// callers have proven their identity, and bounds the others.
func OnVerified(ctx context.Context, notify func()) context.Context {
	return context.WithValue(ctx, verifiedKey{}, notify)
}

// Verified reports to the server behind ctx that the caller's proof was accepted: a token, a join
// token or an assertion. [FromHeader] calls it. A handler that verifies in another way calls it
// itself. It may be called more than once.
func Verified(ctx context.Context) {
	if notify, ok := ctx.Value(verifiedKey{}).(func()); ok {
		notify()
	}
}
