// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// under is a connection of a process of demo's agent with a token that ends after so many minutes.
func under(instance, token string, minutes int) session.Info {
	return session.Info{
		Cluster: "demo", ClusterUID: "uid-demo", ID: instance + token, Instance: instance, TokenID: token,
		TokenExpires: time.Unix(int64(minutes)*60, 0),
	}
}

// connected returns a table with these connections.
func connected(t *testing.T, infos ...session.Info) *session.Table {
	t.Helper()
	table := newTable()
	for _, info := range infos {
		if _, _, err := table.Add(info, &fakeConn{}); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestWhoMayHoldACluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		there session.Info
		comes session.Info
		want  error
	}{
		"the same process again":            {under("a", "t1", 1), under("a", "t1", 1), nil},
		"the same process, renewed":         {under("a", "t1", 1), under("a", "t2", 2), nil},
		"the same process, its first token": {under("a", "t2", 2), under("a", "t1", 1), nil},
		"another process, same token":       {under("a", "t1", 1), under("b", "t1", 1), session.ErrTokenInUse},
		"another process, older token":      {under("a", "t2", 2), under("b", "t1", 1), session.ErrTokenOutdated},
		"another process, newer token":      {under("a", "t1", 1), under("b", "t2", 2), nil},
		"another process, as new a token":   {under("a", "t1", 1), under("b", "t2", 1), nil},
		"does not say which process it is":  {under("a", "t1", 1), under("", "t1", 1), session.ErrTokenInUse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := connected(t, test.there)
			if err := table.Admit(test.comes); !errors.Is(err, test.want) {
				t.Errorf("Admit: got %v, want %v", err, test.want)
			}
			if _, _, err := table.Add(test.comes, &fakeConn{}); !errors.Is(err, test.want) {
				t.Errorf("Add: got %v, want %v", err, test.want)
			}
		})
	}
}

// TestTheAgentGetsItsClusterBack has a thief come first, with a token that the agent then uses as
// well.
func TestTheAgentGetsItsClusterBack(t *testing.T) {
	t.Parallel()
	table := connected(t, under("thief", "t1", 1))
	if err := table.Admit(under("agent", "t1", 1)); !errors.Is(err, session.ErrTokenInUse) {
		t.Fatalf("the agent, with the stolen token: got %v, want ErrTokenInUse", err)
	}
	_, evicted, err := table.Add(under("agent", "t2", 2), &fakeConn{})
	if err != nil || len(evicted) != 1 || evicted[0].Info().Instance != "thief" {
		t.Fatalf("the agent, with a new token: got evicted %v and %v, want the thief evicted", evicted, err)
	}
	if err := table.Admit(under("thief", "t1", 1)); !errors.Is(err, session.ErrTokenOutdated) {
		t.Errorf("the thief again: got %v, want ErrTokenOutdated", err)
	}
	if got := table.Sessions("demo"); len(got) != 1 || got[0].Instance != "agent" {
		t.Errorf("got %v, want the agent alone", got)
	}
}

// TestTwoPodsOfAnAgent lets one pod hand over to the next without throwing either out.
func TestTwoPodsOfAnAgent(t *testing.T) {
	t.Parallel()
	table := connected(t, under("old", "t1", 1))
	_, evicted, err := table.Add(under("new", "t2", 2), &fakeConn{})
	if err != nil || len(evicted) != 0 {
		t.Errorf("got evicted %v and %v, want both connected: the old pod carries what it has", evicted, err)
	}
}
