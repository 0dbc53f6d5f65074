// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// maxBehind is how many minor versions an agent may be behind its hub: more are not tested together.
const maxBehind = 2

// Skew describes an agent whose version does not go with the hub's.
type Skew struct {
	// IsNewer is true if the agent is newer than the hub. False: it is too old.
	IsNewer bool
	// Message has both versions, and what to do.
	Message string
}

// SkewOf returns why the version of an agent does not go with the hub's, or nil if it does. Versions on the way to a
// release go with all.
func SkewOf(hub, agent string) *Skew {
	of, at := released(hub), released(agent)
	switch {
	case of == nil || at == nil:
		return nil
	case at.GreaterThan(of):
		return &Skew{IsNewer: true, Message: fmt.Sprintf("the cluster's agent has version %s, which is newer than the hub's (%s); upgrade the hub, or take the agent back to the hub's version", at, of)}
	case at.Major() < of.Major() || of.Minor()-at.Minor() > maxBehind:
		return &Skew{Message: fmt.Sprintf("the cluster's agent has version %s, and the hub %s, which is tested with agents of at most %d minor versions before it; "+
			"upgrade the agent: docs/guides/upgrade-agents.md", at, of, maxBehind)}
	}
	return nil
}

// released returns a version of a release or of a candidate for one; nil for others, such as 0.2.0-dev.
func released(text string) *semver.Version {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	if err != nil || len(text) > 64 || strings.HasPrefix(v.Prerelease(), "dev") {
		return nil
	}
	return v
}
