// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "fmt"

func deployment(o object) Verdict {
	wanted := count(o, 1, "spec", "replicas")
	replicas, updated := count(o, 0, "status", "replicas"), count(o, 0, "status", "updatedReplicas")
	ready, available := count(o, 0, "status", "readyReplicas"), count(o, 0, "status", "availableReplicas")
	rollout, paused := conditionOf(o, "Progressing"), flag(o, "spec", "paused")
	if rollout.reason == "ProgressDeadlineExceeded" && !paused {
		return degraded("%s, and the rollout has made no progress for %d s", ofReplicas(ready, wanted, "ready"),
			count(o, 600, "spec", "progressDeadlineSeconds")).because(trouble(o))
	}
	switch {
	case at(o, "status") == nil:
		return progressing(noStatus)
	case updated < wanted && !paused:
		return progressing("%s", ofReplicas(updated, wanted, "of the newest version")).because(trouble(o))
	case replicas > wanted && !paused:
		return progressing("%s", leavingReplicas(replicas-wanted))
	case available < wanted:
		return progressing("%s", missingReplicas(ready, available, wanted)).because(trouble(o))
	case paused:
		return Verdict{State: Healthy, Message: "is paused"}
	case conditionOf(o, "Available").status == isFalse:
		return progressing("is not available").because(conditionOf(o, "Available").message)
	case rollout.status == isTrue && rollout.reason != "NewReplicaSetAvailable" && rollout.reason != "":
		return progressing("its newest version is not available yet").because(rollout.message)
	}
	return healthy()
}

// trouble returns why replicas cannot be created, or "" if the status does not report it.
func trouble(o object) string {
	if c := conditionOf(o, "ReplicaFailure"); c.status == isTrue {
		return c.say()
	}
	return ""
}

func leavingReplicas(n int64) string {
	return fmt.Sprintf("%d %s still to go", n, plural(int(n), "older replica has", "older replicas have"))
}

// missingReplicas describes how many replicas are missing. A replica is available after it has been
// ready for minReadySeconds.
func missingReplicas(ready, available, wanted int64) string {
	if ready >= wanted {
		return ofReplicas(available, wanted, "available") + ", the others are not ready for long enough"
	}
	return ofReplicas(ready, wanted, "ready")
}

func statefulSet(o object) Verdict {
	wanted := count(o, 1, "spec", "replicas")
	replicas, updated := count(o, 0, "status", "replicas"), count(o, 0, "status", "updatedReplicas")
	ready := count(o, 0, "status", "readyReplicas")
	available := count(o, ready, "status", "availableReplicas")
	first := count(o, 0, "spec", "updateStrategy", "rollingUpdate", "partition") // replicas below it keep their version
	switch {
	case at(o, "status") == nil:
		return progressing(noStatus)
	case ready < wanted || available < wanted && count(o, 0, "spec", "minReadySeconds") > 0:
		return progressing("%s", missingReplicas(ready, available, wanted))
	case replicas > wanted:
		return progressing("%s", leavingReplicas(replicas-wanted))
	case text(o, "spec", "updateStrategy", "type") == "OnDelete": // the owner of the pods decides when to update them
		return healthy()
	case updated < wanted-first:
		return progressing("%s", ofReplicas(updated, wanted-first, "of the newest version"))
	case first == 0 && text(o, "status", "currentRevision") != text(o, "status", "updateRevision"):
		return progressing("its update is not complete yet")
	}
	return healthy()
}

func daemonSet(o object) Verdict {
	wanted, known := number(o, "status", "desiredNumberScheduled")
	ready, updated := count(o, 0, "status", "numberReady"), count(o, 0, "status", "updatedNumberScheduled")
	available := count(o, 0, "status", "numberAvailable")
	_, observed := number(o, "status", "observedGeneration")
	switch {
	case !known || !observed:
		return progressing(noStatus)
	case count(o, 0, "status", "currentNumberScheduled") < wanted:
		return progressing("%s", onNodes(count(o, 0, "status", "currentNumberScheduled"), wanted, "runs"))
	case updated < wanted && text(o, "spec", "updateStrategy", "type") != "OnDelete":
		return progressing("%s", onNodes(updated, wanted, "runs in its newest version"))
	case ready < wanted:
		return progressing("%s", onNodes(ready, wanted, "is ready"))
	case available < wanted:
		return progressing("%s", onNodes(available, wanted, "has been ready for long enough"))
	}
	return healthy()
}

func onNodes(n, of int64, what string) string {
	return fmt.Sprintf("%s on %d of %d nodes", what, n, of)
}

// replicaSet also judges ReplicationControllers.
func replicaSet(o object) Verdict {
	wanted, replicas := count(o, 1, "spec", "replicas"), count(o, 0, "status", "replicas")
	ready, available := count(o, 0, "status", "readyReplicas"), count(o, 0, "status", "availableReplicas")
	switch {
	case at(o, "status") == nil:
		return progressing(noStatus)
	case available < wanted:
		return progressing("%s", missingReplicas(ready, available, wanted)).because(trouble(o))
	case replicas > wanted:
		return progressing("%s", leavingReplicas(replicas-wanted))
	case trouble(o) != "":
		return progressing("replicas cannot be created").because(trouble(o))
	}
	return healthy()
}

// job reports a Job as healthy only after it is complete, so that dependants of a service wait for
// its Jobs.
func job(o object) Verdict {
	finished := count(o, count(o, 1, "spec", "parallelism"), "spec", "completions")
	done, failed := count(o, 0, "status", "succeeded"), count(o, 0, "status", "failed")
	if c := conditionOf(o, "Failed"); c.status == isTrue {
		return degraded("failed after %d failed %s", failed, plural(int(failed), "pod", "pods")).because(c.say())
	}
	if c := conditionOf(o, "FailureTarget"); c.status == isTrue {
		return degraded("has failed, and its pods are being stopped").because(c.say())
	}
	switch {
	case conditionOf(o, "Complete").status == isTrue:
		return healthy()
	case flag(o, "spec", "suspend"):
		return Verdict{State: Healthy, Message: "is suspended"}
	case text(o, "status", "startTime") == "":
		return progressing("has not started yet")
	case failed > 0:
		return progressing("%d of %d runs are complete, %d failed and are retried", done, finished, failed)
	}
	return progressing("%d of %d runs are complete", done, finished)
}

func cronJob(o object) Verdict {
	if flag(o, "spec", "suspend") {
		return Verdict{State: Healthy, Message: "is suspended"}
	}
	return healthy()
}
