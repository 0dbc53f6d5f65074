// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import _ "embed"

// kwokStages are the files of stageFiles, of the kwok that tools/kube pins. A program of kwok does not
// contain them, so a kwok that somebody installed would do nothing without these.
//
//go:embed kwok-stages.yaml
var kwokStages []byte

// stageFiles lists kwok's own behaviours that simulate a working cluster: nodes become ready and
// renew their leases, pods run at once, pods of Jobs complete, deleted pods go, and claims get a
// volume.
func stageFiles() []string {
	return []string{
		"node/fast/node-initialize.yaml",
		"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
		"pod/fast/pod-ready.yaml",
		"pod/fast/pod-complete.yaml",
		"pod/fast/pod-delete.yaml",
		"volume/fast/pvc-provision.yaml",
		"volume/fast/pvc-delete.yaml",
		"volume/fast/pv-bind.yaml",
		"volume/fast/pv-delete.yaml",
	}
}
