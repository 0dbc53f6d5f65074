// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Rules are a service's compiled policy about fields of other managers. Rules are immutable; the
// zero Rules ignore nothing.
type Rules struct {
	ignore    *fields.Rules
	conflicts fingerprint.Sum // of the rules about conflicts; zero without rules
	invalid   error
}

// NewRules compiles a policy. Err returns why it cannot be compiled; the hub rejects such a policy.
func NewRules(p syncpolicy.Policy) Rules {
	var r Rules
	var err error
	if r.ignore, err = fields.Compile(p.Ignore); err != nil {
		r.invalid = fmt.Errorf("ignore: %w", err)
	}
	if len(p.Conflicts) > 0 {
		if text, err := json.Marshal(p.Conflicts); err == nil { // texts always have a JSON form
			r.conflicts = fingerprint.Text(text)
		}
	}
	return r
}

// Err returns why the policy could not be compiled, or nil.
func (r Rules) Err() error { return r.invalid }

// Desired returns the fingerprint of a manifest without its ignored fields. It depends on the
// rules, too: under other rules the same manifest is applied again.
func (r Rules) Desired(o *unstructured.Unstructured) fingerprint.Sum {
	ignored, _ := r.ignore.Of(o) // Apply reports the error
	return fingerprint.Desired(ignored.Strip(o)).Joined(r.conflicts).Joined(fingerprint.Text([]byte(ignored.String())))
}

// Live returns the fingerprint of the fields of a live object that Leat has set, without its
// ignored fields. It is fast, and safe for concurrent use.
func (r Rules) Live(o *unstructured.Unstructured) fingerprint.Sum {
	ignored, _ := r.ignore.Of(o) // the pointers before an unreadable one still apply
	return fingerprint.Live(ignored.Strip(o), k8s.FieldManager)
}

// Ignored returns the fields that the policy and the object's annotation leave to other managers.
func (r Rules) Ignored(o *unstructured.Unstructured) (fields.Ignored, error) {
	ignored, err := r.ignore.Of(o)
	if err != nil {
		return fields.Ignored{}, reason.Errorf(reason.ManifestInvalid, "annotation %s: %v", fields.IgnoreAnnotation, err)
	}
	return ignored, nil
}
