// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// schemaURL is the base of references inside a schema. No other URL is loaded.
const schemaURL = "file:///values.schema.json"

// refusal loads no schema. Helm would fetch what a schema refers to, from wherever that is.
type refusal struct{}

// Load implements jsonschema.URLLoader.
func (refusal) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s, and schemas are not fetched; put the definitions into the schema, or set skipSchema", url)
}

// checkSchemas compares the values of a chart and of its dependencies with their schemas.
func checkSchemas(c *chart.Chart, values any) error {
	fields, err := tableOf(values)
	if err != nil {
		return fmt.Errorf("values of chart %s: %w", c.Name(), err)
	}
	var errs []error
	if c.Schema != nil {
		if err := checkSchema(c.Schema, fields); err != nil {
			errs = append(errs, fmt.Errorf("values do not meet values.schema.json of chart %s: %w", c.Name(), err))
		}
	}
	for _, dependency := range c.Dependencies() {
		if below := fields[dependency.Name()]; below != nil {
			errs = append(errs, checkSchemas(dependency, below))
		}
	}
	return errors.Join(errs...)
}

func tableOf(values any) (map[string]any, error) {
	switch v := values.(type) {
	case map[string]any:
		return v, nil
	case common.Values:
		return v, nil
	default:
		return nil, fmt.Errorf("are a %T, want a map", values)
	}
}

func checkSchema(text []byte, values map[string]any) error {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refusal{})
	if err := compiler.AddResource(schemaURL, schema); err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	compiled, err := compiler.Compile(schemaURL)
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	if err := compiled.Validate(values); err != nil {
		return errors.New(strings.Join(mistakes(err), "; "))
	}
	return nil
}

// mistakes returns the lines of a validation's error that name a value: "at '/replicas': got string,
// want integer".
func mistakes(err error) []string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "- "); strings.HasPrefix(line, "at ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return []string{err.Error()}
	}
	return lines
}
