// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/webhook/provider"
)

// verifying bounds the deliveries that are verified at once: each is hashed once for every distinct
// secret.
const verifying = 2

// prover compares claims with the secrets of repositories. It may be used concurrently.
type prover struct {
	definitions   func() []mirror.Definition // all that are known now
	defaultSecret secret.Text                // of repositories without one of their own; empty: they take no webhooks
	verifying     *semaphore.Weighted
}

func newProver(definitions func() []mirror.Definition, defaultSecret secret.Text) *prover {
	return &prover{definitions: definitions, defaultSecret: defaultSecret, verifying: semaphore.NewWeighted(verifying)}
}

// proven is the access that a claim proves.
type proven struct {
	any          bool // some secret fits, if only one without a repository
	repositories []mirror.Definition
}

// prove compares the claim with every secret, so that its duration does not reveal which one fits.
// If the sender named a repository, prove compares with that repository's secret alone, or with
// unknownSecret if it has none. The error is the context's.
func (p *prover) prove(ctx context.Context, c provider.Claim, name string, body []byte) (proven, error) {
	if err := p.verifying.Acquire(ctx, 1); err != nil {
		return proven{}, context.Cause(ctx)
	}
	defer p.verifying.Release(1)
	var found proven
	secrets := p.bySecret(name)
	if name != "" && len(secrets) == 0 { // takes as long as a wrong secret
		_ = c.Holds(unknownSecret, body)
	}
	for secret, repositories := range secrets {
		if ctx.Err() != nil {
			return proven{}, context.Cause(ctx)
		}
		if c.Holds(secret, body) {
			found.any = true
			found.repositories = append(found.repositories, repositories...)
		}
	}
	return found, nil
}

// unknownSecret replaces the missing secret of a named repository. prove ignores the result of that
// comparison.
const unknownSecret secret.Text = "stands for the secret of a repository that is not there"

// bySecret groups repositories by the secret that their webhooks need, and leaves out repositories
// without one. With a name it returns that repository alone.
func (p *prover) bySecret(name string) map[secret.Text][]mirror.Definition {
	groups := map[secret.Text][]mirror.Definition{}
	if p.defaultSecret != "" && name == "" {
		groups[p.defaultSecret] = nil
	}
	for _, def := range p.definitions() {
		if name != "" && def.Name != name {
			continue
		}
		secret := def.WebhookSecret
		if secret == "" {
			secret = p.defaultSecret
		}
		if secret != "" {
			groups[secret] = append(groups[secret], def)
		}
	}
	return groups
}
