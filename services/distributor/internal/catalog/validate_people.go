// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
)

// Bounds of people and their bindings.
const (
	maxUserGroups     = 64
	maxSubjects       = 256
	maxClusterNames   = 1000
	maxRules          = 64
	maxScopeNames     = 256
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
	return cmp.Or(
		u.validate(KindUser),
		validateDescription(u.Spec.Description),
		fielderr.Each("spec.groups", "items", u.Spec.Groups, maxUserGroups, validateGroup),
	)
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
	s := b.Spec
	if err := cmp.Or(b.validate(KindAccessBinding), validateDescription(s.Description)); err != nil {
		return err
	}
	if len(s.Users)+len(s.Groups) == 0 {
		return fielderr.New("spec.users", "is required: name at least one user or group")
	}
	return cmp.Or(
		fielderr.Each("spec.users", "items", s.Users, maxSubjects, validateSubject),
		fielderr.Each("spec.groups", "items", s.Groups, maxSubjects, validateGroup),
		s.validateScope(),
		s.validateRole(),
		fielderr.Each("spec.rules", "rules", s.Rules, maxRules, func(field string, rule accessrule.Rule) error {
			return fielderr.Within(field, rule.Validate())
		}),
	)
}

func (s AccessBindingSpec) validateScope() error {
	others := len(s.Services)+len(s.Repositories) > 0 || !s.Projects.IsEmpty()
	switch {
	case s.Hub && (others || !s.Clusters.IsEmpty()):
		return fielderr.New("spec.hub", "means everything already; leave out projects, clusters, services and repositories, or hub")
	case !s.Hub && !others && s.Clusters.IsEmpty():
		return fielderr.New("spec.clusters", "is required: names, labels, or all: true; or name projects, services or repositories, or write hub: true for everything")
	}
	if s.Projects.All && len(s.Projects.Names) > 0 {
		return fielderr.New("spec.projects.all", "means all projects already; leave out names, or all")
	}
	return cmp.Or(
		fielderr.Each("spec.projects.names", "items", s.Projects.Names, maxScopeNames, ValidateName),
		s.Clusters.validate(),
		fielderr.Each("spec.services", "items", s.Services, maxScopeNames, validateNamedService),
		fielderr.Each("spec.repositories", "items", s.Repositories, maxScopeNames, ValidatePath),
	)
}

func (s AccessBindingSpec) validateRole() error {
	if s.Role == RoleNone && len(s.ClusterGroups) == 0 {
		return fielderr.New("spec.role", "is required: viewer, operator, editor, admin or the name of a role; or name cluster groups")
	}
	if s.Role != RoleNone {
		if err := ValidateName("spec.role", string(s.Role)); err != nil {
			return err
		}
	}
	if len(s.ClusterGroups) > 0 && !s.Hub && s.Projects.IsEmpty() && s.Clusters.IsEmpty() {
		return fielderr.New("spec.cluster_groups", "need clusters: single services and repositories let nobody reach a cluster")
	}
	return fielderr.Each("spec.cluster_groups", "items", s.ClusterGroups, maxClusterGroups, func(field, name string) error {
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
	}
	err := fielderr.Each("spec.clusters.names", "items", s.Names, maxClusterNames, ValidatePath)
	if err != nil || s.Labels == nil {
		return err
	}
	return s.Labels.validate("spec.clusters.labels")
}

func (s *LabelSelector) validate(field string) error {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return fielderr.New(field, "is empty; ask for at least one label, or write all: true for all clusters")
	}
	return cmp.Or(
		validateLabels(field+".match_labels", s.MatchLabels),
		fielderr.Each(field+".match_expressions", "conditions", s.MatchExpressions, maxExpressions, validateRequirement),
	)
}

func validateRequirement(field string, r LabelRequirement) error {
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
	return fielderr.Each(field+".values", "items", r.Values, maxLabelValues, validateLabelValue)
}

func validateLabelValue(field, value string) error {
	if value != "" && (len(value) > maxNameBytes || !labelName.MatchString(value)) {
		return fielderr.New(field, "%q is no label value: at most %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", value, maxNameBytes)
	}
	return nil
}

// validateSubject checks the name of somebody whom a binding names: a person, or a workload.
func validateSubject(field, name string) error {
	if strings.Contains(name, ":") {
		if ValidateWorkload(name) == nil {
			return nil
		}
		return fielderr.New(field, "%q is no name of a workload: the name of a trust rule, a colon, letters, digits and ._@+:/-", name)
	}
	return validateUser(field, name)
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

// ValidatePerson checks a name that an identity provider gives to a person.
func ValidatePerson(name string) error { return validateUser("name", name) }

// ValidateForeignGroup checks the name of a group that an identity provider puts somebody into. A
// name that means something to Leat or to Kubernetes is refused, leat:admins included.
func ValidateForeignGroup(name string) error {
	if name == AdminGroup {
		return fielderr.New("group", "%q is reserved", name)
	}
	return validateGroup("group", name)
}

// validateNamedService checks the path of a service, which names one cluster or none.
func validateNamedService(field, path string) error {
	if objectname.IsPath(path) {
		return nil
	}
	return objectname.ValidateService(field, path)
}
