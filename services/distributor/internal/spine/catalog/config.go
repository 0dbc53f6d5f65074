// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
)

// Limits of one configuration.
const (
	// MaxConfigKeys bounds the keys, and MaxConfigBytes the keys and values together.
	MaxConfigKeys  = 256
	MaxConfigBytes = 512 << 10

	maxConfigKeyBytes  = 128
	maxConfigValue     = 64 << 10
	configPath         = "spec.config"
	configValuesField  = configPath + ".values"
	configSecretsField = configPath + ".secrets"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Config holds the values of the variables in a service's manifests. Its maps are not changed once
// they are set.
type Config struct {
	// Values may be seen by anybody.
	Values map[string]string
	// Secrets are read back only by the agent of the service's cluster; in the hands of everybody
	// else they are empty. In an update an empty one stands for the stored secret of its key.
	Secrets map[string]secret.Text
	// References are texts of references by key; see ParseReference. Their targets are neither in
	// Values nor in Secrets, but in the configuration that an agent receives.
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

func referencePath(key string) string { return configPath + ".references[" + key + "]" }

func secretPath(key string) string { return configSecretsField + "[" + key + "]" }

func (c *Config) validate() error {
	if c == nil {
		return nil
	}
	if n := len(c.Values) + len(c.Secrets) + len(c.References); n > MaxConfigKeys {
		return fielderr.New(configPath, "has %d keys; at most %d are allowed", n, MaxConfigKeys)
	}
	total := 0
	// In order, so that the same mistake is always told in the same words.
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		total += len(key) + len(c.Values[key])
		if err := validatePair(configValuesField+"["+key+"]", key, c.Values[key]); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Secrets)) {
		total += len(key) + len(c.Secrets[key])
		if err := validatePair(secretPath(key), key, c.Secrets[key].Reveal()); err != nil {
			return err
		}
		if _, twice := c.Values[key]; twice {
			return fielderr.New(secretPath(key), "is among the values, too; keep one of the two")
		}
	}
	for _, key := range c.referenceKeys() {
		total += len(key) + len(c.References[key])
		if err := c.validateReference(key); err != nil {
			return err
		}
	}
	if err := c.validateClusterReferences(); err != nil {
		return err
	}
	if total > MaxConfigBytes {
		return fielderr.New(configPath, "has %d bytes; at most %d are allowed", total, MaxConfigBytes)
	}
	return nil
}

func (c *Config) validateReference(key string) error {
	field := referencePath(key)
	if err := validatePair(field, key, ""); err != nil {
		return err
	}
	_, isValue := c.Values[key]
	_, isSecret := c.Secrets[key]
	if isValue || isSecret {
		return fielderr.New(field, "is among the values or the secrets, too; keep one of them")
	}
	return fielderr.Within(field, checkReferenceText(c.References[key]))
}

// validateShared refuses in a set what only services have: agents that cannot follow it are found by a
// service's own document.
func (c *Config) validateShared() error {
	if c == nil {
		return nil
	}
	if c.Restart {
		return fielderr.New(configPath+".restart", "belongs to services, and not to sets")
	}
	for _, key := range slices.Sorted(maps.Keys(c.ClusterReferences())) {
		return fielderr.New(referencePath(key), "names an object of a cluster; only services refer to these, and not sets")
	}
	return nil
}

// validateClusterReferences bounds the objects that an agent has to watch for one service.
func (c *Config) validateClusterReferences() error {
	objects := map[clusterref.Object]bool{}
	for _, text := range c.ClusterReferences() {
		if reference, err := clusterref.Parse(text); err == nil {
			objects[reference.Object] = true
		}
	}
	if len(objects) > clusterref.MaxObjects {
		return fielderr.New(configPath+".references", "name %d objects of the cluster; at most %d are allowed", len(objects), clusterref.MaxObjects)
	}
	return nil
}

// CheckConfigValue checks a value that a reference leads to, as if it stood in the document. Its error
// does not repeat the value.
func CheckConfigValue(key, value string) error { return validatePair("", key, value) }

// validatePair never repeats the value.
func validatePair(field, key, value string) error {
	switch {
	case len(key) > maxConfigKeyBytes:
		return fielderr.New(field, "key has %d characters; at most %d are allowed", len(key), maxConfigKeyBytes)
	case !variableName.MatchString(key):
		return fielderr.New(field, "key is not the name of a variable: use letters, digits and '_', with no digit first")
	case len(value) > maxConfigValue:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(value), maxConfigValue)
	case !utf8.ValidString(value):
		return fielderr.New(field, "is not UTF-8 text")
	}
	return nil
}

func (c *Config) secrets() map[string]any {
	if c == nil {
		return nil
	}
	secrets := map[string]any{}
	for key, text := range c.Secrets {
		secrets[secretField(key)] = text
	}
	return secrets
}

// secretField is the path of a secret in the document of its service or set. Keys are names of variables,
// so they need no quotes.
func secretField(key string) string { return "spec.config.secrets." + key }
