// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/clusterref"
	"github.com/leatdev/leat/internal/fielderr"
)

// Limits of one configuration.
const (
	maxConfigKeys      = 256
	maxConfigKeyBytes  = 128
	maxConfigValue     = 64 << 10
	maxConfigBytes     = 512 << 10
	configPath         = "spec.config"
	configValuesField  = configPath + ".values"
	configSecretsField = configPath + ".secrets"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func referencePath(key string) string { return configPath + ".references[" + key + "]" }

func secretPath(key string) string { return configSecretsField + "[" + key + "]" }

func (c *Config) validate() error {
	if c == nil {
		return nil
	}
	if n := len(c.Values) + len(c.Secrets) + len(c.References); n > maxConfigKeys {
		return fielderr.New(configPath, "has %d keys; at most %d are allowed", n, maxConfigKeys)
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
	if total > maxConfigBytes {
		return fielderr.New(configPath, "has %d bytes; at most %d are allowed", total, maxConfigBytes)
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

// MaxConfigBytes bounds the keys and values of one configuration together, and MaxConfigKeys its keys.
const (
	MaxConfigBytes = maxConfigBytes
	MaxConfigKeys  = maxConfigKeys
)

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
