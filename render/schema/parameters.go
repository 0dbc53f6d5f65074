// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/leatdev/leat/render"
)

const (
	// maxFailures bounds the failures that an error lists.
	maxFailures = 10
	// maxWant bounds what an error quotes of a schema, in bytes.
	maxWant = 200
)

// Parameters compares the parameters of services with their schemas.
type Parameters struct{}

var _ render.ParameterChecker = Parameters{}

// CheckParameters implements render.ParameterChecker. A parameter is a text. Where the schema of a
// parameter names types and text is not one of them, the parameter is the number or the boolean that
// its text spells, by the rule for ${NAME} in manifests.
func (Parameters) CheckParameters(_ context.Context, file string, text []byte, variables *render.Variables) error {
	compiled, err := Compile(render.SchemaFile, text, "put the definitions into the schema")
	if err != nil {
		return &render.Error{Path: file, Cause: err}
	}
	err = compiled.Validate(instanceOf(compiled, variables))
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &render.Error{Path: file, Cause: errors.New("the parameters cannot be compared with the schema")}
	}
	failures := failuresOf(invalid)
	if more := len(failures) - maxFailures; more > 0 {
		failures = append(failures[:maxFailures], fmt.Sprintf("and %d more", more))
	}
	return &render.Error{Path: file, Cause: fmt.Errorf("the service's parameters do not meet the schema: %s; correct spec.config",
		strings.Join(failures, "; "))}
}

// instanceOf returns the parameters as the value that a schema describes.
func instanceOf(schema *jsonschema.Schema, variables *render.Variables) map[string]any {
	instance := map[string]any{}
	if variables == nil {
		return instance
	}
	for _, values := range []map[string]string{variables.Values, variables.Secrets} {
		for name, value := range values {
			instance[name] = value
			if types := typesOf(schema.Properties[name]); len(types) > 0 && !slices.Contains(types, "string") {
				instance[name] = render.Typed(value)
			}
		}
	}
	return instance
}

// typesOf returns the types that a schema names, itself or by a reference.
func typesOf(schema *jsonschema.Schema) []string {
	for range maxDepth {
		if schema == nil {
			return nil
		}
		if schema.Types != nil {
			return schema.Types.ToStrings()
		}
		schema = schema.Ref
	}
	return nil
}

// failuresOf returns the defects of each parameter, sorted, each failure once. It quotes the
// schema, which is content of the repository, and no parameter, which may be a secret.
func failuresOf(err *jsonschema.ValidationError) []string {
	var failures []string
	for rest := []*jsonschema.ValidationError{err}; len(rest) > 0; {
		next := rest[len(rest)-1]
		rest = append(rest[:len(rest)-1], next.Causes...)
		if len(next.Causes) == 0 {
			failures = append(failures, failureOf(next))
		}
	}
	slices.Sort(failures)
	return slices.Compact(failures)
}

func failureOf(err *jsonschema.ValidationError) string {
	at := strings.Join(err.InstanceLocation, ".")
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		return fmt.Sprintf("%s: required", names(k.Missing))
	case *kind.DependentRequired:
		return fmt.Sprintf("%s: required with %s", names(k.Missing), k.Prop)
	case *kind.AdditionalProperties:
		return fmt.Sprintf("%s: not known to the schema", names(k.Properties))
	}
	if at == "" {
		return "the parameters together: " + wanted(err.ErrorKind)
	}
	return at + ": " + wanted(err.ErrorKind)
}

// wanted returns what a keyword of a schema asks for.
func wanted(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "want " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		options := make([]string, len(k.Want))
		for i, option := range k.Want {
			options[i] = fmt.Sprint(option)
		}
		return "want one of " + cut(strings.Join(options, ", "))
	case *kind.Const:
		return "want " + cut(fmt.Sprint(k.Want))
	case *kind.Pattern:
		return "want a text that matches " + cut(k.Want)
	case *kind.Format:
		return "want the format " + cut(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("want at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("want at most %d characters", k.Want)
	case *kind.Minimum:
		return "want at least " + k.Want.RatString()
	case *kind.Maximum:
		return "want at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "want more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "want less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "want a multiple of " + k.Want.RatString()
	case *kind.FalseSchema:
		return "not allowed by the schema"
	default:
		return "does not meet " + cut(strings.Join(k.KeywordPath(), "/"))
	}
}

func names(all []string) string {
	all = slices.Sorted(slices.Values(all))
	if len(all) > maxFailures {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxFailures], ", "), len(all)-maxFailures)
	}
	return strings.Join(all, ", ")
}

func cut(text string) string {
	if len(text) > maxWant {
		return strings.ToValidUTF8(text[:maxWant], "") + "…"
	}
	return text
}
