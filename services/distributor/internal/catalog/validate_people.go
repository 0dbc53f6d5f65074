// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/fielderr"
)

// Bounds of people and their bindings.
const (
	maxUserGroups     = 64
	maxSubjects       = 256
	maxClusterNames   = 1000
	maxRules          = 64
	maxClusterGroups  = 16
	maxExpressions    = 32
	maxLabelValues    = 64
	maxSubjectBytes   = 253
	maxTokenLabel     = 128
	reservedPrefix    = "leat:"
	kubernetesPrefix  = "system:"
	maxClusterGroupID = 128
)

var (
	// userName is what signs a person in anywhere: also names that others give, such as mail
	// addresses. There is no colon in it, so it is never one of Kubernetes' own.
	userName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+-]*[A-Za-z0-9])?$`)
	groupName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+:/-]*[A-Za-z0-9])?$`)
	groupID   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+/-]*[A-Za-z0-9])?$`)
)

// Validate implements Object.
func (u *User) Validate() error {
	if err := u.validate(); err != nil {
		return err
	}
	if len(u.Spec.Description) > maxDescription {
		return fielderr.New("spec.description", "has %d bytes; at most %d are allowed", len(u.Spec.Description), maxDescription)
	}
	return validateList("spec.groups", u.Spec.Groups, maxUserGroups, validateGroup)
}

// ValidateTokenLabel checks what a token is called.
func ValidateTokenLabel(label string) error {
	switch {
	case strings.TrimSpace(label) == "":
		return fielderr.New("label", "is required: say what the token is for")
	case len(label) > maxTokenLabel:
		return fielderr.New("label", "has %d bytes; at most %d are allowed", len(label), maxTokenLabel)
	case strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fielderr.New("label", "holds a control character")
	}
	return nil
}

// Validate implements Object.
func (b *AccessBinding) Validate() error {
	if err := b.validate(); err != nil {
		return err
	}
	s := b.Spec
	switch {
	case len(s.Description) > maxDescription:
		return fielderr.New("spec.description", "has %d bytes; at most %d are allowed", len(s.Description), maxDescription)
	case len(s.Users)+len(s.Groups) == 0:
		return fielderr.New("spec.users", "is required: name at least one user or group")
	}
	if err := validateList("spec.users", s.Users, maxSubjects, validateUser); err != nil {
		return err
	}
	if err := validateList("spec.groups", s.Groups, maxSubjects, validateGroup); err != nil {
		return err
	}
	if err := s.Clusters.validate(); err != nil {
		return err
	}
	if err := s.validateRole(); err != nil {
		return err
	}
	if len(s.Rules) > maxRules {
		return fielderr.New("spec.rules", "has %d rules; at most %d are allowed", len(s.Rules), maxRules)
	}
	for i, rule := range s.Rules {
		if err := fielderr.Within(indexed("spec.rules", i), rule.Validate()); err != nil {
			return err
		}
	}
	return nil
}

func (s AccessBindingSpec) validateRole() error {
	switch s.Role {
	case RoleViewer, RoleOperator, RoleAdmin:
	case RoleNone:
		if len(s.ClusterGroups) == 0 {
			return fielderr.New("spec.role", "is required: viewer, operator or admin; or name cluster groups")
		}
	default:
		return fielderr.New("spec.role", "%q is not known", string(s.Role))
	}
	return validateList("spec.cluster_groups", s.ClusterGroups, maxClusterGroups, func(field, name string) error {
		if len(name) > maxClusterGroupID || !groupID.MatchString(name) {
			return fielderr.New(field, "%q is no name of a group: letters, digits and ._@+/-, without the prefix leat:group:", name)
		}
		return nil
	})
}

func (s ClusterSelection) validate() error {
	switch some := len(s.Names) > 0 || s.Labels != nil; {
	case s.All && some:
		return fielderr.New("spec.clusters.all", "means all clusters already; leave out names and labels, or all")
	case !s.All && !some:
		return fielderr.New("spec.clusters", "is required: names, labels, or all: true")
	}
	err := validateList("spec.clusters.names", s.Names, maxClusterNames, ValidateName)
	if err != nil || s.Labels == nil {
		return err
	}
	return s.Labels.validate("spec.clusters.labels")
}

func (s *LabelSelector) validate(field string) error {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return fielderr.New(field, "is empty; ask for at least one label, or write all: true for all clusters")
	}
	for key, value := range s.MatchLabels {
		at := field + ".match_labels[" + key + "]"
		if err := validateQualified(at, key); err != nil {
			return err
		}
		if err := validateLabelValue(at, value); err != nil {
			return err
		}
	}
	if len(s.MatchExpressions) > maxExpressions {
		return fielderr.New(field+".match_expressions", "has %d conditions; at most %d are allowed", len(s.MatchExpressions), maxExpressions)
	}
	for i, r := range s.MatchExpressions {
		if err := r.validate(indexed(field+".match_expressions", i)); err != nil {
			return err
		}
	}
	return nil
}

func (r LabelRequirement) validate(field string) error {
	if err := validateQualified(field+".key", r.Key); err != nil {
		return err
	}
	switch r.Operator {
	case LabelIn, LabelNotIn:
		if len(r.Values) == 0 {
			return fielderr.New(field+".values", "is required for this operator")
		}
	case LabelExists, LabelDoesNotExist:
		if len(r.Values) > 0 {
			return fielderr.New(field+".values", "has no meaning for this operator; leave it out")
		}
	default:
		return fielderr.New(field+".operator", "is required: in, not_in, exists or does_not_exist")
	}
	return validateList(field+".values", r.Values, maxLabelValues, validateLabelValue)
}

func validateLabelValue(field, value string) error {
	if value != "" && (len(value) > maxNameBytes || !labelName.MatchString(value)) {
		return fielderr.New(field, "%q is no label value: at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", value, maxNameBytes)
	}
	return nil
}

func validateList(field string, items []string, limit int, validate func(field, item string) error) error {
	if len(items) > limit {
		return fielderr.New(field, "has %d items; at most %d are allowed", len(items), limit)
	}
	for i, item := range items {
		if err := validate(indexed(field, i), item); err != nil {
			return err
		}
	}
	return nil
}

func validateUser(field, name string) error {
	if len(name) > maxSubjectBytes || !userName.MatchString(name) {
		return fielderr.New(field, "%q is no name of a user: letters, digits and ._@+-, with a letter or digit at both ends", name)
	}
	return nil
}

// validateGroup refuses names that mean something to Leat or to Kubernetes, so that nobody is in
// such a group by accident.
func validateGroup(field, name string) error {
	switch {
	case name == AdminGroup:
		return nil
	case strings.HasPrefix(name, reservedPrefix), strings.HasPrefix(name, kubernetesPrefix):
		return fielderr.New(field, "%q begins with %q, which is reserved; only %s may be named", name, strings.SplitAfter(name, ":")[0], AdminGroup)
	case len(name) > maxSubjectBytes || !groupName.MatchString(name):
		return fielderr.New(field, "%q is no name of a group: letters, digits and ._@+:/-, with a letter or digit at both ends", name)
	}
	return nil
}
