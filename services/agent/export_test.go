// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

// Succeed is succeed, ReplicaName is replicaName, Capabilities is capabilities, and NewMetrics is
// newMetrics.
var (
	Succeed      = succeed
	ReplicaName  = replicaName
	Capabilities = capabilities
	NewMetrics   = newMetrics
)
