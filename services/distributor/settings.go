// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// settingsDocument is the file's form: the form of spec.agent in a Cluster document, where times
// have units.
type settingsDocument struct {
	syncpolicy.AgentSettings
	RefreshInterval string `json:"refreshInterval,omitempty"`
}

// readSettings reads what the agents of all clusters are told; nothing where no file is named.
func readSettings(path string) (syncpolicy.AgentSettings, error) {
	if path == "" {
		return syncpolicy.AgentSettings{}, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return syncpolicy.AgentSettings{}, fmt.Errorf("read agent settings: %w", err)
	}
	settings, err := parseSettings(content)
	if err != nil {
		return syncpolicy.AgentSettings{}, fmt.Errorf("read agent settings %s: %w", path, err)
	}
	return settings, nil
}

func parseSettings(content []byte) (syncpolicy.AgentSettings, error) {
	var d settingsDocument
	if err := yaml.UnmarshalStrict(content, &d); err != nil {
		return syncpolicy.AgentSettings{}, err
	}
	if bytes.Contains(content, []byte("\n---")) {
		return syncpolicy.AgentSettings{}, errors.New("more than one document; keep one")
	}
	if d.RefreshInterval != "" {
		interval, err := time.ParseDuration(d.RefreshInterval)
		if err != nil {
			return syncpolicy.AgentSettings{}, fmt.Errorf("refreshInterval: %q is not a time span such as 2h", d.RefreshInterval)
		}
		d.AgentSettings.RefreshInterval = interval
	}
	return d.AgentSettings, d.Validate()
}
