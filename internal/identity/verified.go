// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import "context"

type verifiedKey struct{}

// OnVerified returns a context with which [Verified] calls notify. A server uses it to learn which of its callers have proven who they
// are, and bounds those that have not.
func OnVerified(ctx context.Context, notify func()) context.Context {
	return context.WithValue(ctx, verifiedKey{}, notify)
}

// Verified reports to the server behind ctx that the caller's proof was accepted: a token, a join token or an assertion. [FromHeader]
// calls it; a handler that verifies by other means calls it itself. It may be called more than once.
func Verified(ctx context.Context) {
	if notify, ok := ctx.Value(verifiedKey{}).(func()); ok {
		notify()
	}
}
