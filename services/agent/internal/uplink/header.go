// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

// Headers of requests and answers.
const (
	impersonateUser   = "Impersonate-User"
	impersonatePrefix = "Impersonate-"
	// leatPrefix begins the headers that the hub and the agent define.
	leatPrefix        = "Leat-"
	headerErrorOrigin = "Leat-Error-Origin"
	headerErrorReason = "Leat-Error-Reason"
	// headerUpgrade and headerUpgradeStatus carry an upgrade through HTTP/2.
	headerUpgrade       = "Leat-Upgrade"
	headerUpgradeStatus = "Leat-Upgrade-Status"
)

// originAgent names the agent in an answer of its own.
const originAgent = "agent"
