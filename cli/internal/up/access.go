// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/cli/internal/kubeconfig"
	"github.com/leatdev/leat/cli/internal/settings"
)

// contextName is the hub's name in its own config file.
const contextName = "up"

// configPath returns the config file of this hub, which LEAT_CONFIG names. The user's own config,
// and its current hub, do not change.
func (u *up) configPath() string { return u.dir.Path("config.yaml") }

// writeAccess writes the config file, and for each cluster a kubeconfig that goes through the
// tunnel.
func (u *up) writeAccess(context.Context) error {
	var all settings.Settings
	all.Put(settings.Context{Name: contextName, Server: u.hubURL(), Token: u.dir.AdminToken, CAFile: u.certs.CA})
	if err := all.Save(u.configPath()); err != nil {
		return err
	}
	authority, err := os.ReadFile(u.certs.CA)
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	for i := range u.clusters {
		c := &u.clusters[i]
		c.Kubeconfig = u.dir.Path("kubeconfig", c.Name)
		content, err := kubeconfig.Make(kubeconfig.Params{
			Clusters: []string{c.Name}, TunnelURL: u.tunnelURL(), CAPEM: authority, Command: u.Command,
			Args: []string{"token", "--exec-credential", "--config", u.configPath(), "--context", contextName},
		})
		if err != nil {
			return err
		}
		if err := settings.WriteFile(c.Kubeconfig, content); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	return nil
}

// searchPath returns the folder that a shell needs on its PATH to find this leat, or "" if it finds
// it already.
func (u *up) searchPath() string {
	if found, err := u.LookPath("leat"); err == nil && sameFile(found, u.Command) {
		return ""
	}
	return filepath.Dir(u.Command)
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
