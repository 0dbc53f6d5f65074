// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

// NoConfig names the configuration of services that have none.
const NoConfig = "none"

// StagedConfig is the visible part of a configuration at which services are held. It is the result
// of all layers as people wrote them: values, secrets, and references with the values of facts in
// their place. The targets of references to back ends are not a part of it, because they reach
// services at once. Its JSON is its stored form. Services share equal ones.
type StagedConfig struct {
	// Name is a keyed digest of the configuration. Services of one project may have the same one.
	Name string `json:"-"`
	// Digest is the digest in the plans of derived services, without values of back ends. It is empty for
	// other services, whose digests also depend on the service.
	Digest string `json:"digest,omitempty"`
	// References are the texts of references to back ends by key, and ClusterReferences the references
	// that the agent of the service's cluster follows.
	References        map[string]string `json:"references,omitempty"`
	ClusterReferences map[string]string `json:"clusterReferences,omitempty"`
	Restart           bool              `json:"restart,omitempty"`
	// Variant is the variant of derived services whose references lead to back ends, and else nil.
	Variant *ConfigVariant `json:"variant,omitempty"`
}

// Planned returns what a plan has to know of the configuration: which agents can carry it out.
func (c *StagedConfig) Planned() *Config {
	if c == nil || len(c.ClusterReferences) == 0 && !c.Restart {
		return nil
	}
	return &Config{References: c.ClusterReferences, Restart: c.Restart}
}

// HeldConfig is the form, for a service that a person wrote, of the configuration at which a
// rollout holds it.
type HeldConfig struct {
	// Name is the name of the StagedConfig.
	Name string `json:"name"`
	// Digest, Problem and Waits belong to the service with that configuration.
	Digest  string   `json:"digest,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
	Waits   bool     `json:"waits,omitempty"`
}
