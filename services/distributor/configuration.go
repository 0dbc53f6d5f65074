// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/api/backendhook"
	"github.com/leatdev/leat/services/distributor/internal/config/cloudvalues"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/httpvalues"
	"github.com/leatdev/leat/services/distributor/internal/config/hubfiles"
	"github.com/leatdev/leat/services/distributor/internal/config/kubevalues"
	"github.com/leatdev/leat/services/distributor/internal/config/vaultkv"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// openConfiguration reads the values of configuration back ends, and keeps what derived services are given of them.
func (s *spine) openConfiguration() (wing, error) {
	reader, err := s.openReader()
	if err != nil {
		return wing{}, err
	}
	hook, err := backendhook.New(backendhook.Params{Backends: sqlstore.NewEntries(s.store), Logger: s.logger, Meter: s.tel.Meter(scope)})
	if err != nil {
		return wing{}, err
	}
	variants := fleet.VariantKeeper{View: s.view, Store: sqlstore.Variants{Store: s.store}, Logger: s.logger}
	return wing{
		mount: func(c *calls) { c.mux.Handle(backendhook.Pattern, hook) },
		work:  []func(context.Context) error{reader.Run, variants.Run},
	}, nil
}

// openReader returns what reads the values of configuration back ends.
func (s *spine) openReader() (*configs.Reader, error) {
	folders := map[string]string{}
	for _, folder := range s.cfg.Backends.Folders {
		name, path, _ := strings.Cut(folder, "=")
		folders[name] = path
	}
	guard := dialguard.Guard{AllowLocal: s.cfg.AllowLocalAgents}
	vault := vaultkv.Params{HubToken: s.cfg.Backends.hubToken(), Guard: guard}
	cluster := kubevalues.Params{HubToken: s.cfg.Backends.hubToken(), Own: kubevalues.OwnCluster(s.cfg.Backends.Cluster), Guard: guard}
	clouds, err := s.cfg.openClouds()
	if err != nil {
		return nil, err
	}
	environment := hubfiles.NewEnvironment(os.Environ())
	return configs.NewReader(configs.Params{
		Catalog: fleet.ConfigBackends{View: s.view}, Entries: sqlstore.NewEntries(s.store), Logger: s.logger, Meter: s.tel.Meter(scope),
		Replica: rand.Text(), Poll: s.cfg.Backends.Poll,
		Changed: func(ctx context.Context) {
			if err := s.view.Refresh(ctx); err != nil && ctx.Err() == nil {
				s.logger.WarnContext(ctx, "changed configuration stored, but not seen yet", slog.Any("error", err))
			}
		},
		Open: func(b *catalog.ConfigBackend) (configs.Backend, error) {
			switch {
			case b.Spec.Vault != nil:
				return vaultkv.Open(b, vault)
			case b.Spec.Files != nil:
				folder, ok := folders[b.Spec.Files.Root]
				if !ok {
					return nil, fmt.Errorf("the operator of the hub has opened no folder %q: --distributor-config-folders", b.Spec.Files.Root)
				}
				return hubfiles.OpenFolder(folder), nil
			case b.Spec.Environment != nil:
				return environment, nil
			case b.Spec.Kubernetes != nil:
				return kubevalues.Open(b, cluster)
			case b.Spec.HTTP != nil:
				return httpvalues.Open(b, guard)
			case b.Spec.AWS != nil || b.Spec.GCP != nil || b.Spec.Azure != nil:
				return cloudvalues.Open(b, clouds)
			}
			return nil, errors.New("this version of the hub does not know the kind of the back end")
		},
	})
}

// openClouds returns what back ends of clouds share. It calls nothing.
func (c *Config) openClouds() (cloudvalues.Params, error) {
	p := cloudvalues.Params{
		Open: c.Backends.Clouds, AWSURL: c.Backends.AWSURL, GoogleURL: c.Backends.GoogleURL,
		GoogleProvider: c.Keys.KMS.GoogleProvider, GoogleAccount: c.Keys.KMS.GoogleAccount, AllowLocal: c.AllowLocalAgents,
	}
	if len(p.Open) == 0 {
		return p, nil
	}
	var err error
	p.Identity, err = cloud.New(cloud.Params{
		Config: c.Keys.KMS.Identity, Caller: "the distributor", Prefix: kmsPrefix, GoogleRole: "roles/secretmanager.secretAccessor",
	})
	return p, err
}
