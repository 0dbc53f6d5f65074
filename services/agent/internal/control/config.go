// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/seal"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/render"
)

const (
	configDir     = "configs"
	configFile    = ".sealed"
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
	flight singleflight.Group
}

var _ reconcile.Configs = (*Configs)(nil)

// OpenConfigs makes the folder, and removes what a crash left half-written.
func OpenConfigs(p ConfigParams) (*Configs, error) {
	p.Dir = filepath.Join(p.Dir, configDir)
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for configurations: %w", err)
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("list configurations: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			if err := os.Remove(filepath.Join(p.Dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("remove draft of a configuration: %w", err)
			}
		}
	}
	return &Configs{params: p}, nil
}

// Config implements reconcile.Configs.
func (c *Configs) Config(ctx context.Context, s reconcile.Service) (render.Variables, error) {
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
		return render.Variables{}, &reconcile.Problem{
			Reason:  reconcile.DependencyUnavailable,
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
func (c *Configs) fetch(ctx context.Context, s reconcile.Service) (*distributorv1.GetServiceConfigResponse, error) {
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

// keep writes a configuration in place of the service's last. It is bound to the service, so that none can stand in for
// another.
func (c *Configs) keep(s reconcile.Service, config *distributorv1.GetServiceConfigResponse) error {
	plain, err := proto.Marshal(config)
	if err != nil {
		return errors.New("encode configuration")
	}
	sealer, err := c.params.Identity.sealer(purposeConfig)
	if err != nil {
		return err
	}
	sealed, err := sealer.Seal(plain, place(s))
	if err != nil {
		return fmt.Errorf("seal configuration: %w", err)
	}
	return writeFile(c.path(s.Name), sealed)
}

func (c *Configs) read(s reconcile.Service) (*distributorv1.GetServiceConfigResponse, error) {
	sealed, err := os.ReadFile(c.path(s.Name))
	if err != nil {
		return nil, err
	}
	sealer, err := c.params.Identity.sealer(purposeConfig)
	if err != nil {
		return nil, err
	}
	plain, err := sealer.Open(sealed, place(s))
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
func (c *Configs) Retain(ctx context.Context, plan reconcile.Plan) {
	wanted := make(map[string]bool, len(plan.Services))
	for _, s := range plan.Services {
		if s.ConfigDigest != "" {
			wanted[filepath.Base(c.path(s.Name))] = true
		}
	}
	entries, err := os.ReadDir(c.params.Dir)
	for _, entry := range entries {
		// Drafts of files that are being written have other names.
		if wanted[entry.Name()] || !strings.HasSuffix(entry.Name(), configFile) {
			continue
		}
		if removed := os.Remove(filepath.Join(c.params.Dir, entry.Name())); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	if err != nil {
		c.params.Logger.WarnContext(ctx, "configurations that are not needed any more cannot be removed", slog.Any("error", err))
	}
}

// path is where a service's configuration is kept. The name is escaped: it comes from outside.
func (c *Configs) path(service string) string {
	return filepath.Join(c.params.Dir, url.PathEscape(service)+configFile)
}

func place(s reconcile.Service) []byte { return []byte(s.UID + "/" + s.Name) }

// sealer seals for this agent alone: its key is made of the agent's, and what was sealed ends with that.
func (i *Identity) sealer(purpose string) (*seal.Sealer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return seal.NewSealer(i.key.Seed(), purpose)
}

func variablesOf(config *distributorv1.GetServiceConfigResponse) render.Variables {
	v := render.Variables{Values: config.GetValues(), Secrets: make(map[string]string, len(config.GetSecrets()))}
	for key, secret := range config.GetSecrets() {
		v.Secrets[key] = string(secret)
	}
	return v
}
