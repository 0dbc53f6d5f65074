// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// job is a global service that the deriver derives for some clusters. The catalog's lock guards it.
//
// The clusters of a job get what they need together, when all of them are decided, so that replicas do not
// differ by how far each of them has come. Until the job has had a first turn it is not settled: no plan
// is given to the agents of its clusters, because they may have the derived service already, from another
// replica or from before a start. If the first turn is not enough, clusters that have nothing get a
// service that waits, and the job is settled. Clusters that are added to it later get one at once.
type job struct {
	// scope are the clusters for a next pass.
	scope

	global *catalog.GlobalService
	// isFirst is true if this replica does not know what the clusters had before.
	isFirst   bool
	isSettled bool
	// isTaken is true during a turn.
	isTaken bool
	// pass is nil between two passes.
	pass *pass
	// turn is the number of the latest turn.
	turn uint64
}

// covers reports whether a cluster waits for the job.
func (j *job) covers(cluster string) bool {
	return j.has(cluster) || j.pass != nil && j.pass.has(cluster)
}

// pass is one evaluation for the clusters that a job had when it began. The worker of the deriver whose turn it is
// uses it, except for the scope, which does not change.
type pass struct {
	scope

	// on has the projects, the sets and the departures.
	on       basis
	clusters []*catalog.Cluster
	verdicts []verdict
	spent    time.Duration
	// isSettled is the job's when its turn began.
	isSettled bool
}

// lateness is a global service that took too long. The catalog's lock guards it.
type lateness struct {
	problem *catalog.Problem
	// attempts counts the passes for all clusters that took too long.
	attempts int
	retryAt  time.Time
	// isFirst is the job's.
	isFirst bool
}

// settleFirstLocked notes that everything that the view began with is settled, if it is.
func settleFirstLocked(d *derivations) {
	if wake.IsClosed(d.settled) {
		return
	}
	for _, j := range d.jobs {
		if j.isFirst && !j.isSettled {
			return
		}
	}
	close(d.settled)
}

// mayDeriveLocked reports whether a global service that was never derived here may want a source.
func mayDeriveLocked(c *contents, source catalog.Source) bool {
	d := c.derived
	for _, j := range d.jobs {
		if j.isFirst && namesRepository(j.global, source.Repository) {
			return true
		}
	}
	for path, late := range d.late {
		global, ok := c.globals.objects[path]
		if late.isFirst && ok && namesRepository(global, source.Repository) {
			return true
		}
	}
	return false
}

// namesRepository reports whether services of a global service read a repository, which has no parameters.
func namesRepository(global *catalog.GlobalService, repository string) bool {
	return slices.ContainsFunc(global.Spec.Template.Spec.Sources, func(s catalog.Source) bool { return s.Repository == repository })
}

// isUnknownLocked reports whether the view was never able to derive a global service that it was loaded with.
func isUnknownLocked(d *derivations, path string) bool {
	j, late := d.jobs[path], d.late[path]
	return j != nil && j.isFirst || late != nil && late.isFirst
}

// derivationProblemLocked returns the problem of the derivation of a global service as a whole, or
// nil.
func derivationProblemLocked(d *derivations, path string) *catalog.Problem {
	if late := d.late[path]; late != nil {
		return late.problem
	}
	if d.jobs[path] != nil {
		return pending()
	}
	return nil
}

func pending() *catalog.Problem {
	return &catalog.Problem{
		Reason: reason.DerivationPending, Message: "the hub is still deriving the services of the global service; until then they stay as they are",
	}
}

// amongLocked returns the present clusters of a scope, sorted by name, which is the order of the
// index of names. A few names are not searched among all.
func amongLocked(objects *shelves, s scope) []*catalog.Cluster {
	var found []*catalog.Cluster
	if s.isAll {
		found = s.among(objects.clusters.objects)
	}
	for name := range s.names {
		if cluster, ok := objects.clusters.objects[name]; ok && !s.isAll {
			found = append(found, cluster)
		}
	}
	slices.SortFunc(found, func(a, b *catalog.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// nextLocked takes the turn of a job: among the unsettled ones if there are any, one of the project
// whose turn was the longest ago, and there the job whose turn was.
func nextLocked(d *derivations, may func(*job) bool) *job {
	last := map[string]uint64{}
	for path, j := range d.jobs {
		project := objectname.Project(path)
		last[project] = max(last[project], j.turn)
	}
	compare := func(a, b *job) int {
		if a.isSettled != b.isSettled {
			if b.isSettled {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(last[objectname.Project(a.global.Name)], last[objectname.Project(b.global.Name)]),
			cmp.Compare(a.turn, b.turn), cmp.Compare(a.global.Name, b.global.Name))
	}
	var next *job
	for _, j := range d.jobs {
		if !j.isTaken && may(j) && (next == nil || compare(j, next) < 0) {
			next = j
		}
	}
	if next != nil {
		d.turns++
		next.turn, next.isTaken = d.turns, true
	}
	return next
}
