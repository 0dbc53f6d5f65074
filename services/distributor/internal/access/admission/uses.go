// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// useEvery is how often the uses of tokens are stored, all of them in one write.
	useEvery = 10 * time.Second
	// useKept is how old the stored time of a token's use may get while it is in use.
	useKept = 5 * time.Minute
	// maxUses bounds the uses that wait to be stored. Later ones are not noticed until these are.
	maxUses = 4096
)

// UseStore stores the uses of tokens; catalog.People has the contract.
type UseStore interface {
	TouchTokens(ctx context.Context, uses []catalog.TokenUse) error
}

// Uses notices when API tokens are used, and stores it in batches: a token costs one row in five
// minutes at most, however often it is used. The times are for people to see, so a use that is lost
// by a crash, or because very many tokens are in use, is not an error. It is safe for concurrent use.
type Uses struct {
	store  UseStore
	logger *slog.Logger

	mu sync.Mutex
	// waiting are the uses that are to be stored, by token.
	waiting map[string]catalog.TokenUse
	// noticed are the last uses that were taken for storing, by token.
	noticed *lru.Cache[string, catalog.TokenUse]
}

// NewUses returns Uses that have noticed nothing.
func NewUses(store UseStore, logger *slog.Logger) *Uses {
	noticed, _ := lru.New[string, catalog.TokenUse](maxUses) // fails only for a limit that is not positive
	return &Uses{store: store, logger: logger, waiting: map[string]catalog.TokenUse{}, noticed: noticed}
}

// Note notices a use of the API token behind an identity, if it has one. from is the address of the
// caller, with or without a port; empty if it is not known.
func (u *Uses) Note(id identity.Identity, from string) {
	token, isToken := APITokenOf(id.Credential)
	if !isToken {
		return
	}
	use := catalog.TokenUse{ID: token, At: time.Now(), From: hostOf(from)}
	u.mu.Lock()
	defer u.mu.Unlock()
	last, isKnown := u.noticed.Get(token)
	if isKnown && use.At.Sub(last.At) < useKept && (use.From == "" || use.From == last.From) {
		return
	}
	if _, waits := u.waiting[token]; !waits && len(u.waiting) >= maxUses {
		return
	}
	if use.From == "" {
		use.From = last.From
	}
	u.waiting[token] = use
	u.noticed.Add(token, use)
}

// Shown returns a token with the last use that this replica has noticed, if it is later than the
// stored one.
func (u *Uses) Shown(token catalog.Token) catalog.Token {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, ok := u.noticed.Peek(token.ID); ok && last.At.After(token.LastUsedAt) {
		token.LastUsedAt = last.At
		if last.From != "" {
			token.LastUsedFrom = last.From
		}
	}
	return token
}

// Run stores uses until ctx is done, and then the waiting ones.
func (u *Uses) Run(ctx context.Context) error {
	tick := time.NewTicker(useEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), useEvery)
			defer cancel()
			u.flush(last)
			return ctx.Err()
		case <-tick.C:
			u.flush(ctx)
		}
	}
}

// flush stores the waiting uses. Uses that cannot be stored now are dropped: the next use comes.
func (u *Uses) flush(ctx context.Context) {
	u.mu.Lock()
	uses := make([]catalog.TokenUse, 0, len(u.waiting))
	for _, use := range u.waiting {
		uses = append(uses, use)
	}
	clear(u.waiting)
	u.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	// In one order at all replicas, so that their transactions never wait for each other in a circle.
	slices.SortFunc(uses, func(a, b catalog.TokenUse) int { return strings.Compare(a.ID, b.ID) })
	if err := u.store.TouchTokens(ctx, uses); err != nil {
		u.logger.DebugContext(ctx, "uses of API tokens not stored", slog.Any("error", err))
	}
}

// hostOf returns an address without its port, so that each connection of a caller is not a new place.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
