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

	"connectrpc.com/connect"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/render"
)

const (
	configDir     = "configs"
	purposeConfig = "agent service configuration"
)

// errConfigElsewhere means that the hub has given another configuration than the plan names.
var errConfigElsewhere = errors.New("the hub has another configuration than the plan names; a new plan follows")

// ConfigParams are what OpenConfigs needs.
type ConfigParams struct {
	// Dir is where configurations are kept, sealed.
	Dir string
	// Hub is called with the agent's token.
	Hub      distributorv1connect.DistributorServiceClient
	Identity *Identity
	Logger   *slog.Logger
}

// Configs fetches each service's configuration when its digest changes, and keeps the last one on the disk, so that a
// restart without the hub renders the same. What is on the disk is sealed with a key made of the agent's: whoever gets at
// the folder without it has nothing. It is safe for concurrent use.
type Configs struct {
	params ConfigParams
	vault  vault
	flight singleflight.Group
}

var _ manifest.Configs = (*Configs)(nil)

// OpenConfigs makes the folder, and removes what a crash left half-written.
func OpenConfigs(p ConfigParams) (*Configs, error) {
	v, err := openVault(filepath.Join(p.Dir, configDir), purposeConfig, p.Identity)
	if err != nil {
		return nil, err
	}
	return &Configs{params: p, vault: v}, nil
}

// Config implements manifest.Configs.
func (c *Configs) Config(ctx context.Context, s plan.Service) (render.Variables, error) {
	kept, err := c.read(s)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.params.Logger.WarnContext(ctx, "stored configuration cannot be read, asking the hub",
			slog.String("leat.service", s.Name), slog.Any("error", err))
	}
	if err == nil && kept.GetConfigDigest() == s.ConfigDigest {
		return variablesOf(kept), nil
	}
	fresh, err := c.fetch(ctx, s)
	if err == nil && fresh.GetConfigDigest() != s.ConfigDigest {
		fresh, err = c.fetch(ctx, s) // the first call may have been under way before the plan changed
	}
	if err == nil && fresh.GetConfigDigest() != s.ConfigDigest {
		err = errConfigElsewhere
	}
	if err != nil && ctx.Err() != nil {
		return render.Variables{}, fmt.Errorf("fetch configuration: %w", context.Cause(ctx))
	}
	if err != nil {
		return render.Variables{}, &reason.Problem{
			Reason:  reason.DependencyUnavailable,
			Message: fmt.Sprintf("the hub does not give the service's configuration, what was applied before stays: %s", advice(err)),
		}
	}
	return variablesOf(fresh), nil
}

// advice is what a person is told of an error of the call.
func advice(err error) string {
	if rpcerr.HasReason(err) {
		return fmt.Sprintf("%s (%s)", rpcerr.Message(err), strings.TrimPrefix(rpcerr.ReasonOf(err).String(), "REASON_"))
	}
	return err.Error()
}

// fetch asks the hub, once for all who ask at the same time, and keeps the answer. It outlives a caller that gives up.
func (c *Configs) fetch(ctx context.Context, s plan.Service) (*distributorv1.GetServiceConfigResponse, error) {
	done := c.flight.DoChan(s.UID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		response, err := c.params.Hub.GetServiceConfig(ctx, &distributorv1.GetServiceConfigRequest{Service: s.Name, ConfigDigest: s.ConfigDigest})
		if err != nil {
			if connect.CodeOf(err) == connect.CodeUnauthenticated {
				c.params.Identity.Invalidate()
			}
			return nil, err
		}
		if err := c.keep(s, response); err != nil {
			c.params.Logger.ErrorContext(ctx, "configuration cannot be stored, a restart without the hub would lack it",
				slog.String("leat.service", s.Name), slog.Any("error", err))
		}
		return response, nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-done:
		response, _ := result.Val.(*distributorv1.GetServiceConfigResponse)
		return response, result.Err
	}
}

// keep writes a configuration in place of the service's last.
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

// Retain removes from the disk what the plan has no use for: secrets are kept no longer than they are needed.
func (c *Configs) Retain(ctx context.Context, plan plan.Plan) {
	wanted := make(map[string]bool, len(plan.Services))
	for _, s := range plan.Services {
		if s.ConfigDigest != "" {
			wanted[s.Name] = true
		}
	}
	if err := c.vault.retain(wanted); err != nil {
		c.params.Logger.WarnContext(ctx, "configurations that are not needed any more cannot be removed", slog.Any("error", err))
	}
}

// place binds a configuration to its service, and not to another that comes under the same name.
func place(s plan.Service) string { return s.UID + "/" + s.Name }

func variablesOf(config *distributorv1.GetServiceConfigResponse) render.Variables {
	v := render.Variables{Values: config.GetValues(), Secrets: make(map[string]string, len(config.GetSecrets()))}
	for key, secret := range config.GetSecrets() {
		v.Secrets[key] = string(secret)
	}
	return v
}
