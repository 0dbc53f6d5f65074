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
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/configs"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/hubfiles"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/vaultkv"
)

// BackendConfig is what the operator of the hub opens to configuration back ends.
type BackendConfig struct {
	// Folders are what back ends of the kind files may read, each as NAME=PATH. None: nothing.
	Folders []string
	// TokenFile holds the token that back ends of the kind vault show for the Kubernetes and the
	// JWT method. Empty: they cannot use these.
	TokenFile string
	// Poll is how often the hub looks whether a value is due to be read.
	Poll time.Duration
}

func (c *BackendConfig) bind(s *config.Set) {
	s.Strings(&c.Folders, "distributor-config-folders", nil, "folders that configuration back ends of the kind files may read, each as NAME=/path, separated by commas; empty: none")
	s.String(&c.TokenFile, "distributor-config-token-file", "", "token that configuration back ends of the kind vault sign in with by the methods kubernetes and jwt; empty: they cannot")
	s.Duration(&c.Poll, "distributor-config-poll-interval", time.Second, "how often the hub looks whether a value of a configuration back end is due to be read, give or take a quarter")
}

// check returns an error for folders that are not named, or named twice.
func (c *BackendConfig) check() error {
	var errs []error
	seen := map[string]bool{}
	for _, folder := range c.Folders {
		name, path, _ := strings.Cut(folder, "=")
		if catalog.ValidateName("", name) != nil || !filepath.IsAbs(path) || seen[name] {
			errs = append(errs, fmt.Errorf("--distributor-config-folders: got %q, want NAME=/path, and each name once", folder))
		}
		seen[name] = true
	}
	return errors.Join(errs...)
}

// openReader returns what reads configuration back ends.
func (c *Config) openReader(store *sqlstore.Store, view *fleet.View, tel *telemetry.Telemetry) (*configs.Reader, error) {
	folders := map[string]string{}
	for _, folder := range c.Backends.Folders {
		name, path, _ := strings.Cut(folder, "=")
		folders[name] = path
	}
	vault := vaultkv.Params{TokenFile: c.Backends.TokenFile, Guard: dialguard.Guard{AllowLocal: c.AllowLocalAgents}}
	environment := hubfiles.NewEnvironment(os.Environ())
	logger := tel.Logger()
	return configs.NewReader(configs.Params{
		Catalog: fleet.ConfigBackends{View: view}, Entries: sqlstore.NewEntries(store), Logger: logger, Meter: tel.Meter(scope),
		Replica: rand.Text(), Poll: c.Backends.Poll,
		Changed: func(ctx context.Context) {
			if err := view.Refresh(ctx); err != nil && ctx.Err() == nil {
				logger.WarnContext(ctx, "changed configuration stored, but not seen yet", slog.Any("error", err))
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
			}
			return nil, errors.New("this version of the hub does not know the kind of the back end")
		},
	})
}
