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

// skewOf returns why the version of an agent does not go with the hub's, and what to do; "" if it does. Versions on the
// way to a release go with all.
func skewOf(hub, agent string) string {
	of, at := released(hub), released(agent)
	switch {
	case of == nil || at == nil:
		return ""
	case at.GreaterThan(of):
		return fmt.Sprintf("the cluster's agent has version %s, which is newer than the hub's (%s); upgrade the hub, or take the agent back to the hub's version", at, of)
	case at.Major() < of.Major() || of.Minor()-at.Minor() > maxBehind:
		return fmt.Sprintf("the cluster's agent has version %s, and the hub %s, which is tested with agents of at most %d minor versions before it; "+
			"upgrade the agent: docs/guides/upgrade-agents.md", at, of, maxBehind)
	}
	return ""
}

// released returns a version of a release or of a candidate for one; nil for others, such as 0.1.0-dev.
func released(text string) *semver.Version {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	if err != nil || len(text) > 64 || strings.HasPrefix(v.Prerelease(), "dev") {
		return nil
	}
	return v
}
