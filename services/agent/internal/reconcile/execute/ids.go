// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// shortHash returns a name for texts that is short enough for the name of an object.
func shortHash(texts ...string) string {
	const length = 5 // bytes
	all := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(all[:length])
}

// generatedName returns a name with a generateName prefix, as the API server would, but always the
// same one in one run.
func generatedName(prefix, suffix string) string {
	const maxLength = 63
	return prefix[:min(len(prefix), maxLength-len(suffix))] + suffix
}

func changeID(in inventory.Applied) string {
	return shortHash(append([]string{in.SpecDigest, in.ConfigDigest, in.SyncRequest}, in.Digests...)...)
}
