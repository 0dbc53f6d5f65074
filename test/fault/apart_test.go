// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/testkit/await"
)

// TestACommitArrivesFromReplicasThatWereApart cuts a replica of gitcache off from the owner of a repository while a
// commit is fetched. The event of it reaches the distributor through that replica, which answers
// the question that follows from its own mirror, and without the commit. The commit is not
// announced again.
func TestACommitArrivesFromReplicasThatWereApart(t *testing.T) {
	t.Parallel()
	sc := chosenScale()
	sc.repositories, sc.lease = 1, steady
	const never = 24 * time.Hour // no resync heals what was missed
	h := newHub(t, sc, 2, 1, never)
	agent := newWanderer(t, h, clusterName(0))
	h.waitRight(t, []*wanderer{agent})
	owner, other := 0, 1
	if h.owners(t, 0)[h.repos[0]] == "http://"+h.replicas[1].door.addr() {
		owner, other = 1, 0
	}
	h.distributors[owner].kill(t) // one that knows the commit would store it, and the other one find it there

	h.replicas[owner].door.setCut(true)
	const tries = 2 * 3 // the owner is asked for each of two sources three times, and then the other replica answers
	asked := h.replicas[other].unanswered(t)
	h.commit(t, h.repos[0])
	_, err := h.client(t, owner).RefreshRepository(t.Context(), &gitcachev1.RefreshRepositoryRequest{Name: h.repos[0], Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	await.Poll(t, "a question that the owner does not answer", pause, func() (bool, string) {
		return h.replicas[other].unanswered(t) >= asked+tries, ""
	})
	if agent.right(t.Context(), other) {
		t.Error("the commit arrived while nobody could reach who has it")
	}
	h.replicas[owner].door.setCut(false)
	await.Poll(t, "the commit after the cut", pause, func() (bool, string) { return agent.right(t.Context(), other), "" })
}

// unanswered returns how often a replica of gitcache asked an owner that did not answer.
func (p *process) unanswered(t *testing.T) int {
	t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(log, []byte("owner does not answer, answering here"))
}
