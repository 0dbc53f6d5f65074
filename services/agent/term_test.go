// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatdev/leat/services/agent"
)

// TestSucceed begins terms in a folder that holds a plan.
func TestSucceed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		terms []int
		kept  bool
	}{
		{[]int{0}, true},
		{[]int{0, 0}, true},        // killed, and back while the lease was its own
		{[]int{0, 1, 2}, true},     // it has given the lease up, and no other replica wanted it
		{[]int{0, 2}, false},       // another replica has led in between
		{[]int{4}, false},          // also, before the folder had heard of terms
		{[]int{0, 1, 2, 0}, false}, // the lease was deleted
		{[]int{4, 4, 5, 5, 9}, false},
	} {
		t.Run(fmt.Sprint(test.terms), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			plan := filepath.Join(dir, "plan.binpb")
			last := len(test.terms) - 1
			for i, term := range test.terms {
				if i == last {
					if err := os.WriteFile(plan, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := agent.Succeed(dir, term); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Stat(plan); (err == nil) != test.kept {
				t.Errorf("got %v, want the plan kept: %v", err, test.kept)
			}
		})
	}
}

// TestReplicaName names a replica once, also in a folder where a full disk left nothing of the
// name.
func TestReplicaName(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for range 2 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "replica"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			name, err := agent.ReplicaName(dir)
			if err != nil {
				t.Fatal(err)
			}
			names[name] = true
		}
	}
	if len(names) != 2 {
		t.Errorf("got names %v of two replicas, want one each", names)
	}
}
