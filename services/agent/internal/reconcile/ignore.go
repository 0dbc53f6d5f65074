// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// leniency is what a service's policy says about fields of others, ready for use.
type leniency struct {
	rules   *fields.Rules
	invalid error // the policy cannot be understood; the hub lets none through
}

func lenient(s plan.Service) leniency {
	rules, err := fields.Compile(s.Spec.Policy.Ignore)
	if err != nil {
		err = fmt.Errorf("ignore: %w", err)
	}
	return leniency{rules: rules, invalid: err}
}

// ignored is what is left to others of an object of this run.
func (r *run) ignored(o *unstructured.Unstructured) (fields.Ignored, error) {
	ignored, err := r.lenient.rules.Of(o)
	if err != nil {
		return fields.Ignored{}, reason.Errorf(reason.ManifestInvalid, "annotation %s: %v", fields.IgnoreAnnotation, err)
	}
	return ignored, nil
}

// sumOf sums up the manifest of an object without what is ignored of it, and what the policy makes of it when it is applied.
func (r *run) sumOf(o *unstructured.Unstructured) fingerprint.Sum {
	ignored, _ := r.lenient.rules.Of(o) // whoever applies it hears of the error
	return fingerprint.Desired(ignored.Strip(o)).Joined(r.rules).Joined(fingerprint.Text([]byte(ignored.String())))
}

// Fingerprint sums up what Leat has of an object in the cluster, without what its service ignores. It is fast, and safe for
// concurrent use.
func (e *Engine) Fingerprint(o *unstructured.Unstructured) fingerprint.Sum {
	metadata, _ := o.Object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any) // o.GetLabels would copy them
	service, _ := labels[k8s.ServiceLabel].(string)
	u, err := e.unit(service)
	if err != nil {
		return fingerprint.Live(o, k8s.FieldManager)
	}
	u.mu.Lock()
	lenient := u.lenient
	u.mu.Unlock()
	return lenient.live(o)
}

func (l leniency) live(o *unstructured.Unstructured) fingerprint.Sum {
	ignored, _ := l.rules.Of(o) // the pointers before an unreadable one still hold
	return fingerprint.Live(ignored.Strip(o), k8s.FieldManager)
}
