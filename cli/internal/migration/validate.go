// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/contract/upstream/upstreamwire"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

const (
	maxSources     = 16        // of a service
	maxKeys        = 256       // of a configuration
	maxKey         = 128       // bytes
	maxAnnotations = 256 << 10 // bytes of all
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

var underscore = regexp.MustCompile(`_[a-z]`)

// Validate returns an error about a document that the hub would refuse, whatever else it holds: the text of the object that
// made it may be anything. What depends on other documents only the hub can say. The path of a *fielderr.Error is
// spelled as in documents.
func Validate(d *fleetv1.Document) error {
	err := validateName(document.Metadata(d))
	switch {
	case err != nil:
	case d.GetRepository() != nil:
		var definition upstream.Definition
		if definition, err = upstreamwire.Definition(d.GetRepository().GetSpec()); err == nil {
			err = definition.Validate()
		}
	case d.GetService() != nil:
		s := d.GetService()
		_, err = objectname.Parse("cluster", s.GetSpec().GetCluster(), s.GetMetadata().GetProject())
		err = cmp.Or(err, validateService(s.GetMetadata().GetName(), s.GetSpec()))
	case d.GetGlobalService() != nil:
		spec := d.GetGlobalService().GetSpec()
		err = fielderr.Within("template", validateService(d.GetGlobalService().GetMetadata().GetName(), filled(spec.GetTemplate())))
		err = cmp.Or(err, ValidateLabels("template_labels", spec.GetTemplateLabels(), true), ValidateLabels("template_annotations", spec.GetTemplateAnnotations(), false))
	}
	err = fielderr.Within("spec", err)
	if field, ok := errors.AsType[*fielderr.Error](err); ok {
		return field.At(underscore.ReplaceAllStringFunc(field.Path, func(s string) string { return strings.ToUpper(s[1:]) }))
	}
	return err
}

// parameter is a parameter of a template.
var parameter = regexp.MustCompile(`\$\{\{.*?\}\}`)

// filled returns a template with a word in place of each parameter: what a parameter becomes only the hub knows.
func filled(template *fleetv1.ServiceSpec) *fleetv1.ServiceSpec {
	template = proto.CloneOf(template)
	fill(template.ProtoReflect())
	return template
}

func fill(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, item protoreflect.Value) bool {
				fill(item.Message())
				return true
			})
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				fill(value.List().Get(i).Message())
			}
		case field.IsList():
		case field.Message() != nil:
			fill(value.Message())
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString(parameter.ReplaceAllString(value.String(), "x")))
		}
		return true
	})
}

// validateName checks what names an object, and its labels.
func validateName(m *typev1.Metadata) error {
	err := objectname.ValidateLabel("name", m.GetName())
	if err == nil && m.GetProject() != "" {
		err = objectname.ValidateLabel("project", m.GetProject())
	}
	return cmp.Or(err, ValidateLabels("labels", m.GetLabels(), true))
}

// ValidateLabels checks labels, or annotations. A value may hold a parameter, as in templates of global services.
func ValidateLabels(field string, labels map[string]string, areLabels bool) error {
	total := 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case len(validation.IsQualifiedName(key)) > 0, strings.HasPrefix(key, "leat.dev/"):
			return fielderr.New(field, "%.80q is not the key of a label", key)
		case areLabels && !strings.Contains(labels[key], "${{") && len(validation.IsValidLabelValue(labels[key])) > 0:
			return fielderr.New(field, "the value of %s is not the value of a label", key)
		}
		if total += len(key) + len(labels[key]); total > maxAnnotations {
			return fielderr.New(field, "has more than %d bytes", maxAnnotations)
		}
	}
	return nil
}

// validateService checks the spec of a service, or of a template.
func validateService(name string, spec *fleetv1.ServiceSpec) error {
	options, err := policywire.Wanted(spec)
	return cmp.Or(
		err,
		options.Validate(name),
		fielderr.Each("sources", "sources", spec.GetSources(), maxSources, func(field string, s *typev1.Source) error {
			return sourcewire.Of(s).Validate(field)
		}),
		validateConfig(spec.GetConfig()),
	)
}

// validateConfig checks values. An import makes no secrets and no references.
func validateConfig(c *fleetv1.ServiceConfig) error {
	total := 0
	if n := len(c.GetValues()); n > maxKeys {
		return fielderr.New("config", "has %d keys; at most %d are allowed", n, maxKeys)
	}
	for key, value := range c.GetValues() {
		if total += len(key) + len(value); !IsVariable(key) || len(value) > configref.MaxValueBytes || !utf8.ValidString(value) {
			return fielderr.New("config.values", "has a value that is not text of at most %d KiB, or a key that is not the name of a variable",
				configref.MaxValueBytes>>10)
		}
	}
	if total > configref.MaxBytes {
		return fielderr.New("config", "has %d bytes; at most %d are allowed", total, configref.MaxBytes)
	}
	return nil
}

// IsVariable reports whether a key of a configuration may have this name.
func IsVariable(name string) bool { return len(name) <= maxKey && variable.MatchString(name) }
