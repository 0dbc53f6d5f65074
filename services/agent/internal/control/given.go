// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const (
	givenDir     = "given"
	purposeGiven = "agent values of the cluster"
)

// GivenParams are the settings and collaborators of OpenGiven.
type GivenParams struct {
	// Dir is the folder of the agent's files.
	Dir      string
	Identity *Identity
	Logger   *slog.Logger
}

// Given keeps on disk what the cluster gave services, sealed as configurations are. It is safe for
// concurrent use, with one caller at a time for each service.
type Given struct {
	params GivenParams
	vault  vault
}

var _ manifest.GivenStore = (*Given)(nil)

// OpenGiven creates the folder, and removes incomplete files of a crash.
func OpenGiven(p GivenParams) (*Given, error) {
	v, err := openVault(filepath.Join(p.Dir, givenDir), purposeGiven, p.Identity)
	if err != nil {
		return nil, err
	}
	return &Given{params: p, vault: v}, nil
}

// LoadGiven implements manifest.GivenStore.
func (g *Given) LoadGiven(ctx context.Context, s plan.Service) (given manifest.Given) {
	plain, err := g.vault.read(s.Name, place(s))
	if errors.Is(err, fs.ErrNotExist) {
		return manifest.Given{}
	}
	if err == nil && json.Unmarshal(plain, &given) != nil {
		err = errors.New("decode values")
	}
	if err != nil {
		g.params.Logger.WarnContext(ctx, "values that the cluster gave a service cannot be read, reading the cluster",
			slog.String("leat.service", s.Name), slog.Any("error", err))
		return manifest.Given{}
	}
	return given
}

// SaveGiven implements manifest.GivenStore. A service that was given nothing keeps no file.
func (g *Given) SaveGiven(ctx context.Context, s plan.Service, given manifest.Given) {
	if err := g.save(s, given); err != nil {
		g.params.Logger.ErrorContext(ctx, "cannot store values that the cluster gave a service, a restart would lack them",
			slog.String("leat.service", s.Name), slog.Any("error", err))
	}
}

func (g *Given) save(s plan.Service, given manifest.Given) error {
	if len(given.References)+len(given.Opened) == 0 {
		return g.vault.remove(s.Name)
	}
	plain, err := json.Marshal(given)
	if err != nil {
		return errors.New("encode values")
	}
	return g.vault.write(s.Name, place(s), plain)
}

// Retain removes the values of services that are not in the plan: secrets are kept no longer than
// necessary.
func (g *Given) Retain(ctx context.Context, plan plan.Plan) {
	wanted := make(map[string]bool, len(plan.Services))
	for _, s := range plan.Services {
		wanted[s.Name] = true
	}
	if err := g.vault.retain(wanted); err != nil {
		g.params.Logger.WarnContext(ctx, "cannot remove values of services that left the plan", slog.Any("error", err))
	}
}
