// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"

// Advice returns what a user can do about a reason, or "" if the message has it. It is the command
// line's wording of the comments in leat.errors.v1.
func Advice(reason errorsv1.Reason) string {
	return map[errorsv1.Reason]string{
		errorsv1.Reason_REASON_FIELD_INVALID:        "Correct the field; nothing was changed.",
		errorsv1.Reason_REASON_NOT_FOUND:            "Check the name; leat get lists what exists.",
		errorsv1.Reason_REASON_ALREADY_EXISTS:       "Choose another name, or change the existing object with leat apply.",
		errorsv1.Reason_REASON_VERSION_CONFLICT:     "Somebody changed it since you read it. Read it again (leat get … -o yaml), or leave resourceVersion out.",
		errorsv1.Reason_REASON_ROTATION_UNFINISHED:  "Run leat admin keys to see how far it is, and try again when it has ended.",
		errorsv1.Reason_REASON_ROLLOUT_BY_AUTHOR:    "Ask another person who may approve: leat rollout status NAME shows whose edits the rollout brings.",
		errorsv1.Reason_REASON_ROLLOUT_REFUSED:      "Look at leat rollout status NAME, and do what it waits for.",
		errorsv1.Reason_REASON_REVISION_UNAVAILABLE: "Choose another revision of leat history service/NAME, or revert the commit in the repository.",
		errorsv1.Reason_REASON_IN_USE:               "First delete or change the objects that name it.",
		errorsv1.Reason_REASON_NAME_AMBIGUOUS:       "Write service/NAME@CLUSTER.",
		errorsv1.Reason_REASON_REFERENCE_NOT_FOUND:  "Create the referenced object first, or apply both together.",

		errorsv1.Reason_REASON_FLEET_SOURCE_MANAGED:     "Change the document in Git; or suspend the fleet source and edit by hand until it continues.",
		errorsv1.Reason_REASON_FLEET_SOURCE_DOCUMENTS:   "Correct the documents in Git; leat fleetsource status NAME lists them with file and line.",
		errorsv1.Reason_REASON_IMAGE_NONE_SELECTED:      "Correct spec.select of the image policy, or push an image with such a tag.",
		errorsv1.Reason_REASON_IMAGE_NO_MARKS:           "Mark the lines in Git with # leat: image=PROJECT/NAME (docs/guides/image-automation.md).",
		errorsv1.Reason_REASON_FLEET_SOURCE_HELD:        "Restore the documents in Git, or agree with leat fleetsource confirm NAME.",
		errorsv1.Reason_REASON_FLEET_SOURCE_CONFLICT:    "Remove one of the two documents, or set adopt in the fleet source.",
		errorsv1.Reason_REASON_FLEET_SOURCE_WRITTEN:     "Apply the image policies with spec.suspended first, or with the fleet source; then resume them.",
		errorsv1.Reason_REASON_DERIVATION_FAILED:        "Correct the expression in the global service, or the labels of the cluster; what is applied stays.",
		errorsv1.Reason_REASON_DERIVATION_TOO_EXPENSIVE: "Select by labels, or write simpler expressions in the global service; what is applied stays.",
		errorsv1.Reason_REASON_DERIVATION_PENDING:       "Wait some seconds and try again; what is applied stays.",
		errorsv1.Reason_REASON_SERVICE_DERIVED:          "Change the global service, or give it an override for this cluster.",
		errorsv1.Reason_REASON_REMOVAL_GUARDED:          "Nothing was changed. Correct the change, or confirm the removal as the message says; leat delete has --cascade.",
		errorsv1.Reason_REASON_REMOVAL_HELD:             "Correct the condition of the global service, or agree with leat prune confirm globalservice/NAME.",
		errorsv1.Reason_REASON_ROLLOUT_STOPPED:          "Look at leat rollout status NAME, and approve, retry or roll back; after one that went back, push a correction.",
		errorsv1.Reason_REASON_GLOBAL_SERVICE_CONFLICT:  "Delete the service that was written by hand, or leave the cluster out of the selection.",

		errorsv1.Reason_REASON_REPOSITORY_NOT_FOUND:   "Check the repository's url, and whether its credential may read it.",
		errorsv1.Reason_REASON_REF_NOT_FOUND:          "Check the service's ref; it may not have been pushed yet.",
		errorsv1.Reason_REASON_PATH_NOT_FOUND:         "Check the service's path; it is relative to the repository's root.",
		errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED: "Replace the credential in the repository's spec.",
		errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE:   "Leat continues to serve mirrored content and retries automatically. Check the url and the network if this lasts.",
		errorsv1.Reason_REASON_UPSTREAM_PROTOCOL:      "Check the repository's url: it does not answer as a Git server.",
		errorsv1.Reason_REASON_REPOSITORY_NOT_READY:   "Its first fetch is under way. Try again in a moment.",
		errorsv1.Reason_REASON_UPSTREAM_RATE_LIMITED:  "Leat slows down and retries automatically.",

		errorsv1.Reason_REASON_BUNDLE_TOO_LARGE:      "Split the folder, or raise the limit.",
		errorsv1.Reason_REASON_CONTENT_UNSUPPORTED:   "Change that file in the repository.",
		errorsv1.Reason_REASON_LFS_OBJECT_MISSING:    "Push the object with git lfs push --all, or leave the file out.",
		errorsv1.Reason_REASON_SUBMODULE_UNAVAILABLE: "Push the submodule's commit, correct .gitmodules, or leave the submodule out.",
		errorsv1.Reason_REASON_CHART_DEPENDENCY_UNAVAILABLE: "Define the dependency's repository and list it under chartRepositories, " +
			"or correct Chart.yaml and run helm dependency update.",
		errorsv1.Reason_REASON_STORAGE_FULL: "An operator has to give the hub more room.",

		errorsv1.Reason_REASON_CONFIG_REFERENCE_INVALID: "leat config explain shows the reference. Correct it, the set, or the cluster's labels.",
		errorsv1.Reason_REASON_CONFIG_TOO_LARGE:         "List fewer sets, or make them smaller; leat config explain shows what each one sets.",

		errorsv1.Reason_REASON_TOKEN_INVALID:         "Log in again with leat login, or set LEAT_TOKEN or --token-file.",
		errorsv1.Reason_REASON_HUB_TOKEN_REFUSED:     "An operator of the hub has to compare the clocks of its machines, and LEAT_SERVICE_KEYS of its parts.",
		errorsv1.Reason_REASON_ACCESS_DENIED:         "Ask an administrator of the hub for a binding.",
		errorsv1.Reason_REASON_ACCESS_REQUEST_CLOSED: "Have its author ask again with leat access request, if the access is still needed.",
		errorsv1.Reason_REASON_ACCESS_REQUEST_OWN:    "Have another person decide; leat access withdraw NAME takes it back.",
		errorsv1.Reason_REASON_ACCESS_REQUESTS_FULL:  "See leat get accessrequests, and take one back with leat access withdraw NAME.",
		errorsv1.Reason_REASON_RATE_LIMITED:          "Wait a moment and try again.",
		errorsv1.Reason_REASON_MESSAGE_TOO_LARGE:     "Send fewer documents at a time.",
		errorsv1.Reason_REASON_DEADLINE_EXCEEDED:     "Try again with more time.",

		errorsv1.Reason_REASON_AGENT_OFFLINE:          "Check that the cluster's agent runs and reaches the tunnel.",
		errorsv1.Reason_REASON_CLUSTER_UNREACHABLE:    "Check the cluster: its agent does not reach the API server.",
		errorsv1.Reason_REASON_AGENT_OUTDATED:         "Upgrade the cluster's agent; the service stays as it is, and continues automatically.",
		errorsv1.Reason_REASON_AGENT_ITSELF:           "Put the object back into the manifests; the agent lives on meanwhile.",
		errorsv1.Reason_REASON_AGENT_POD_UNREADABLE:   "Grant the agent's account the right that the message names; it continues automatically.",
		errorsv1.Reason_REASON_AGENT_VERSION_SKEW:     "Bring the cluster's agent to the hub's version; for a newer agent, upgrade the hub first.",
		errorsv1.Reason_REASON_CLUSTER_UNLOCKED:       "Give each service an account, then set LEAT_AGENT_LOCK_DOWN in the cluster.",
		errorsv1.Reason_REASON_SHUTTING_DOWN:          "Try again.",
		errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE: "A part of the hub does not answer. Try again in a moment.",
		errorsv1.Reason_REASON_UNIMPLEMENTED:          "The hub is older than this leat. Upgrade it.",
		errorsv1.Reason_REASON_INTERNAL:               "This is a defect in Leat. Its cause is in the server's log under the error id; please report it.",

		errorsv1.Reason_REASON_MANIFEST_INVALID:     "Correct the file in the repository; the last good state stays applied.",
		errorsv1.Reason_REASON_APPLY_REJECTED:       "Correct the manifest or the cluster's policy.",
		errorsv1.Reason_REASON_APPLY_CONFLICT:       "Remove those fields from one of the two, or set spec.sync.forceConflicts.",
		errorsv1.Reason_REASON_HEALTH_TIMEOUT:       "Look at those objects with kubectl describe (leat kubeconfig CLUSTER gives access).",
		errorsv1.Reason_REASON_PRUNE_GUARDED:        "Restore the manifests, or see with leat prune confirm service/NAME what would go, and agree.",
		errorsv1.Reason_REASON_BUNDLE_UNAVAILABLE:   "The agent retries automatically; the last good state stays applied.",
		errorsv1.Reason_REASON_DRIFT_DETECTED:       "See the differences with leat get service NAME; leat sync reverts them.",
		errorsv1.Reason_REASON_DEPENDENCY_NOT_READY: "It continues automatically; check the object that the message names.",
		errorsv1.Reason_REASON_SYNC_WINDOW_CLOSED:   "It continues automatically; leat sync service/NAME does not wait.",
		errorsv1.Reason_REASON_TEST_FAILED:          "See the end of its log with leat get service NAME; leat sync runs the tests again.",
		errorsv1.Reason_REASON_OBJECT_CLAIMED:       "Remove the object from one of the two services.",
	}[reason]
}
