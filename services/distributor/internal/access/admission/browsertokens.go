// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// BrowserLabel is the label of the API tokens that the hub makes for browsers. Each of them was made
// with another token.
const BrowserLabel = "browser"

const (
	// browserIdle is how long the token of a browser lives without use.
	browserIdle = time.Hour
	// browserTouch is how old the stored time of its last use may get.
	browserTouch = time.Minute
)

// UseInBrowser is Verify for the use of a token by the browser that keeps it, and accepts no other
// token. It stores the time of the use, and deletes a token that was not used for an hour. All
// replicas decide by the stored time, to which other uses of the token count, too. A token that this
// replica still remembers was used a short time ago, so the store may be away.
func (t *APITokens) UseInBrowser(ctx context.Context, token string) (identity.Identity, error) {
	return t.verify(ctx, token, t.useInBrowser)
}

// useInBrowser stores a use. Error: catalog.ErrNotFound for an idle token, which it deletes, and for
// one that is not a browser's, which it leaves alone.
func (t *APITokens) useInBrowser(ctx context.Context, token catalog.Token) error {
	if token.Label != BrowserLabel || token.MadeWith == "" {
		return catalog.ErrNotFound
	}
	now, last := catalog.Now(), token.LastUsedAt
	if last.Before(token.CreatedAt) {
		last = token.CreatedAt
	}
	switch idle := now.Sub(last); {
	case idle > browserIdle:
		return cmp.Or(t.people.DeleteToken(ctx, token.ID), catalog.ErrNotFound)
	case idle < browserTouch:
		return nil
	}
	return t.people.TouchTokens(ctx, []catalog.TokenUse{{ID: token.ID, At: now}})
}
