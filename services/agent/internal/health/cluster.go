// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "strings"

func service(o object) Verdict {
	if text(o, "spec", "type") == "LoadBalancer" && len(items(o, "status", "loadBalancer", "ingress")) == 0 {
		return progressing("its load balancer has no address yet")
	}
	return healthy()
}

func volumeClaim(o object) Verdict {
	switch phase := text(o, "status", "phase"); phase {
	case "Bound":
		return healthy()
	case "Lost":
		return degraded("its volume %s is gone", text(o, "spec", "volumeName"))
	case "":
		return progressing(noStatus)
	default:
		return progressing("is not bound to a volume yet; a storage class that waits for the first consumer binds it when a pod uses it")
	}
}

func volume(o object) Verdict {
	if text(o, "status", "phase") == "Failed" {
		reported := condition{reason: text(o, "status", "reason"), message: text(o, "status", "message")}
		return degraded("cannot be reclaimed").because(reported.say())
	}
	if text(o, "status", "phase") == "Pending" {
		return progressing("is not available yet")
	}
	return healthy()
}

func namespace(o object) Verdict {
	if text(o, "status", "phase") == "Terminating" {
		return Verdict{State: Terminating, Message: "is being deleted"}
	}
	return healthy()
}

// namespaceHeld returns what the deletion of a namespace waits for.
func namespaceHeld(o object) string {
	var held []string
	for _, kind := range [...]string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure",
		"NamespaceContentRemaining", "NamespaceFinalizersRemaining",
	} {
		if c := conditionOf(o, kind); c.status == isTrue && c.message != "" {
			held = append(held, c.message)
		}
	}
	return strings.Join(held, "; ")
}

func node(o object) Verdict {
	ready := conditionOf(o, "Ready")
	if ready.status != isTrue {
		return progressing("is not ready").because(ready.say())
	}
	for _, pressure := range [...]string{"NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		if c := conditionOf(o, pressure); c.status == isTrue {
			return degraded("%s", pressure).because(c.message)
		}
	}
	if flag(o, "spec", "unschedulable") {
		return Verdict{State: Healthy, Message: "takes no new pods"}
	}
	return healthy()
}

// autoscaler does not fail an object for missing metrics: they arrive some time after the first
// pods.
func autoscaler(o object) Verdict {
	if c := conditionOf(o, "AbleToScale"); c.status == isFalse {
		return progressing("cannot scale its target").because(c.say())
	}
	c := conditionOf(o, "ScalingActive")
	switch {
	case c.status != isFalse || c.reason == "ScalingDisabled": // the target is scaled to zero, and stays so
		return healthy()
	case c.reason == "InvalidSelector" || c.reason == "AmbiguousSelector" || c.reason == "InvalidMetricSourceType":
		return degraded("is misconfigured").because(c.say())
	}
	return progressing("cannot read its metrics").because(c.say())
}

func disruptionBudget(o object) Verdict {
	if c := conditionOf(o, "DisruptionAllowed"); c.status == isFalse && c.reason == "SyncFailed" {
		return progressing("cannot compute how many disruptions are allowed").because(c.message)
	}
	return healthy()
}

func apiService(o object) Verdict {
	switch c := conditionOf(o, "Available"); c.status {
	case isTrue:
		return healthy()
	case "":
		return progressing(noStatus)
	default:
		return progressing("its API is not available").because(c.say())
	}
}

func definition(o object) Verdict {
	if c := conditionOf(o, "NamesAccepted"); c.status == isFalse {
		return degraded("its names are taken").because(c.message)
	}
	switch c := conditionOf(o, "Established"); {
	case c.status == isTrue:
		return healthy()
	case c.status == isFalse && c.reason != "Installing":
		return degraded("is not established").because(c.say())
	}
	return progressing("is not established yet")
}

func signingRequest(o object) Verdict {
	switch {
	case conditionOf(o, "Denied").status == isTrue:
		return degraded("was denied").because(conditionOf(o, "Denied").say())
	case conditionOf(o, "Failed").status == isTrue:
		return degraded("failed").because(conditionOf(o, "Failed").say())
	case text(o, "status", "certificate") != "":
		return healthy()
	case conditionOf(o, "Approved").status == isTrue:
		return progressing("is approved, and not signed yet")
	}
	return progressing("waits to be approved")
}
