// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/clusterref"
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

// Empty reports whether nothing is said; in an update it takes the stored configuration away.
func (c *Config) Empty() bool {
	return c == nil || len(c.Values)+len(c.Secrets)+len(c.References) == 0 && !c.Restart
}

func (c *Config) equal(other *Config) bool {
	if c.Empty() || other.Empty() {
		return c.Empty() && other.Empty()
	}
	return maps.Equal(c.Values, other.Values) && maps.Equal(c.Secrets, other.Secrets) &&
		maps.Equal(c.References, other.References) && c.Restart == other.Restart
}

// referenceKeys returns the keys of the references, sorted.
func (c *Config) referenceKeys() []string { return slices.Sorted(maps.Keys(c.References)) }
