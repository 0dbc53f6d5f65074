// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package client

// Params identify the hub and the caller.
type Params struct {
	Server string // base URL of the distributor: http:// or https://
	Token  string // API token; empty: no token is sent, unless there is a session
	CAPEM  []byte // certificates to trust instead of the system's; empty means the system's
	// Session signs the person in where there is no API token; nil: nothing does.
	Session *Session
	// Workload signs a job or a pod in where there is neither; nil: nothing does.
	Workload *Workload
	Reason   string // why the person makes changes, for the hub's records; empty: they gave no reason
}
