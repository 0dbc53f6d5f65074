// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

// Object is one object of a service.
type Object struct {
	Ref

	// UID is the object's UID in the cluster. It is empty between the agent's decision to apply the
	// object and the API server's answer.
	UID string
	// Wave is the object's place in the order of applying: smaller waves come first. Deletion uses
	// the reverse order.
	Wave int
	// Wish is the last applied manifest's wish for the object's deletion.
	Wish Wish
	// Agreed means that a person has agreed to the object's deletion.
	Agreed bool
	// Counted means that the record's Pruned includes the object although it still exists.
	Counted bool
}
