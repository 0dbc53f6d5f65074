// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// TestAgentsOfOtherVersions finds agents that are too old for their hub, or newer than it.
func TestAgentsOfOtherVersions(t *testing.T) {
	t.Parallel()
	const old, newer = "upgrade the agent", "upgrade the hub"
	for _, c := range []struct{ hub, agent, want string }{
		{"0.5.0", "0.5.0", ""},
		{"0.5.0", "0.4.9", ""},
		{"0.5.0", "0.3.0", ""},
		{"0.5.9", "0.2.9", old},
		{"v0.5.0", "0.2.0", old},
		{"1.0.0", "0.9.0", old},
		{"0.5.0", "0.5.1", newer},
		{"0.5.0", "0.6.0", newer},
		{"0.5.0", "1.0.0", newer},
		{"0.5.0-rc.1", "0.5.0", newer},
		{"0.5.0", "0.5.0-rc.1", ""},
		{"0.5.0", "0.1.0-dev", ""},
		{"0.1.0-dev", "0.5.0", ""},
		{"0.5.0", "", ""},
		{"", "0.5.0", ""},
		{"0.5.0", "latest", ""},
		{"0.5.0", "0.1", ""},
		{"0.5.0", "9.0.0+" + strings.Repeat("a", 100), ""},
	} {
		row := &find.Row{Phase: find.Connected, Object: &catalog.Cluster{
			Metadata: catalog.Metadata{Name: "one"}, Agent: catalog.Agent{Report: catalog.ClusterReport{AgentVersion: c.agent}},
		}}
		items := problems.Of(row, &problems.Uses{HubVersion: c.hub})
		switch {
		case c.want == "" && len(items) > 0:
			t.Errorf("hub %q, agent %q: got %+v, want no problem", c.hub, c.agent, items)
		case c.want != "" && (len(items) != 1 || items[0].Reason != reason.AgentVersionSkew || !strings.Contains(items[0].Message, c.want)):
			t.Errorf("hub %q, agent %q: got %+v, want one that asks to %s", c.hub, c.agent, items, c.want)
		}
	}
	if items := problems.Of(&find.Row{Phase: find.Connected, Object: &catalog.Cluster{Agent: catalog.Agent{Report: catalog.ClusterReport{AgentVersion: "0.1.0"}}}}, nil); len(items) > 0 {
		t.Errorf("got %+v of an unknown hub", items)
	}
}
