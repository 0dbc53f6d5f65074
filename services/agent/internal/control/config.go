// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const (
	configDir     = "configs"
	purposeConfig = "agent service configuration"
)

// errConfigElsewhere means that the hub's configuration is not the one that the plan names.
var errConfigElsewhere = errors.New("the hub has another configuration than the plan names; a new plan follows")

// ConfigParams are the settings and collaborators of OpenConfigs.
type ConfigParams struct {
	// Dir is the folder of the sealed configurations.
	Dir string
	// Hub is a client that sends the agent's token.
	Hub      distributorv1connect.DistributorServiceClient
	Identity *Identity
	Logger   *slog.Logger
}

// Configs fetches each service's configuration when its digest changes, and stores the last one on
// disk, so that a restart without the hub renders the same objects. Files are sealed with a key
// derived from the agent's own: without that key the folder is useless to an attacker. Configs is
// safe for concurrent use.
type Configs struct {
	params  ConfigParams
	vault   vault
	fetches *flight.Group[string, *distributorv1.GetServiceConfigResponse] // by the service's UID
}

var _ manifest.Configs = (*Configs)(nil)

// OpenConfigs creates the folder, and removes incomplete files of a crash.
func OpenConfigs(p ConfigParams) (*Configs, error) {
	v, err := openVault(filepath.Join(p.Dir, configDir), purposeConfig, p.Identity)
	if err != nil {
		return nil, err
	}
	fetches := flight.New[string, *distributorv1.GetServiceConfigResponse](callTimeout)
	return &Configs{params: p, vault: v, fetches: fetches}, nil
}

// Config implements manifest.Configs.
func (c *Configs) Config(ctx context.Context, s plan.Service) (manifest.Configuration, error) {
	kept, err := c.read(s)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.params.Logger.WarnContext(ctx, "stored configuration cannot be read, asking the hub",
			slog.String("leat.service", s.Name), slog.Any("error", err))
	}
	if err == nil && kept.GetConfigDigest() == s.ConfigDigest {
		return configurationOf(kept), nil
	}
	fresh, err := c.fetch(ctx, s)
	if err == nil && fresh.GetConfigDigest() != s.ConfigDigest {
		fresh, err = c.fetch(ctx, s) // the shared call may have begun before the plan changed
	}
	if err == nil && fresh.GetConfigDigest() != s.ConfigDigest {
		err = errConfigElsewhere
	}
	if err != nil && ctx.Err() != nil {
		return manifest.Configuration{}, fmt.Errorf("fetch configuration: %w", context.Cause(ctx))
	}
	if err != nil {
		return manifest.Configuration{}, manifest.Unanswered(reason.Errorf(reason.DependencyUnavailable,
			"the hub does not return the service's configuration, and the objects stay as they are: %s", advice(err)), rpcerr.Paced(err))
	}
	return configurationOf(fresh), nil
}

// advice returns the text of an error of the call for people.
func advice(err error) string {
	if rpcerr.HasReason(err) {
		return fmt.Sprintf("%s (%s)", rpcerr.Message(err), strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_"))
	}
	return err.Error()
}

// fetch requests the configuration, with one call for all concurrent callers, and stores it. It
// outlives a caller that gives up.
func (c *Configs) fetch(ctx context.Context, s plan.Service) (*distributorv1.GetServiceConfigResponse, error) {
	return c.fetches.Do(ctx, s.UID, func(ctx context.Context) (*distributorv1.GetServiceConfigResponse, error) {
		response, err := c.params.Hub.GetServiceConfig(ctx, &distributorv1.GetServiceConfigRequest{Service: s.Name, ConfigDigest: s.ConfigDigest})
		if err != nil {
			return nil, c.params.Identity.checkAnswer(err)
		}
		if err := c.keep(s, response); err != nil {
			c.params.Logger.ErrorContext(ctx, "cannot store configuration, a restart without the hub would lack it",
				slog.String("leat.service", s.Name), slog.Any("error", err))
		}
		return response, nil
	})
}

// keep replaces the stored configuration of the service.
func (c *Configs) keep(s plan.Service, config *distributorv1.GetServiceConfigResponse) error {
	plain, err := proto.Marshal(config)
	if err != nil {
		return errors.New("encode configuration")
	}
	return c.vault.write(s.Name, place(s), plain)
}

func (c *Configs) read(s plan.Service) (*distributorv1.GetServiceConfigResponse, error) {
	plain, err := c.vault.read(s.Name, place(s))
	if err != nil {
		return nil, err
	}
	config := &distributorv1.GetServiceConfigResponse{}
	if err := proto.Unmarshal(plain, config); err != nil {
		return nil, errors.New("decode configuration")
	}
	return config, nil
}

// Retain removes the stored configurations of services that are not in the plan: secrets are kept
// no longer than necessary.
func (c *Configs) Retain(ctx context.Context, plan plan.Plan) {
	wanted := make(map[string]bool, len(plan.Services))
	for _, s := range plan.Services {
		if s.ConfigDigest != "" {
			wanted[s.Name] = true
		}
	}
	if err := c.vault.retain(wanted); err != nil {
		c.params.Logger.WarnContext(ctx, "cannot remove configurations of services that left the plan", slog.Any("error", err))
	}
}

// place binds a configuration to its service, and not to a later one of the same name.
func place(s plan.Service) string { return s.UID + "/" + s.Name }

func configurationOf(config *distributorv1.GetServiceConfigResponse) manifest.Configuration {
	v := render.Variables{Values: config.GetValues(), Secrets: make(map[string]string, len(config.GetSecrets()))}
	for key, secret := range config.GetSecrets() {
		v.Secrets[key] = string(secret)
	}
	return manifest.Configuration{Variables: v, References: config.GetReferences(), Restart: config.GetRestart()}
}
