// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/cli/internal/kubeconfig"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/cli/internal/up/statedir"
)

// contextName is the hub's name in its own config file.
const contextName = "up"

// configPath returns the config file of this hub, which LEAT_CONFIG names. The user's own config,
// and its current hub, do not change.
func configPath(dir *statedir.Dir) string { return dir.Path("config.yaml") }

// writeAccess writes the config file, and for each cluster a kubeconfig that goes through the
// tunnel.
func writeAccess(h *hub, clusters []report.Cluster) error {
	config := configPath(h.dir)
	var all settings.Settings
	all.Put(settings.Context{Name: contextName, Server: h.url(), Token: h.dir.AdminToken, CAFile: h.certs.CA})
	if err := all.Save(config); err != nil {
		return err
	}
	authority, err := os.ReadFile(h.certs.CA)
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	for i := range clusters {
		c := &clusters[i]
		c.Kubeconfig = h.dir.Path("kubeconfig", c.Name)
		content, err := kubeconfig.Make(kubeconfig.Params{
			Clusters: []string{c.Name}, TunnelURL: h.tunnelURL(), CAPEM: authority, Command: h.Command,
			Args: []string{"token", "--exec-credential", "--config", config, "--context", contextName},
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
func searchPath(p Params) string {
	if found, err := p.LookPath("leat"); err == nil && sameFile(found, p.Command) {
		return ""
	}
	return filepath.Dir(p.Command)
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
