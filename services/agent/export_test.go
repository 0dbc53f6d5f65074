// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

// Succeed is succeed, ReplicaName is replicaName, and Capabilities is capabilities.
var (
	Succeed      = succeed
	ReplicaName  = replicaName
	Capabilities = capabilities
)
