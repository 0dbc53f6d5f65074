// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// GivenStore keeps what the cluster gave services, so that a value that is gone stays in use, and
// that secrets are masked after a restart. Implementations seal it.
type GivenStore interface {
	// LoadGiven returns what was saved last for a service; zero if nothing was, or it cannot be read.
	LoadGiven(ctx context.Context, s plan.Service) Given
	// SaveGiven replaces the kept values of a service. An implementation logs its own failures: a
	// restart would lack it, and nothing else.
	SaveGiven(ctx context.Context, s plan.Service, g Given)
}

// Given holds the values that the cluster gave a service.
type Given struct {
	// References are values by key of the configuration.
	References map[string]GivenValue `json:"references,omitempty"`
	// Opened are the values of encrypted manifests, and of Secrets that charts have looked up,
	// sorted.
	Opened []string `json:"opened,omitempty"`
}

// GivenValue is the target of a reference.
type GivenValue = configref.Value[string]

// given is a Given during one render.
type given struct {
	store   GivenStore
	service plan.Service
	loaded  *Given
	next    Given
}

func newGiven(store GivenStore, s plan.Service) *given { return &given{store: store, service: s} }

// before returns what the service was given before.
func (g *given) before(ctx context.Context) Given {
	if g.loaded == nil {
		g.loaded = &Given{}
		if g.store != nil {
			*g.loaded = g.store.LoadGiven(ctx, g.service)
		}
	}
	return *g.loaded
}

// save stores what the service was given, if it changed.
func (g *given) save(ctx context.Context) {
	slices.Sort(g.next.Opened)
	g.next.Opened = slices.Compact(g.next.Opened)
	if g.store == nil || reflect.DeepEqual(g.before(ctx), g.next) {
		return
	}
	g.store.SaveGiven(ctx, g.service, g.next)
}

func (g *given) setReferences(values map[string]GivenValue) { g.next.References = values }

// Conceal adds to a substitution everything secret that the cluster gave a service.
func (g Given) Conceal(s *render.Substitution) {
	s.Conceal(g.Opened...)
	for _, value := range g.References {
		if !value.IsPublic {
			s.Conceal(value.Text)
		}
	}
}

// secretTexts returns an opened value as texts that must not be shown. A boolean is not one: half of
// all objects contain it.
func secretTexts(value any) []string {
	if _, isBool := value.(bool); isBool {
		return nil
	}
	text := fmt.Sprint(value)
	if text == "" {
		return nil
	}
	all := []string{text}
	if plain, err := base64.StdEncoding.DecodeString(text); err == nil && len(plain) > 3 && utf8.Valid(plain) {
		all = append(all, string(plain)) // the data of a Secret
	}
	return all
}
