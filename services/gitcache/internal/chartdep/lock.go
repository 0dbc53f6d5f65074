// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// lock is the content of a lock file.
type lock struct {
	Dependencies []*Dependency `json:"dependencies"`
	Digest       string        `json:"digest"`
}

// locked returns the dependencies of the lock file; nil without one.
func (c Chart) locked() []*Dependency {
	if c.lock == nil {
		return nil
	}
	return c.lock.Dependencies
}

// isLocked reports whether the lock file was made for the chart's dependencies as they are: it has
// Helm's digest over both, and the same names in the same order.
func (c Chart) isLocked() bool {
	locked := c.lock.Dependencies
	if len(locked) != len(c.Dependencies) {
		return false
	}
	// Helm puts the URL that an alias had on the author's machine in its place before it hashes. The
	// lock file has that URL.
	written := make([]*Dependency, len(locked))
	for i, d := range c.Dependencies {
		if d.Name != locked[i].Name {
			return false
		}
		resolved := *d
		if isAlias(d.Repository) {
			resolved.Repository = locked[i].Repository
		}
		written[i] = &resolved
	}
	if sum, ok := hashOf([2][]*Dependency{written, locked}); ok && sum == c.lock.Digest {
		return true
	}
	if c.APIVersion != versionOne {
		return false
	}
	sum, ok := hashOf(map[string][]*Dependency{"dependencies": c.Dependencies}) // as Helm 2 made it
	return ok && sum == c.lock.Digest
}

// hashOf returns the digest that Helm makes of dependencies.
func hashOf(value any) (sum string, ok bool) {
	data, err := json.Marshal(value)
	if err != nil { // import-values can hold what has no JSON
		return "", false
	}
	hash := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(hash[:]), true
}

// aliasPrefixes begin the names of repositories that stand in the place of a URL.
var aliasPrefixes = []string{"@", "alias:"}

// isAlias reports whether a dependency names its repository by a name.
func isAlias(repository string) bool {
	_, ok := aliasOf(repository)
	return ok
}

// aliasOf returns the name in the place of a URL.
func aliasOf(repository string) (name string, ok bool) {
	for _, prefix := range aliasPrefixes {
		if name, ok = strings.CutPrefix(repository, prefix); ok {
			return name, true
		}
	}
	return "", false
}
