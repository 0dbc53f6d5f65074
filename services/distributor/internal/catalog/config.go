// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/clusterref"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/secret"
)

// Config is what the variables in a service's manifests stand for. Its maps are not changed once
// they are set.
type Config struct {
	// Values may be seen by anybody.
	Values map[string]string
	// Secrets are read back only by the agent of the service's cluster; in the hands of everybody
	// else they are empty. In an update an empty one stands for the stored secret of its key.
	Secrets map[string]secret.Text
	// References are texts of references by key; see ParseReference. What they lead to is neither in
	// Values nor in Secrets, but in the configuration that an agent is given.
	References map[string]string
	// Restart has a change of the configuration roll the service's pods.
	Restart bool
}

// ClusterReferences returns the references that the agent of the service's cluster follows.
func (c *Config) ClusterReferences() map[string]string {
	if c == nil {
		return nil
	}
	return clusterref.Of(c.References)
}

// HubReferences returns the references that the hub follows.
func (c *Config) HubReferences() map[string]string {
	own := maps.Clone(c.References)
	maps.DeleteFunc(own, func(_, text string) bool { return clusterref.Is(text) })
	return own
}

// Empty reports whether there is neither a value nor a secret nor a reference; in an update it takes the stored
// configuration away.
func (c *Config) Empty() bool { return c == nil || len(c.Values)+len(c.Secrets)+len(c.References) == 0 }

func (c *Config) equal(other *Config) bool {
	if c.Empty() || other.Empty() {
		return c.Empty() && other.Empty()
	}
	return maps.Equal(c.Values, other.Values) && maps.Equal(c.Secrets, other.Secrets) &&
		maps.Equal(c.References, other.References) && c.Restart == other.Restart
}

// referenceKeys returns the keys of the references, sorted.
func (c *Config) referenceKeys() []string { return slices.Sorted(maps.Keys(c.References)) }

// settleConfig gives the configuration its stored form: it takes over what an update leaves out,
// and secrets that it sends back as they were shown. stored is nil when there is none.
func (s *Service) settleConfig(stored *Config) error {
	given := s.Spec.Config
	switch {
	case given == nil:
		s.Spec.Config = stored
		return nil
	case given.Empty():
		s.Spec.Config = nil
		return nil
	}
	settled := &Config{Values: given.Values, Secrets: maps.Clone(given.Secrets), References: given.References, Restart: given.Restart}
	for key, secret := range given.Secrets {
		if secret != "" {
			continue
		}
		if stored == nil || stored.Secrets[key] == "" {
			return fielderr.New(secretPath(key), "is empty, and no secret is stored under this key")
		}
		settled.Secrets[key] = stored.Secrets[key]
	}
	s.Spec.Config = settled
	return nil
}
