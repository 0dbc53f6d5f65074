// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compose

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// canonical writes a configuration down such that different ones never read alike. The uid keeps
// apart services that hold the same secrets: no reader is to learn that they do.
func canonical(uid string, config *catalog.Config) []byte {
	b := text([]byte("leat.config.v1\x00"), uid)
	b = binary.BigEndian.AppendUint64(b, uint64(len(config.Values)))
	b = pairs(b, config.Values)
	for _, key := range slices.Sorted(maps.Keys(config.Secrets)) {
		b = text(text(b, key), config.Secrets[key].Reveal())
	}
	// Parts that only newer agents receive come last, and only if there are some, so that the digests
	// of all other configurations stay as they are.
	own := config.ClusterReferences()
	if len(own) == 0 && !config.Restart {
		return b
	}
	return pairs(text(b, "leat.config.cluster.v1\x00"+strconv.FormatBool(config.Restart)), own)
}

// canonicalName is canonical for the name of a configuration as people wrote it: its values, its
// secrets and the references to back ends. The project keeps apart services of different projects:
// no reader is to learn that they hold the same secrets.
func canonicalName(project string, literals *catalog.Config, references map[string]string) []byte {
	return pairs(text([]byte("leat.config.name.v1\x00"), string(canonical(project, literals))), references)
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
}

func pairs(b []byte, texts map[string]string) []byte {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		b = text(text(b, key), texts[key])
	}
	return b
}

// WithGiven returns a configuration with what its references lead to.
func WithGiven(config *catalog.Config, given map[string]configs.Value) *catalog.Config {
	if len(given) == 0 {
		return config
	}
	whole := &catalog.Config{
		Values: maps.Clone(config.Values), Secrets: maps.Clone(config.Secrets), References: config.References, Restart: config.Restart,
	}
	if whole.Values == nil {
		whole.Values = map[string]string{}
	}
	if whole.Secrets == nil {
		whole.Secrets = map[string]secret.Text{}
	}
	for key, value := range given {
		if value.IsPublic {
			whole.Values[key] = value.Text.Reveal()
		} else {
			whole.Secrets[key] = value.Text
		}
	}
	return whole
}
