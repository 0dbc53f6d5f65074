// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Limits of single fields. The limits of lists are in the protocol's comments, too.
const (
	maxRules         = 64
	maxFields        = 64
	maxWindows       = 32
	maxSettingsRules = 256
	maxPolicyBytes   = 64 << 10
	maxWait          = 24 * time.Hour
	maxWindow        = 31 * 24 * time.Hour
)

// known checks that a value is one that this version knows. The first of all is the default.
func known[T ~string](path string, value T, all ...T) error {
	if !slices.Contains(all, value) {
		return fielderr.New(path, "%q is not known", value)
	}
	return nil
}

func between(path string, d, least, most time.Duration) error {
	if d < least || d > most {
		return fielderr.New(path, "is %s; it must be between %s and %s", d, least, most)
	}
	return nil
}

// Validate checks everything that can be checked without looking at other objects. Service is the
// name of the one that the policy is for. The error is a *fielderr.Error.
func (p Policy) Validate(service string) error {
	if err := p.validateSize(); err != nil {
		return err // before anything of it is compiled
	}
	return cmp.Or(
		known("drift", p.Drift, DriftCorrect, DriftReport, DriftOff),
		fielderr.Each("ignore", "elements", p.Ignore, maxRules, validateIgnore),
		fielderr.Each("conflicts", "elements", p.Conflicts, maxRules, validateConflict),
		known("adoption", p.Adoption, AdoptAlways, AdoptNever),
		validateDeletion(p.Deletion),
		fielderr.Each("depends_on", "elements", p.DependsOn, maxRules, func(path string, d Dependency) error { return validateDependency(path, d, service) }),
		fielderr.Each("windows", "elements", p.Windows, maxWindows, ValidateWindow),
		validateTests(p.Tests),
		validateAccount("service_account", p.ServiceAccount),
		fielderr.Each("health_rules", "elements", p.HealthRules, maxRules, validateHealth),
	)
}

// validateSize bounds what each plan of the cluster carries.
func (p Policy) validateSize() error {
	text, err := json.Marshal(p)
	if err != nil || len(text) > maxPolicyBytes {
		return fielderr.New("", "has %d bytes; at most %d are allowed", len(text), maxPolicyBytes)
	}
	return nil
}

func validateIgnore(path string, rule IgnoreRule) error {
	if len(rule.Pointers)+len(rule.Managers) == 0 {
		return fielderr.New(path, "names no fields: give pointers or managers")
	}
	return cmp.Or(
		validateSelector(path+".objects", rule.Objects),
		fielderr.Each(path+".pointers", "elements", rule.Pointers, maxFields, validatePointer),
		fielderr.Each(path+".managers", "elements", rule.Managers, maxFields, required),
	)
}

func validateSelector(path string, s Selector) error {
	return cmp.Or(
		validateText(path+".group", s.Group), validateText(path+".kind", s.Kind),
		validateText(path+".namespace", s.Namespace), validateText(path+".name", s.Name),
		validateLabels(path+".labels", s.Labels),
	)
}

func validateConflict(path string, rule ConflictRule) error {
	return cmp.Or(
		validateText(path+".manager", rule.Manager),
		known(path+".action", rule.Action, ConflictReport, ConflictForce, ConflictYield),
	)
}

func validateDeletion(d Deletion) error {
	return cmp.Or(
		known("deletion.propagation", d.Propagation, DeleteForeground, DeleteBackground, DeleteOrphan),
		between("deletion.timeout", d.Timeout, 0, maxWait),
	)
}

func validateDependency(path string, d Dependency, service string) error {
	switch {
	case (d.Service == "") == (d.Object == nil):
		return fielderr.New(path, "must name either a service or an object")
	case d.Object != nil:
		return cmp.Or(validateObject(path+".object", *d.Object), validateExpression(path+".condition", d.Condition, expression.Bool))
	case d.Service == service:
		return fielderr.New(path+".service", "is the service itself, which can never be there before itself")
	case d.Condition != "":
		return fielderr.New(path+".condition", "is for objects; a service has to be healthy")
	}
	return objectname.Validate(path+".service", d.Service)
}

func validateObject(path string, o ObjectReference) error {
	if err := cmp.Or(validateVersion(path+".api_version", o.APIVersion), required(path+".kind", o.Kind), required(path+".name", o.Name)); err != nil {
		return err
	}
	if o.Namespace == "" {
		return nil
	}
	return validateLabel(path+".namespace", o.Namespace)
}

func validateTests(t *Tests) error {
	if t == nil {
		return nil
	}
	return cmp.Or(validateFolder("tests.path", t.Path), between("tests.timeout", t.Timeout, 0, maxWait))
}

func validateHealth(path string, rule HealthRule) error {
	if rule.Healthy+rule.Progressing+rule.Degraded == "" {
		return fielderr.New(path, "judges nothing: give healthy, progressing or degraded")
	}
	return cmp.Or(
		validateText(path+".group", rule.Group), required(path+".kind", rule.Kind),
		validateExpression(path+".healthy", rule.Healthy, expression.Bool),
		validateExpression(path+".progressing", rule.Progressing, expression.Bool),
		validateExpression(path+".degraded", rule.Degraded, expression.Bool),
		validateExpression(path+".message", rule.Message, expression.Text),
	)
}
