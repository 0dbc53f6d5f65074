// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
)

func pod(o object) Verdict {
	switch phase := text(o, "status", "phase"); phase {
	case "Succeeded":
		return healthy()
	case "Failed":
		return degraded("failed").because(failureReason(o))
	case "Running", "Pending", "Unknown":
		return running(o, phase)
	case "":
		return progressing(noStatus)
	default:
		return progressing("is in the unknown phase %s", phase)
	}
}

// failureReason returns why a pod failed.
func failureReason(o object) string {
	if whole := (condition{reason: text(o, "status", "reason"), message: text(o, "status", "message")}).say(); whole != "" {
		return whole
	}
	for _, c := range containers(o) {
		if code, ok := number(c, "state", "terminated", "exitCode"); ok && code != 0 {
			return exit(c, "state")
		}
	}
	return ""
}

func running(o object, phase string) Verdict {
	for _, c := range containers(o) {
		if v, stuck := waiting(c); stuck {
			return v
		}
	}
	if conditionOf(o, "Ready").status == isTrue {
		return healthy()
	}
	if c := conditionOf(o, "PodScheduled"); c.status == isFalse {
		return progressing("cannot be scheduled").because(c.message)
	}
	for _, c := range containers(o) {
		if restarts := count(c, 0, "restartCount"); restarts > 0 {
			return progressing("container %s was restarted %d %s", text(c, "name"), restarts, plural(int(restarts), "time", "times")).
				because(exit(c, "lastState"))
		}
	}
	if phase == "Unknown" {
		return progressing("its node does not answer").because(text(o, "status", "reason"))
	}
	return progressing("is not ready").because(conditionOf(o, "Ready").message)
}

// containers returns the states of a pod's containers, init containers first.
func containers(o object) []object {
	var all []object
	for _, field := range [...]string{"initContainerStatuses", "containerStatuses"} {
		for _, item := range items(o, "status", field) {
			if c, ok := item.(object); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

// waiting judges a container that cannot start, and reports whether that is the case.
func waiting(c object) (Verdict, bool) {
	name, why := text(c, "name"), condition{reason: text(c, "state", "waiting", "reason"), message: text(c, "state", "waiting", "message")}
	switch reason := why.reason; {
	case reason == "CrashLoopBackOff":
		restarts := count(c, 0, "restartCount")
		return degraded("container %s crashes again and again (CrashLoopBackOff), %d %s so far", name, restarts, plural(int(restarts), "time", "times")).
			because(exit(c, "lastState")), true
	case reason == "ImagePullBackOff", reason == "ErrImagePull", reason == "ErrImageNeverPull", reason == "InvalidImageName",
		reason == "ImageInspectError", reason == "RegistryUnavailable", reason == "SignatureValidationFailed":
		return degraded("the image %s of container %s cannot be pulled", text(c, "image"), name).because(why.say()), true
	case strings.HasSuffix(reason, "Error"), strings.HasPrefix(reason, "Err"), strings.HasSuffix(reason, "BackOff"):
		return degraded("container %s cannot start", name).because(why.say()), true
	}
	return Verdict{}, false
}

// exit describes how a container ended; state is "state" or "lastState".
func exit(c object, state string) string {
	code, ok := number(c, state, "terminated", "exitCode")
	reason, message := text(c, state, "terminated", "reason"), text(c, state, "terminated", "message")
	switch {
	case !ok:
		return ""
	case reason == "OOMKilled":
		return "it was killed for using more memory than its limit"
	case message != "":
		return fmt.Sprintf("it ended with exit code %d: %s", code, strings.TrimSpace(message))
	case reason != "" && reason != "Error":
		return fmt.Sprintf("it ended with exit code %d (%s)", code, reason)
	}
	return fmt.Sprintf("it ended with exit code %d", code)
}
