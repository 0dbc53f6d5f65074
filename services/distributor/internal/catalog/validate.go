// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
)

// Limits of single fields.
const (
	maxNameBytes       = 63
	maxDescription     = 1024
	maxAnnotationBytes = 256 << 10
	maxFolderBytes     = 4096
	maxRefBytes        = 1024
	maxRangeBytes      = 256
)

var (
	dnsDomain  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	commitName = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
)

// ValidateName checks that name is a DNS label (RFC 1123); the *fielderr.Error names field.
func ValidateName(field, name string) error { return objectname.ValidateLabel(field, name) }

// ValidatePath checks that path is one of package objectname; the *fielderr.Error names field.
func ValidatePath(field, path string) error { return objectname.Validate(field, path) }

// validate checks the metadata of an object of that kind.
func (m *Metadata) validate(kind Kind) error {
	if err := kind.validateName("metadata.name", m.Name); err != nil {
		return err
	}
	if m.ResourceVersion < 0 {
		return fielderr.New("metadata.resource_version", "is negative")
	}
	return cmp.Or(validateLabels("metadata.labels", m.Labels), validateAnnotations(m.Annotations))
}

func validateLabels(field string, labels map[string]string) error {
	for key, value := range labels {
		at := field + "[" + key + "]"
		if err := cmp.Or(validateQualified(at, key), validateLabelValue(at, value)); err != nil {
			return err
		}
	}
	return nil
}

func validateAnnotations(annotations map[string]string) error {
	total := 0
	for key, value := range annotations {
		if err := validateQualified("metadata.annotations["+key+"]", strings.ToLower(key)); err != nil {
			return err
		}
		total += len(key) + len(value)
	}
	if total > maxAnnotationBytes {
		return fielderr.New("metadata.annotations", "have %d bytes; at most %d are allowed", total, maxAnnotationBytes)
	}
	return nil
}

// validateQualified checks a key of Kubernetes' form [prefix/]name.
func validateQualified(field, key string) error {
	prefix, name, qualified := strings.Cut(key, "/")
	if !qualified {
		prefix, name = "", key
	}
	if qualified && (len(prefix) > 253 || !dnsDomain.MatchString(prefix)) {
		return fielderr.New(field, "prefix %q is not a DNS domain", prefix)
	}
	if len(name) > maxNameBytes || !labelName.MatchString(name) {
		return fielderr.New(field, "name %q must be 1 to %d letters, digits, '-', '_' and '.', with a letter or digit at both ends", name, maxNameBytes)
	}
	return nil
}

// Validate implements Object.
func (c *Cluster) Validate() error {
	return cmp.Or(
		c.validate(KindCluster),
		validateDescription(c.Spec.Description),
		validateEndpoint("spec.agent_endpoint", c.Spec.AgentEndpoint),
		fielderr.Within("spec.agent", c.Spec.Settings.Validate()),
	)
}

func validateDescription(description string) error {
	if len(description) > maxDescription {
		return fielderr.New("spec.description", "has %d bytes; at most %d are allowed", len(description), maxDescription)
	}
	return nil
}

// Validate implements Object.
func (s *Service) Validate() error {
	return cmp.Or(
		ValidatePath("spec.cluster", s.Spec.Cluster),
		s.validate(KindService),
		s.validateCluster(),
		fielderr.Within("spec", s.Spec.Wanted().Validate(s.LocalName())),
		s.Spec.Config.validate(),
		validateSetList(setListField, s.Spec.ConfigSets),
		validateSources(s.Spec.Sources),
	)
}

// validateCluster checks that the service is named by its own cluster.
func (s *Service) validateCluster() error {
	if _, cluster := objectname.SplitService(s.Name); cluster != s.Spec.Cluster {
		return fielderr.New("spec.cluster", "%q is not the cluster %q that the service's name holds",
			objectname.Display(s.Spec.Cluster), objectname.Display(cluster))
	}
	return nil
}

func validateSources(sources []Source) error {
	if len(sources) == 0 {
		return fielderr.New("spec.sources", "is required: name at least one source")
	}
	return fielderr.Each("spec.sources", "sources", sources, MaxSources, validateSource)
}

func validateSource(field string, s Source) error {
	err := cmp.Or(
		ValidatePath(field+".repository", s.Repository),
		s.Ref.validate(field+".ref"),
		validateFolder(field+".path", s.Path),
		validateFolder(field+".root", s.Root),
		validateChart(field+".chart", s.Chart),
		validateMount(field+".mount", s.Mount),
		s.Layer.validate(field+".layer"),
	)
	if err != nil {
		return err
	}
	if !inside(cleanFolder(s.Path), s.bundled()) {
		return fielderr.New(field+".root", "%q does not contain the path %q", s.Root, s.Path)
	}
	return s.validateSelection(field)
}

func (r Ref) validate(field string) error {
	if r.Kind == RefHead {
		return nil
	}
	field += "." + string(r.Kind)
	if r.Kind == RefCommit {
		if !commitName.MatchString(r.Value) {
			return fielderr.New(field, "%q is not a commit id: at least 7 lower-case hexadecimal digits", r.Value)
		}
		return nil
	}
	if r.Kind == RefSemver {
		return validateRange(field, r.Value)
	}
	if r.Kind == RefName && r.Value != "HEAD" && !strings.HasPrefix(r.Value, "refs/") {
		return fielderr.New(field, "%q is not a full reference name such as refs/heads/main", r.Value)
	}
	return validateRefName(field, r.Value)
}

func validateRange(field, text string) error {
	if len(text) > maxRangeBytes {
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxRangeBytes)
	}
	if _, err := semver.NewConstraint(text); err != nil || strings.TrimSpace(text) == "" {
		return fielderr.New(field, "%q is not a range of versions such as ~1.4, >=2 <3 or 1.x", text)
	}
	return nil
}

// validateRefName follows git-check-ref-format.
func validateRefName(field, name string) error {
	switch {
	case name == "":
		return fielderr.New(field, "is empty")
	case len(name) > maxRefBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(name), maxRefBytes)
	case strings.ContainsAny(name, " ~^:?*[\\") || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fielderr.New(field, "%q holds a character that no reference name may hold", name)
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") || strings.HasSuffix(name, ".") ||
		strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") || strings.HasPrefix(name, "-"):
		return fielderr.New(field, "%q is not a reference name", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return fielderr.New(field, "%q is not a reference name", name)
		}
	}
	return nil
}

func validateFolder(field, folder string) error {
	switch {
	case folder == "":
		return nil
	case len(folder) > maxFolderBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(folder), maxFolderBytes)
	case strings.HasPrefix(folder, "/"):
		return fielderr.New(field, "%q must be relative to the repository's root: leave out the leading slash", folder)
	case strings.ContainsAny(folder, "\\\x00"):
		return fielderr.New(field, "%q must use forward slashes", folder)
	case path.Clean(folder) == ".." || strings.HasPrefix(path.Clean(folder), "../"):
		return fielderr.New(field, "%q leaves the repository", folder)
	}
	return nil
}
