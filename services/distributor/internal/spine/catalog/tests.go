// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// TestResult is the result of one test of a service.
type TestResult struct {
	ObjectRef

	Passed    bool      `json:"passed,omitempty"`
	Message   string    `json:"message,omitempty"`
	LogTail   string    `json:"logTail,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// DryRun is the expected effect of an apply.
type DryRun struct {
	Created   int32          `json:"created,omitempty"`
	Updated   int32          `json:"updated,omitempty"`
	Deleted   int32          `json:"deleted,omitempty"`
	Unchanged int32          `json:"unchanged,omitempty"`
	Changes   []DryRunChange `json:"changes,omitempty"`
}

// DryRunChange is the expected change of one object. Action is a leat.distributor.v1.DryRunAction
// without its prefix.
type DryRunChange struct {
	ObjectRef

	Action string `json:"action,omitempty"`
}
