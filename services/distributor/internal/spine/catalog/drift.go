// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

// ObjectDrift is one Kubernetes object that another manager has changed.
type ObjectDrift struct {
	ObjectRef

	// Fields are the differing fields. Empty: the object is gone.
	Fields []FieldDrift `json:"fields,omitempty"`
}

// FieldDrift is a field whose value in the cluster, New, is not the manifest's, Old. Manager is who
// wrote it.
type FieldDrift struct {
	Path    string `json:"path,omitempty"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
	Manager string `json:"manager,omitempty"`
}
