// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

// Succeed is succeed, and ReplicaName is replicaName.
var (
	Succeed     = succeed
	ReplicaName = replicaName
)
