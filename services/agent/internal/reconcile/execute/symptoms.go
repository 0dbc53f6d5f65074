// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// maxSymptom is how many bytes of a symptom people are shown.
const maxSymptom = 600

// Symptoms returns why an object of a service hangs, without the secrets of the service's
// configuration: a container may have written one when it ended. It returns "" if that is unknown.
func (x *Executor) Symptoms(ctx context.Context, s plan.Service, o inventory.Object) string {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	secrets, err := x.Secrets(ctx, s)
	if err != nil {
		return ""
	}
	// The agent's rights are enough here: the service could create the object, and the objects that
	// are read belong to it.
	text, err := x.params.Cluster.Symptoms(ctx, o)
	if err != nil {
		x.params.Logger.DebugContext(ctx, "cannot read why an object hangs", slog.String("leat.service", s.Name),
			slog.String("object", o.String()), slog.Any("error", err))
		return ""
	}
	text = secrets.Mask(strings.ToValidUTF8(text, "�")) // before the cut, which might leave half of a secret
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) { // a container's words must not steer the reader's terminal
			return ' '
		}
		return r
	}, text)
	if len(text) > maxSymptom {
		text = strings.ToValidUTF8(text[:maxSymptom], "") + "…"
	}
	return text
}

// Secrets returns the secrets of a service: the secrets of its configuration, and the ones that the
// cluster has given it. Error: the configuration is not available.
func (x *Executor) Secrets(ctx context.Context, s plan.Service) (*render.Substitution, error) {
	secrets := render.NewSubstitution(render.Variables{})
	if s.ConfigDigest != "" {
		configured, err := x.params.Renderer.Configs.Config(ctx, s)
		if err != nil {
			return nil, err
		}
		secrets = render.NewSubstitution(configured.Variables)
	}
	if given := x.params.Renderer.Given; given != nil {
		given.LoadGiven(ctx, s).Conceal(secrets)
	}
	return secrets, nil
}
